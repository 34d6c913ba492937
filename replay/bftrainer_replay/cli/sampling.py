"""The pieces of a log that ``report`` and ``advise`` replay, and the replays themselves."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.output import note
from bftrainer.counted import counted
from bftrainer_replay.cli.sweeping import complain_of, note_slow_replays, progress_of_tasks
from bftrainer_replay.cli.workers import Workers
from bftrainer_replay.cli.workload_options import tell_remarks
from bftrainer_replay.simulation.engine.library import installed

if TYPE_CHECKING:
    from bftrainer.decide.domain.model import Trainer
    from bftrainer_replay.logs.model import LogWindow
    from bftrainer_replay.sweep.cell import Cell, Inputs, Task
    from bftrainer_replay.sweep.inputs import SweepWorkload
    from bftrainer_replay.sweep.results import SweepRow
    from bftrainer_replay.sweep.sample import LogSample

BUDGET_S = 120.0
"""Seconds of one core that the replays of a report or of advice may take by default, on the machine
of the benchmarks.
"""
_SAMPLE_H = 6.0
_SIMPLE_POLICY_SHARE = 0.7
"""The part of a replay's time that policies which do not optimize take."""


full_option = click.option(
    "--full",
    is_flag=True,
    help="Replay all of a long log.  [default: pieces drawn over it, enough for a few minutes]",
)
"""Gives a command the option --full."""


def sample_of(
    window: LogWindow, source: SweepWorkload, cells: Sequence[Cell], *, full: bool, base: Cell
) -> LogSample:
    """Return the part of the log to replay: all of it, or pieces that take a few minutes together.

    All is replayed with ``full``, and if the trainers have submission times of their own, which
    pieces would not fit. Else the share of the log is such that the replays of all ``cells``
    (settings) take about ``BUDGET_S``.
    """
    from bftrainer_replay.sweep.sample import cost_s, drawn, whole

    if full or source.has_times:
        return whole(window)
    trainers = pilot_trainers(window, source, base.seed)
    whole_s = sum(cost_s(window, trainers, cell.max_parallel) for cell in cells)
    return drawn(window, min(BUDGET_S / whole_s, 1.0))


def pilot_trainers(window: LogWindow, source: SweepWorkload, seed: int) -> list[Trainer]:
    """Return trainers of the workload, some of every model: those that the log's first hours need.

    A short part of the log is enough to estimate costs by.
    """
    from bftrainer_replay.logs.model import cut_short

    short = cut_short(window, window.start_s + 3600 * _SAMPLE_H)
    return [arrival.trainer for arrival in source.make(short, seed)]


def replayed(
    tasks: Sequence[Task],
    cells: Sequence[Cell],
    sample: LogSample,
    inputs: Inputs,
    source: SweepWorkload,
    folder: Path,
    workers: Workers,
) -> dict[Cell, SweepRow]:
    """Run the replays that have no result yet, and return a row of results for each cell.

    A cell is one combination of settings, of which each piece of the log is a task. Results are
    files in ``folder``: the same command resumes after an interruption. Raises
    :class:`~bftrainer_replay.sweep.results.WorkRanOutError` if trainers that were generated did not
    outlast the log.
    """
    from bftrainer_replay.sweep.result_files import ResultStore
    from bftrainer_replay.sweep.run_tasks import do_all
    from bftrainer_replay.sweep.sample import cost_s

    tell_remarks(inputs)
    store = ResultStore(folder)
    store.check_folder()
    pending = [task for task in tasks if store.get(task) is None]
    if not sample.is_whole:
        note(f"replaying {sample.text}; --full replays all of it")
    if pending:
        done_count = len(tasks) - len(pending)
        done_text = f", {done_count:,} of them done before" if done_count else ""
        click.echo(
            f"{counted(len(tasks), 'replay')}{done_text}, on {workers.text(len(pending))}",
            err=True,
        )

    costs: dict[tuple[object, ...], float] = {}

    def cost(task: Task) -> float:
        """Return about how many seconds a replay takes, for the progress bar."""
        cell = task.cell
        key = cell.log, cell.seed, cell.max_parallel
        # Workloads of one model each share the cost of the first workload: some take longer, others
        # less.
        if key not in costs:
            arrivals = inputs.arrivals[cell.log, tasks[0].cell.workload, cell.seed]
            trainers = [arrival.trainer for arrival in arrivals]
            costs[key] = cost_s(inputs.windows[cell.log], trainers, cell.max_parallel)
        return costs[key] * (1.0 if cell.policy == "bftrainer" else _SIMPLE_POLICY_SHARE)

    began_s = time.monotonic()
    with progress_of_tasks("replays") as show:
        failures = do_all(
            tasks,
            inputs,
            store,
            jobs=workers.processes,
            executor=workers.executor,
            on_done=show,
            cost=cost,
        )
        complain_of(failures, len(tasks))
    note_slow_replays(time.monotonic() - began_s, has_engine=installed() is not None)
    rows = sample.rows(cells, inputs, store)
    _check_work_lasted(rows, source)
    return rows


def _check_work_lasted(rows: Mapping[Cell, SweepRow], source: SweepWorkload) -> None:
    """Check that the trainers did not run out of work before the log ended.

    Generated ones must not: that is an error. For a user's own, print when they did.
    """
    from bftrainer_replay.sweep.results import check_work_lasted

    ends = [row.result["work_ran_out_at"] for row in rows.values()]
    if not source.has_times:
        check_work_lasted(ends)
        return
    early_ends = [end for end in ends if end is not None]
    if early_ends:
        note(
            f"the trainers of {source.name} ran out of work in {len(early_ends)} of "
            f"{counted(len(ends), 'replay')}, first on "
            f"{min(early_ends)}: nodes that are idle after that count as unused"
        )
