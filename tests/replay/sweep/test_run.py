"""Many replays: the same results in any number of processes, failures apart, and damaged results
made again.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.errors import UserError
from bftrainer_replay.comparison.advise import numbers_to_try
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.model import LogWindow, restricted_log
from bftrainer_replay.simulation.play import enough_trainers
from bftrainer_replay.sweep.cell import Cell, Inputs, each_once, task
from bftrainer_replay.sweep.inputs import WorkloadTable, inputs_of, workload_of
from bftrainer_replay.sweep.result_files import ResultStore
from bftrainer_replay.sweep.results import as_dict, rows_of
from bftrainer_replay.sweep.run_tasks import do_all

BASE = Cell("log", "diverse", max_parallel=3)
CELLS = tuple(
    replace(BASE, policy=policy, forward_s=s)
    for policy in ("bftrainer", "equal-share")
    for s in (30.0, 120.0)
)


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return inputs_of(
        {"log": restricted_log(generate(24, 0.2, 1))}, [workload_of(WorkloadTable())], CELLS
    )


def results(inputs: Inputs, folder: Path, jobs: int) -> list[dict[str, object]]:
    store = ResultStore(folder)
    assert do_all(each_once(task(cell, inputs) for cell in CELLS), inputs, store, jobs=jobs) == ()
    return [as_dict(row) for row in rows_of(CELLS, inputs, store)]


def test_processes_give_what_one_process_gives_and_a_damaged_result_is_made_again(
    inputs: Inputs, tmp_path: Path
) -> None:
    one = results(inputs, tmp_path / "one", 1)
    assert len(one) == 4
    assert results(inputs, tmp_path / "two", 2) == one
    # Equal share does not look at T_fwd.
    files = sorted((tmp_path / "two").iterdir())
    assert len(files) == 2 + 1
    files[0].write_bytes(files[0].read_bytes()[:20])
    files[1].write_bytes(b"[" * 100_000)
    times = [path.stat().st_mtime_ns for path in files[2:]]
    assert results(inputs, tmp_path / "two", 2) == one
    assert [path.stat().st_mtime_ns for path in files[2:]] == times


def test_a_folder_that_cannot_be_written_is_an_error_before_the_first_replay(
    tmp_path: Path,
) -> None:
    """Each of the replays had failed instead, after its minutes."""
    (tmp_path / "report").write_text("")
    with pytest.raises(UserError, match=r"report is not a directory; specify another .* --out"):
        ResultStore(tmp_path / "report" / "cells").check_folder()
    ResultStore(tmp_path / "other" / "cells").check_folder()
    assert not (tmp_path / "other").exists()
    tmp_path.chmod(0o555)
    if not os.access(tmp_path, os.W_OK):  # root may write everywhere
        with pytest.raises(UserError, match=r"cannot be written; specify another .* --out"):
            ResultStore(tmp_path / "other" / "cells").check_folder()


def test_after_an_interruption_no_thread_of_the_pool_is_left(
    inputs: Inputs, tmp_path: Path
) -> None:
    """One that is left at the end of the program may print a traceback below "interrupted"."""
    tasks = list(each_once(task(cell, inputs) for cell in CELLS))
    before = set(threading.enumerate())

    def interrupt(done: float, whole: float) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        do_all(tasks, inputs, ResultStore(tmp_path), jobs=2, on_done=interrupt)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_cell_that_fails_does_not_take_the_others_along(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    (tmp_path / "mine_of_sweep.py").write_text(
        "def bad(trainer, n):\n    return -1.0 if n == 3 else float(n)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    tasks = [task(cell, inputs) for cell in (replace(BASE, objective="mine_of_sweep:bad"), BASE)]
    store = ResultStore(tmp_path / "cells")
    (failure,) = do_all(tasks, inputs, store, jobs=jobs)
    assert "gave -1.0 for trainer" in failure.reason
    assert sum(store.get(task) is not None for task in tasks) == len(tasks) - 1


# --- P_jmax by default: enough trainers for the idle nodes of the log


@pytest.mark.parametrize(
    ("nodes", "largest", "expected"), [(20, 64, 10), (407, 64, 13), (8311, 64, 100), (407, 8, 100)]
)
def test_enough_for_twice_the_mean_number_of_idle_nodes_within_bounds(
    nodes: int, largest: int, expected: int
) -> None:
    window = LogWindow(0.0, 3600.0, frozenset(f"n{i}" for i in range(nodes)), (), nodes, "made up")
    trainers = [
        Trainer(f"t{n}", Curve((1, 64), (1.0, 60.0)), 1, n, 18.0, 12.0) for n in (1, largest)
    ]
    assert enough_trainers(window, trainers) == expected


def test_more_and_fewer_are_tried_around_it() -> None:
    assert numbers_to_try(10) == (5, 10, 20, 35)
    assert numbers_to_try(100) == (25, 50, 100, 200)
    assert numbers_to_try(13) == (3, 6, 13, 26, 52)
    assert numbers_to_try(1) == (1, 2, 4)
