"""The yardsticks of a replay: N_eq, A_s, the no-cost bound; and the paper authors' own log as
anchor.
"""

from __future__ import annotations

import gc
import random
from dataclasses import replace
from functools import lru_cache

import pytest
from replay.windows import summit_names, summit_window, window
from support.data import data_file
from support.policy_states import active, decide, fresh

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.domain.events import PoolChanged
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer.decide.policies.plain import Plain
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.simulation.bounds import bounds_of, no_cost_bound, start_bound
from bftrainer_replay.simulation.play import (
    Scenario,
    equivalent_nodes,
    play,
    ran_out_s,
    static_outcome,
)
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.replay_world import Arrival, DecideOn
from bftrainer_replay.simulation.time_to_done import fluid_bound, time_to_done
from bftrainer_replay.workload.curves import read_curves
from bftrainer_replay.workload.workload import read_workload

CURVE = Curve((1, 8), (10.0, 80.0))
BFTRAINER = BFTrainer(Exact(), OBJECTIVES["throughput"], 120.0)


def arrivals(count: int, total: float = 1e9) -> tuple[Arrival, ...]:
    return tuple(
        Arrival(0.0, Trainer(f"t{i}", CURVE, 1, 8, 20.0, 10.0, total)) for i in range(count)
    )


def constant(nodes: int) -> LogWindow:
    return window(1000.0, "abcdefghij"[:nodes])


CHANGING = window(1000.0, "abcd", (100.0, "ef"), (600.0, "bcdef"))


@pytest.mark.parametrize("before", [(700, 10, 10), (0, 10, 10), (10**6, 10, 10)])
def test_garbage_is_collected_as_before_when_a_replay_has_ended(
    before: tuple[int, int, int],
) -> None:
    """Also when it fails. A caller's rarer collections, or none at all (0), hold during it."""
    seen = []

    def on_time(_: float) -> None:
        seen.append(gc.get_threshold())
        raise InterruptedError

    usual = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        with pytest.raises(InterruptedError):
            play(
                Scenario(constant(4), arrivals(1)), BFTRAINER, engine=lambda: None, on_time=on_time
            )
        assert gc.get_threshold() == before
        assert seen[0][0] == (before[0] and max(before[0], 20_000))
    finally:
        gc.set_threshold(*usual)


def test_resource_integral_and_equivalent_nodes() -> None:
    assert pool_sizes_of(CHANGING).node_s() == 4 * 100 + 6 * 500 + 1 * 400
    assert equivalent_nodes(CHANGING) == 3.8


def test_submissions_that_only_lengthen_the_queue_need_no_decision() -> None:
    spread = tuple(replace(a, at_s=7.0 * i) for i, a in enumerate(arrivals(40, total=4000.0)))
    scenario = Scenario(constant(10), spread, 3)
    everything = play(scenario, EqualShare())
    fewer = play(scenario, EqualShare(), skip_queueing=True)
    assert fewer.decisions < everything.decisions
    assert fewer.totals == everything.totals
    ends = [(run.trainer.id, run.started_s, run.finished_s, run.samples) for run in everything.runs]
    assert [
        (run.trainer.id, run.started_s, run.finished_s, run.samples) for run in fewer.runs
    ] == ends[: len(fewer.runs)]
    assert {run.finished_s for run in everything.runs[len(fewer.runs) :]} <= {None}


def test_static_outcome_of_a_fraction_of_a_node_lies_between() -> None:
    # Linear curves: 3.8 nodes do 38 samples/s whatever the trainers' number.
    assert static_outcome(Scenario(CHANGING, arrivals(3))) == pytest.approx(38_000)


def test_static_outcome_of_a_queue_that_runs_out_goes_on_at_its_rate() -> None:
    enough = static_outcome(Scenario(constant(4), arrivals(3), max_parallel=2))
    short = static_outcome(Scenario(constant(4), arrivals(3, total=1000.0), max_parallel=2))
    assert enough == pytest.approx(40_000)
    assert short == pytest.approx(40_000)


def test_work_that_ran_out_is_noticed() -> None:
    scenario = Scenario(
        constant(4), arrivals(3, total=1000.0), max_parallel=2, cost_model=CostModel.PAPER
    )
    assert ran_out_s(play(scenario, EqualShare()), scenario) == 50.0
    plenty = replace(scenario, arrivals=arrivals(3))
    assert ran_out_s(play(plenty, EqualShare()), plenty) is None


def test_without_changes_or_costs_the_bound_is_the_static_outcome() -> None:
    scenario = Scenario(constant(5), arrivals(4), max_parallel=4)
    assert (
        no_cost_bound(scenario) == pytest.approx(static_outcome(scenario)) == pytest.approx(50_000)
    )


def test_a_pool_that_is_always_empty_trains_nothing() -> None:
    scenario = Scenario(constant(0), arrivals(2))
    assert (
        play(scenario, BFTRAINER).totals.samples
        == static_outcome(scenario)
        == no_cost_bound(scenario)
        == 0
    )


