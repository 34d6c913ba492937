"""The paper's own reproduction: its rows, files and yardsticks on a short log, and the anchors on
the authors' own.
"""

from __future__ import annotations

import random
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from replay.windows import summit_log, window
from support import oracle_per_node
from support.data import data_file

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.domain.events import PoolChanged
from bftrainer.decide.domain.model import Curve
from bftrainer.decide.domain.problem import Problem, TrainerDemand
from bftrainer.errors import UserError
from bftrainer_papers.bftrainer import big_m, cells, evaluate, experiments
from bftrainer_papers.bftrainer.claims import CLAIMS, PARALLEL, RUNTIMES, TABLE_1, WHY, rows_of
from bftrainer_papers.bftrainer.collect import Memo, collect
from bftrainer_papers.bftrainer.report import reproduction_of, write
from bftrainer_papers.bftrainer.results import ExperimentResults, idle_node_s
from bftrainer_papers.bftrainer.solver_times import random_map
from bftrainer_papers.bftrainer.speedups import compare
from bftrainer_papers.bftrainer.tables import rank_correlation, runtime_table, table_1
from bftrainer_papers.reproduction import PaperResult, ResultVerdict
from bftrainer_replay.analysis.characterize import characterize
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.model import EventLog, PoolEvent, cut_short, restricted_log
from bftrainer_replay.logs.node_list import read_node_list
from bftrainer_replay.sweep.result_files import ResultStore
from bftrainer_replay.sweep.run_tasks import do_all
from bftrainer_replay.workload.curves import TABLE_2, read_curves

GRID = experiments.ExperimentGrid(
    (10.0, 120.0), (5, 10, 35), (1.0, 10.0), (2, 3), (8, 16), solves=2, trials=40
)
H = 3600.0


def run(folder: Path, log: EventLog) -> ExperimentResults:
    sources = experiments.ExperimentSources(log, experiments.order_of(log, None), TABLE_2)
    inputs = experiments.inputs_of(sources, GRID)
    plan = experiments.plan_of(GRID, sorted(TABLE_2))
    failures = do_all(plan.tasks(inputs), inputs, ResultStore(folder), compute=cells.compute)
    assert failures == ()
    return collect(inputs, GRID, plan, folder, {}, trainers_from_table=False)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ExperimentResults:
    return run(tmp_path_factory.mktemp("cells"), generate(160, 1, 1))


def test_every_claim_but_those_of_absent_sources_is_measured(found: ExperimentResults) -> None:
    values = evaluate.evaluate(found)
    absent = {key for key in CLAIMS if key.startswith(("table-1-Theta", "table-1-Mira"))} | {
        "poisson",
        "gap",
    }
    assert CLAIMS.keys() - values.keys() == absent
    rows = rows_of(values)
    assert len(rows) == len(values)
    for row in rows:
        assert all(hasattr(row, f.name) for f in fields(PaperResult))
        assert row.what
        assert isinstance(row.ours, float)
        assert isinstance(row.verdict, ResultVerdict)


def test_a_planted_wrong_number_fails(found: ExperimentResults) -> None:
    values = evaluate.evaluate(found)
    for key, wrong in {
        "table-2": 3.0,
        "short-week": 5.0,
        "cost-ratio": -1.0,
        "roi-falls": 10.0,
    }.items():
        planted = {row.what: row for row in rows_of({**values, key: wrong})}
        assert planted[CLAIMS[key].what].verdict is ResultVerdict.FAILED, key
    right = {row.what: row for row in rows_of({**values, "cost-ratio": 76.0})}
    assert right[CLAIMS["cost-ratio"].what].verdict is ResultVerdict.WITHIN


def test_a_number_that_nobody_claims_is_refused() -> None:
    with pytest.raises(AssertionError):
        rows_of({"events-per-fortnight": 1.0})


def test_what_explains_a_row_belongs_to_a_claim() -> None:
    assert WHY.keys() <= CLAIMS.keys()


def test_all_figures_and_tables_are_written(found: ExperimentResults, tmp_path: Path) -> None:
    report = reproduction_of(found)
    number = write(tmp_path, found, report)
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) == number
    for figure in ("05", "06", "07a", "07b", "08", "09", "10", "11", "12", "13", "15", "16"):
        drawn = [
            name for name in names if name.startswith(f"fig-{figure}") and name.endswith(".png")
        ]
        assert drawn, figure
        for png in drawn:
            assert (tmp_path / png).read_bytes().startswith(b"\x89PNG")
            assert len((tmp_path / png).with_suffix(".csv").read_text().splitlines()) > 1
    assert {"table-1.csv", "table-3.csv", "table-4.csv", "rows.csv"} <= names
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert len(lines) == 1 + len(report.rows)


