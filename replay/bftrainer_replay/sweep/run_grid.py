"""A sweep from Python: a grid file in, rows out."""

from __future__ import annotations

import os
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from bftrainer_replay.sweep.grid import read_sweep
from bftrainer_replay.sweep.result_files import ResultStore
from bftrainer_replay.sweep.results import SweepRow, rows_of
from bftrainer_replay.sweep.run_tasks import FailedTask, do_all

CELLS = "cells"
"""The folder of an output directory that holds a file per result."""


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """The rows of a sweep in the order of the grid, and the tasks that failed: their cells have no
    row, and the same sweep computes only them.
    """

    rows: tuple[SweepRow, ...]
    failures: tuple[FailedTask, ...]


def sweep(grid: Path, out: Path, executor: Executor | None = None) -> SweepOutcome:
    """Replay every cell of the file ``grid``, and keep each result in ``out``.

    ``executor`` runs the replays: any :class:`concurrent.futures.Executor` whose workers share
    ``out``; None: processes on all cores of this machine. A sweep that is run again computes only
    what is missing. Raises ``UserError`` for a mistake in the grid.
    """
    chosen = read_sweep(grid)
    store = ResultStore(out / CELLS)
    failures = do_all(
        chosen.tasks,
        chosen.inputs,
        store,
        jobs=len(os.sched_getaffinity(0)),
        executor=executor,
        cost=chosen.cost_s,
    )
    return SweepOutcome(rows_of(chosen.cells, chosen.inputs, store), failures)