# --- the Summit log of the paper's authors: 1,024 nodes, 168 h, 1,000 ShuffleNet trials, P_jmax 10,
# T_fwd 120 s


@lru_cache(maxsize=2)
def summit(shuffled: bool = False) -> Scenario:
    names = summit_names()
    here = summit_window(168, nodes=names)
    if shuffled:
        here = renamed(here, names)
    curves = read_curves(data_file("summit-trainers-table2/scaling-samples-per-second.csv"))
    workload = read_workload(
        data_file("summit-trainers-table2/hpo-shufflenet-1000J.csv"), curves, "shufflenet"
    )
    return Scenario(here, workload.arrivals, 10, CostModel.PAPER, DecideOn.POOL)


def renamed(here: LogWindow, names: list[str]) -> LogWindow:
    """The same log with the names shuffled: neighbours by name are no neighbours in the
    machine any more.
    """
    other = dict(zip(names, random.Random(1).sample(names, len(names)), strict=True))

    def new(nodes: frozenset[str]) -> frozenset[str]:
        return frozenset(other[n] for n in nodes)

    events = tuple(
        PoolEvent(e.at_s, PoolChanged(new(e.change.joined), new(e.change.left)))
        for e in here.events
    )
    return replace(here, initial=new(here.initial), events=events)


DIGIT = 0.00005
"""Half of the last digit: decisions of the core are the same on every machine, so its figures are,
too.
"""


@lru_cache(maxsize=1)
def summit_static() -> float:
    return static_outcome(summit())


def efficiency(policy: Policy, **changes: object) -> float:
    return play(replace(summit(), **changes), policy).totals.samples / summit_static()  # type: ignore[arg-type]


@pytest.mark.data
@pytest.mark.slow
def test_summit_bftrainer_deciding_on_all_events() -> None:
    assert efficiency(BFTRAINER, decide_on=DecideOn.ALL) == pytest.approx(0.8946, abs=DIGIT)
    stalls = efficiency(BFTRAINER, decide_on=DecideOn.ALL, cost_model=CostModel.STALL)
    assert stalls == pytest.approx(0.8808, abs=DIGIT)


@pytest.mark.data
@pytest.mark.slow
def test_summit_with_start_and_switch() -> None:
    """docs/results.md: torchft, 8 s in which new nodes start."""
    costs = {"start_s": 8.0, "scale_up_s": 0.12, "scale_down_s": 0.13}
    arrivals = tuple(replace(a, trainer=replace(a.trainer, **costs)) for a in summit().arrivals)
    found = efficiency(
        BFTRAINER, arrivals=arrivals, decide_on=DecideOn.ALL, cost_model=CostModel.OVERLAP
    )
    assert found == pytest.approx(0.9116, abs=DIGIT)


@pytest.mark.data
@pytest.mark.slow
def test_summit_no_cost_bound() -> None:
    assert no_cost_bound(summit()) / summit_static() == pytest.approx(0.9242, abs=DIGIT)


@pytest.mark.data
@pytest.mark.slow
def test_summit_start_bound() -> None:
    """An independent program found 90.9 %, and 78.8 % if rescaling costs ten times as much."""
    for factor, expected in ((1.0, 0.909), (10.0, 0.788)):
        assert start_bound(costly(factor)) / summit_static() == pytest.approx(expected, abs=0.003)  # type: ignore[operator]
    assert bounds_of(summit()).start is None, "no time passes under the paper's costs"


def costly(factor: float) -> Scenario:
    """Physical stalls of ``factor`` times the length."""
    arrivals = tuple(
        replace(a, trainer=replace(a.trainer, scale_up_s=factor * a.trainer.scale_up_s))
        for a in summit().arrivals
    )
    return replace(summit(), arrivals=arrivals, cost_model=CostModel.STALL)


@pytest.mark.data
@pytest.mark.slow
def test_summit_name_order_cuts_preemptions_by_a_tenth_and_lifts_both_policies() -> None:
    """Deciding on pool changes. With names that say nothing, equal share reaches the paper's 75
    percent.
    """
    for policy, efficiency_by_name in ((EqualShare(), 0.7636), (BFTRAINER, 0.8345)):
        by_name, scattered = play(summit(), policy), play(summit(shuffled=True), policy)
        hits = [sum(run.preemptions for run in outcome.runs) for outcome in (by_name, scattered)]
        assert hits[0] <= 0.90 * hits[1]
        assert by_name.totals.samples > scattered.totals.samples
        assert by_name.totals.samples / summit_static() == pytest.approx(
            efficiency_by_name, abs=DIGIT
        )
        if isinstance(policy, EqualShare):
            assert scattered.totals.samples / summit_static() == pytest.approx(0.75, abs=0.01)


# --- Plain preemptible jobs, what a loss of all nodes costs under every policy, and the times that
# compare with them


