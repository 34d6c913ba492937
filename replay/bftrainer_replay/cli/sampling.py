"""The pieces of a log that ``report`` and ``advise`` replay, how long that takes, and the replays themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from bftrainer_replay.cli.sweeping import complain_of, progress_of_tasks, span

if TYPE_CHECKING:
    from bftrainer.domain.model import Trainer
    from bftrainer_replay.logs.model import LogWindow
    from bftrainer_replay.sweep.cell import Cell, Inputs, Task
    from bftrainer_replay.sweep.inputs import SweepWorkload
    from bftrainer_replay.sweep.sample import LogSample
    from bftrainer_replay.sweep.store import ResultStore

BUDGET_S = 120.0
"""Seconds of one core that the replays of a report or of advice may take by default, on the machine of the benchmarks."""
_CALIBRATION_S = 0.3
_PILOT_H = 6.0
# Seconds of a task, relative to a replay of the same cell: constant nodes have few events, a bound is one linear program.
_WEIGHTS = {"replay": 1.0, "static": 0.3, "static-bins": 0.3, "bound": 0.1, "start-bound": 0.1}


def full_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --full."""
    return click.option(
        "--full",
        is_flag=True,
        help="Replay all of a long log.  [default: pieces drawn over it, enough for a few minutes]",
    )(function)


def sample_of(window: LogWindow, source: SweepWorkload, cells: Sequence[Cell], *, full: bool, base: Cell) -> LogSample:
    """The part of the log that is replayed: all with ``full`` or where the trainers have submission times of their own."""
    from bftrainer_replay.sweep.sample import cost_s, drawn, whole

    if full or source.has_times:
        return whole(window)
    trainers = pilot_trainers(window, source, base.seed)
    # Each value of P_jmax has its runs on constant nodes; they take about a third of its replay.
    whole_s = sum(cost_s(window, trainers, cell.max_parallel) for cell in cells) * (1 + _WEIGHTS["static"] / 2)
    return drawn(window, min(BUDGET_S / whole_s, 1.0))


def pilot_trainers(window: LogWindow, source: SweepWorkload, seed: int) -> list[Trainer]:
    """Some trainers of the workload, of every model: those that the log's first hours need."""
    from bftrainer_replay.logs.model import cut_short

    short = cut_short(window, window.start_s + 3600 * _PILOT_H)
    return [arrival.trainer for arrival in source.make(short, seed)]


def replayed(tasks: Sequence[Task], sample: LogSample, inputs: Inputs, store: ResultStore, jobs: int) -> None:
    """Say what is replayed and about how long that takes, and do it. The same command resumes after an interruption."""
    from bftrainer_replay.sweep.run import do_all

    left = [task for task in tasks if store.get(task) is None]
    took = seconds_of(left, inputs)
    if not sample.is_whole:
        whole_s = took / max(sample.replayed_h * 3600, 1.0) * sample.log.span_s
        full = f" (about {span(whole_s / jobs)})" if left else ""
        click.echo(f"note: replaying {sample.text}; --full replays all of it{full}", err=True)
    if left:
        replays = sum(task.kind.value == "replay" for task in tasks)
        others = len(tasks) - replays
        reference = f" and {others:,} reference replays" if others else ""
        done = f", {len(tasks) - len(left):,} of them done before" if len(left) < len(tasks) else ""
        click.echo(
            f"{replays:,} replays{reference}{done}: about {span(took / min(jobs, len(left)))} on {min(jobs, len(left))} "
            f"{'core' if jobs == 1 else 'cores'}",
            err=True,
        )
    with progress_of_tasks("replays") as show:
        complain_of(do_all(tasks, inputs, store, jobs=jobs, on_done=show), len(tasks))


def seconds_of(tasks: Sequence[Task], inputs: Inputs) -> float:
    """Core-seconds of the tasks, from the number of their decisions and the time that a fraction of one replay takes here."""
    from bftrainer_replay.sweep.sample import cost_s

    costs: dict[Cell, float] = {}
    whole_s = 0.0
    for task in tasks:
        same = replace(task.cell, policy="", objective="", forward_s=0.0, cost_factor=1.0, detail=False)
        if same not in costs:
            trainers = [arrival.trainer for arrival in inputs.arrivals_of(task.cell)]
            costs[same] = cost_s(inputs.windows[same.log], trainers, same.max_parallel)
        whole_s += _WEIGHTS[task.kind.value] * costs[same]
    return whole_s * _calibrated(tasks[0].cell, inputs) if tasks else 0.0


def _calibrated(cell: Cell, inputs: Inputs) -> float:
    """Seconds here per second of the model: the beginning of a replay, timed."""
    from bftrainer_replay.logs.model import cut_short
    from bftrainer_replay.simulation.play import play
    from bftrainer_replay.sweep.compute import policy_of, scenario_of
    from bftrainer_replay.sweep.sample import cost_s

    scenario = scenario_of(cell, inputs)
    trainers = [arrival.trainer for arrival in scenario.arrivals]
    window = scenario.window
    share = min(_CALIBRATION_S / max(cost_s(window, trainers, cell.max_parallel), 1e-9), 1.0)
    short = cut_short(window, window.start_s + share * window.span_s)
    expected_s = cost_s(short, trainers, cell.max_parallel)
    began = time.perf_counter()
    play(replace(scenario, window=short), policy_of(cell), keep_entries=False)
    return (time.perf_counter() - began) / expected_s