def test_a_second_run_computes_nothing(found: ExperimentResults, tmp_path: Path) -> None:
    log = generate(40, 0.25, 1)
    before = run(tmp_path, log)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    after = run(tmp_path, log)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files
    assert repr(evaluate.evaluate(after)) == repr(evaluate.evaluate(before)), (
        "repr, as NaN is not itself"
    )


def test_runtime_cells_carry_the_papers_numbers(found: ExperimentResults) -> None:
    for objective, table in RUNTIMES.items():
        shown = runtime_table(found, objective)
        assert len(shown) == len(table) * len(GRID.parallel)
        for model, p, paper, ours, tolerance, verdict, _ in shown:
            assert paper == table[model][PARALLEL.index(p)]
            assert verdict == ("within" if abs(ours - paper) <= tolerance else "FAILED")


def test_a_log_without_the_papers_start_begins_with_itself() -> None:
    log = generate(20, 0.5, 1)
    windows = experiments.windows_of(
        experiments.ExperimentSources(log, experiments.order_of(log, None), TABLE_2)
    )
    assert windows["week"].start_s == log.events[0].at_s
    assert windows["week"].end_s == windows["whole"].end_s == log.events[-1].at_s
    with pytest.raises(UserError, match="node-list"):
        experiments.order_of(log, ("elsewhere1", "elsewhere2"))


def test_a_log_that_offers_nothing_is_refused() -> None:
    events = (
        PoolEvent(0.0, PoolChanged(joined=frozenset("a"))),
        PoolEvent(H, PoolChanged(left=frozenset("a"))),
    )
    log = EventLog(events, "by hand")
    with pytest.raises(UserError, match="none of the 1 nodes is idle"):
        experiments.windows_of(experiments.ExperimentSources(log, ("b",), TABLE_2))


def test_cells_decide_and_pay_as_the_authors_replayer() -> None:
    plan = experiments.plan_of(experiments.FULL, sorted(TABLE_2))
    odd = [
        cell
        for cell in plan.cells
        if (cell.decide_on.value, cell.cost_model.value) != ("pool", "paper")
    ]
    assert set(odd) == {plan.all_events, plan.stall, *plan.models_all.values()}
    assert [cell.max_parallel for cell in plan.parallel["throughput"]] == list(PARALLEL)
    assert plan.base in plan.forward
    assert plan.base in plan.costs
    assert len(plan.models) == 7
    assert {cell.forward_s for cells in plan.parallel_short.values() for cell in cells} == {10.0}


# --- yardsticks by hand


def test_idle_node_time_until_an_instant_and_beyond_a_number() -> None:
    log = window(10 * H, "ab", (2 * H, "cde"), (4 * H, "abcd"))
    assert idle_node_s(log, 10 * H) / H == 2 * 2 + 5 * 2 + 1 * 6
    assert idle_node_s(log, 3 * H) / H == 2 * 2 + 5 * 1
    assert idle_node_s(log, 3 * H, 3) / H == 2
    assert np.isnan(idle_node_s(log, float("nan")))
    short = cut_short(log, 3 * H)
    assert (short.end_s, len(short.events)) == (3 * H, 1)
    assert cut_short(log, 11 * H) is log


def test_event_by_event() -> None:
    told = compare(
        np.array([10.0, 30.0, 9.0, 60.0, 5.0, 0.0]), np.array([10.0, 10.0, 10.0, 10.0, -1.0, 0.0])
    )
    assert told.worse == 20
    assert told.better_2 == 60, (
        "3 x, 6 x, and where equal share lost samples; a span without trainers is none"
    )
    assert told.better_5 == 40
    assert (told.of_trained_2, told.of_trained_5) == (50, 25)
    assert told.mean == pytest.approx((1 + 3 + 0.9 + 6) / 4)


def test_rank_correlation() -> None:
    assert rank_correlation(np.array([1.0, 2, 3]), np.array([2.0, 5, 7])) == pytest.approx(1)
    assert rank_correlation(np.array([1.0, 2, 3]), np.array([7.0, 5, 2])) == pytest.approx(-1)
    ties = rank_correlation(np.array([1.0, 1, 3, 4]), np.array([1.0, 2, 3, 4]))
    assert ties == pytest.approx(0.9486832980505138)
    assert np.isnan(rank_correlation(np.array([1.0, np.nan]), np.array([1.0, 2.0])))