def trainer(
    name: str, total: float, *, min_nodes: int = 1, max_nodes: int = 8, up_s: float = 0.0
) -> Trainer:
    """One sample per second and node."""
    return Trainer(name, Curve((1, 8), (1.0, 8.0)), min_nodes, max_nodes, up_s, 0.0, total)


def test_jobs_keep_their_nodes_and_the_oldest_waiting_one_that_fits_is_next() -> None:
    trainers = [
        active("hit", 1, min_nodes=2),
        active("young", 1),
        active("runs", 2, min_nodes=2),
        active("wide", min_nodes=3),
    ]
    assert decide(Plain(), fresh(trainers, 5)).counts == (2, 1, 2, 0), (
        "a job that lost a node requeues with its age"
    )
    assert decide(Plain(nodes=4), fresh([active("t"), active("u", 4)], 9)).counts == (4, 4)


def test_every_job_is_submitted_whatever_p_jmax() -> None:
    arrivals = tuple(Arrival(0.0, trainer(name, 100.0)) for name in "tu")
    outcome = play(Scenario(window(1000.0, "ab"), arrivals, 1), Plain())
    assert [run.finished_s for run in outcome.runs] == [100.0, 100.0]
    late = play(Scenario(window(1000.0, "ab"), arrivals, 1), Plain(start_s=60.0))
    assert [run.finished_s for run in late.runs] == [160.0, 160.0]


@pytest.mark.parametrize("policy", [Plain(), EqualShare()])
@pytest.mark.parametrize(("checkpoint_s", "repeated_s"), [(None, 0.0), (60.0, 30.0), (25.0, 15.0)])
def test_work_since_the_last_checkpoint_is_done_again_under_every_policy(
    policy: Policy, checkpoint_s: float | None, repeated_s: float
) -> None:
    """One node from 0 to 90 s, and another from 140 s on."""
    log = window(1000.0, "ab", (0.0, "b"), (90.0, "a"), (140.0, "b"))
    outcome = play(
        Scenario(log, (Arrival(0.0, trainer("t", 100.0)),), 4, checkpoint_s=checkpoint_s), policy
    )
    assert [run.finished_s for run in outcome.runs] == [150.0 + repeated_s]


def test_checkpoints_go_on_through_rescales_and_a_loss_that_leaves_enough_nodes_repeats_nothing() -> (
    None
):
    run = ReplayedTrainer(trainer("t", 1e6, min_nodes=2), CostModel.STALL, 0.0, checkpoint_s=100.0)
    run.rescale(frozenset("abc"), 0.0)
    run.rescale(frozenset("abcd"), 130.0)
    run.lose_nodes(frozenset("d"), 170.0)
    assert (run.samples, run.lost_to_preemption) == (3 * 130.0 + 4 * 40.0, 0.0)
    run.lose_nodes(frozenset("bc"), 250.0)  # too few are left; the last checkpoint was at 200 s
    assert run.samples == 3 * 130.0 + 4 * 40.0 + 3 * 30.0
    assert run.lost_to_preemption == 3 * 50.0


def test_times_until_done_and_the_fluid_bound() -> None:
    """By hand: t and u share 2 nodes at one sample per second and node, the shorter first."""
    arrivals = (Arrival(0.0, trainer("t", 100.0)), Arrival(10.0, trainer("u", 20.0)))
    log = window(1000.0, "ab", (30.0, "b"))
    bound = fluid_bound(log, arrivals)
    assert bound.mean_h == pytest.approx((90.0 + 10.0) / 2 / 3600)
    assert bound.last_h == pytest.approx(90.0 / 3600)
    plain = play(Scenario(log, arrivals, 1), Plain())
    done = time_to_done(log, arrivals, plain.runs)
    assert (done.mean_h, done.last_h) == pytest.approx(((100.0 + 20.0) / 2 / 3600, 100.0 / 3600))
    assert plain.totals.samples == pytest.approx(120.0)


def test_a_trainer_that_is_not_done_counts_until_the_end_and_says_so() -> None:
    arrivals = (
        Arrival(-50.0, trainer("t", 1e6)),
        Arrival(100.0, trainer("u", 10.0)),
        Arrival(2000.0, trainer("v", 1.0)),
    )
    log = window(1000.0, "ab")
    done = time_to_done(log, arrivals, play(Scenario(log, arrivals, 4), Plain()).runs)
    assert (done.mean_h, done.last_h, done.unfinished) == (
        pytest.approx((1000.0 + 10.0) / 2 / 3600),
        1000.0 / 3600,
        1,
    )
    assert done.text(done.last_h).startswith("≥ ")
    bound = fluid_bound(log, arrivals)
    assert bound.unfinished == 1
    assert (
        fluid_bound(log, (Arrival(0.0, Trainer("w", Curve((1,), (1.0,)), 1, 1, 0.0, 0.0)),)) is None
    )
