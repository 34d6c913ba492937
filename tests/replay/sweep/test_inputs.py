"""Generated trainers outlast the log, in nodes and in GPUs; a replay in which they do not is
refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from replay.windows import window

from bftrainer_replay.cli.sampling import replayed
from bftrainer_replay.cli.workers import Workers
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.gpu_chapter import source_by_node
from bftrainer_replay.simulation.play import ran_out_s
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.sweep.cell import Cell, each_once, task
from bftrainer_replay.sweep.compute import replayed as played
from bftrainer_replay.sweep.compute import scenario_of
from bftrainer_replay.sweep.inputs import SweepWorkload, WorkloadTable, inputs_of, workload_of
from bftrainer_replay.sweep.results import WorkRanOutError
from bftrainer_replay.sweep.sample import whole

DAY_S = 86_400.0


def steady(nodes: int, days: float) -> LogWindow:
    """Nodes that are always idle."""
    return window(days * DAY_S, [f"n{i:02}" for i in range(nodes)], nodes=nodes)


@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize(("places", "pool"), [(10, steady(4, 3)), (200, steady(64, 0.5))])
@pytest.mark.parametrize("table", [WorkloadTable(kind="hpo"), WorkloadTable(kind="diverse")])
def test_generated_trainers_outlast_the_log(
    gpus: int, places: int, pool: LogWindow, table: WorkloadTable
) -> None:
    """Trainers of a log in GPUs do the work of all GPUs of a node: there have to be more of
    them.
    """
    source = workload_of(table) if gpus == 1 else source_by_node(workload_of(table), gpus)
    cell = Cell("log", source.name, max_parallel=places, objective="throughput")
    inputs = inputs_of({"log": pool}, [source], [cell])
    scenario = scenario_of(cell, inputs)
    result, outcome = played(cell, scenario)
    assert ran_out_s(outcome, scenario) is None
    assert result["work_ran_out_at"] is None
    assert float(str(result["unused_node_h"])) == pytest.approx(0, abs=1)


def too_few(
    window: LogWindow, seed: int, *, places: int = 0, units: int = 1
) -> tuple[Arrival, ...]:
    """Two trainers that four nodes finish in less than a day."""
    return workload_of(WorkloadTable(kind="hpo")).make(window, seed)[:2]


@pytest.mark.parametrize("is_table", [False, True], ids=["generated", "a table of the user"])
def test_a_replay_that_runs_out_of_generated_work_is_refused(
    is_table: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The work of a user's own table may end: that is a note."""
    pool = steady(4, 3)
    source = SweepWorkload("few", too_few, has_times=is_table)
    cell = Cell("log", "few", max_parallel=1)
    inputs = inputs_of({"log": pool}, [source], [cell])
    tasks, sample = each_once([task(cell, inputs)]), whole(pool)
    arguments = (tasks, [cell], sample, inputs, source, tmp_path, Workers(1))
    if is_table:
        assert list(replayed(*arguments)) == [cell]
        assert (
            "note: the trainers of few ran out of work in 1 of 1 replay, first on 1970-01-01T"
            in capsys.readouterr().err
        )
        return
    with pytest.raises(
        WorkRanOutError,
        match=r"^the generated trainers ran out of work on 1970-01-01T.* \(--hours\)",
    ):
        replayed(*arguments)