def test_preempted_within_counts_changes_that_a_leave_follows() -> None:
    log = window(500.0, "a", (100.0, "b"), (160.0, "b"), (400.0, "a"))
    shares = [round(share, 6) for _, share in evaluate.preempted_within(log, (59.0, 60.0, 240.0))]
    assert evaluate.preempted_since(log, 60.0) == 50, (
        "one leave 60 s after the join, one 240 s after that"
    )
    assert shares == [0.0, pytest.approx(100 / 3, abs=1e-5), pytest.approx(200 / 3, abs=1e-5)]


# --- Eqn 10 as printed


def test_eqn_10_as_printed_in_counts_is_the_per_node_model_with_that_m() -> None:
    rng = random.Random(7)
    curve = Curve((1, 2, 4, 8), (10.0, 19.0, 35.0, 60.0))
    lost = 0
    for _ in range(12):
        pool = rng.randint(4, 9)
        held = rng.choice((0, 0, 1, pool // 2))
        claims = tuple(
            TrainerDemand(
                f"t{j}", curve, 1, 8, rng.uniform(1, 30), rng.uniform(1, 30), held if j == 0 else 0
            )
            for j in range(2)
        )
        problem = Problem(pool, 60.0, claims)
        printed = Exact().solve(big_m.as_printed(problem)).objective_value
        assert printed == pytest.approx(
            oracle_per_node.solve(problem, big_m=pool + 1).objective, rel=1e-6
        )
        lost += printed < Exact().solve(problem).objective_value * (1 - 1e-9)
    assert lost > 0, "it costs something at times"


def test_random_maps_keep_the_bounds_and_use_all_nodes() -> None:
    problem = random_map(random.Random(1), 5, 200)
    assert sum(c.current for c in problem.demands) == 200
    assert all(0 <= c.current <= 64 for c in problem.demands)
    assert sum(c.current for c in random_map(random.Random(1), 2, 400).demands) <= 128


def test_a_memo_is_kept_by_what_it_depends_on(tmp_path: Path) -> None:
    calls: list[int] = []

    def compute() -> dict[str, object]:
        calls.append(1)
        return {"x": len(calls)}

    memo = Memo(tmp_path)
    assert memo.get("a", [1], compute) == memo.get("a", [1], compute) == {"x": 1}
    assert memo.get("a", [2], compute) == {"x": 2}
    (kept,) = [path for path in tmp_path.iterdir() if '"x": 1' in path.read_text()]
    kept.write_text("half a fi")
    assert memo.get("a", [1], compute) == {"x": 3}, "a damaged file counts as not there"


# --- the authors' own log: section 2.1 and Table 1


@pytest.mark.data
def test_the_anchors_of_section_2_1_and_table_1() -> None:
    log = summit_log()
    nodes = read_node_list(data_file("summit-2021-02/summit-nodes-in-column-order.txt"))
    curves = read_curves(data_file("summit-trainers-table2/scaling-samples-per-second.csv"))
    windows = experiments.windows_of(
        experiments.ExperimentSources(log, experiments.order_of(log, nodes), curves)
    )
    all_ = characterize(windows["machine"])
    assert (all_.events, all_.joins, all_.leaves, all_.machine_nodes) == (
        22_883,
        14_049,
        10_573,
        4_734,
    )
    assert (round(all_.node_hours), round(all_.eq_nodes)) == (137_639, 407)
    assert (round(100 * all_.idle_share, 2), round(all_.per_hour(all_.events))) == (8.6, 68)
    ours = {
        "events": all_.events,
        "joins": all_.joins,
        "leaves": all_.leaves,
        "node-hours": all_.node_hours,
        "eq-nodes": all_.eq_nodes,
        "share": 100 * all_.idle_share,
        **{f"table-1-Summit-{column}": value for column, value in table_1(all_).items()},
    }
    verdicts = {
        row.what: row.verdict for row in rows_of({key: float(value) for key, value in ours.items()})
    }
    assert {v for what, v in verdicts.items() if what.startswith("2.1")} == {ResultVerdict.WITHIN}
    assert verdicts["Table 1, Summit: eq-nodes"] is ResultVerdict.FAILED, (
        "the table is of two months, the log of two weeks"
    )
    assert TABLE_1["Summit"][3] == 524
    week = windows["week"]
    assert (week.machine_nodes, week.span_s) == (1024, 168 * H)
    assert (
        replace(week, events=()).initial
        == restricted_log(log, end_s=week.start_s, nodes=nodes[:1024], start_s=week.start_s).initial
    )
