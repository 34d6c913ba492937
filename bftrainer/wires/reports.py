"""A driver's reports on its trainer, as one value.

It is a pure fold over the lines of ``events.jsonl`` and ``progress.jsonl``.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from bftrainer.system.json_tail import BadLine
from bftrainer.wires import worker_times
from bftrainer.wires.bounds import MAX_SAMPLES, MAX_SAMPLES_PER_S
from bftrainer.wires.driver_events import (
    BadEvent,
    Done,
    DriverEvent,
    EventLine,
    Failed,
    Running,
    Started,
    Stopped,
    Stopping,
    Withheld,
    WorkerExited,
    WorkerStarted,
    read_event,
)
from bftrainer.wires.metrics import LOSS, MOST_METRICS, Metric, with_metrics
from bftrainer.wires.progress_line import Phase, ProgressLine, parse_progress
from bftrainer.wires.worker_times import TrainingTimes

MAX_WORKERS_KNOWN = 100_000
MAX_REFUSED = 40
LATE = "it did not leave, and was killed after"
"""Words in the reason of a driver that could not wait for the final checkpoint."""
KILLED_STATUSES = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""The statuses of a worker that was killed: that of a local process, and that of shells
and srun.
"""
NO_CHECKPOINT = 0.02
"""Resuming at a smaller share of the lost samples is starting again."""


_STEPS = (Phase.RUNNING, None)
"""Phases of a step. A program that writes lines of its own may leave the phase out."""


class Ending(Enum):
    """How a driver ended."""

    STOPPED = DriverEvent.STOPPED.value
    DONE = DriverEvent.DONE.value
    FAILED = DriverEvent.FAILED.value
    KILLED = "killed"
    """The driver ended without a last line."""


@dataclass(frozen=True, slots=True)
class DriverView:
    """A driver as of now. Fragments are named by their ids, the part after ``#`` in the pool.

    ``alive``: whether its process runs. ``incarnation``: the latest one.
    ``ending``: how it has ended, with ``reason`` and the ``tail`` of the failed worker's log; None
    while it runs.

    What the driver says:
    ``on``: where it trains; empty while it starts or stops. ``driver_reported_s``: when it said so.
    ``world_size``: the number of its workers there.
    ``with_workers``: (fragment, pid) of workers that run.
    ``withheld``: fragments that it will not use again.
    ``killed``: fragments in which a worker was ended by SIGKILL, not by the driver.

    What rank 0 reports, at ``rank_0_reported_s``:
    ``samples``, ``loss``, ``step``, and ``metrics`` of all lines that were read here.
    ``trains``: it has reported since the last rescale.
    ``before``: (time, samples) of its last line on the nodes before; None without one.
    ``ranks_disagree``: weights or learning rates that differed between ranks when it last looked.
    ``times``: when its nodes came to train.
    ``repeated``: samples that were processed again after a restart, in all.
    ``samples_total``: of the whole training.
    ``stepped_in``: the latest incarnation that has reported a step.
    ``unloaded``: (samples, incarnation), where that incarnation began again without these samples
    and none has resumed since.

    ``refused``: what was not used of the lines, (key, problem), the first problem of each key.
    """

    alive: bool = False
    incarnation: int = 0
    ending: Ending | None = None
    reason: str = ""
    tail: tuple[str, ...] = ()
    on: frozenset[str] = frozenset()
    driver_reported_s: float = 0.0
    with_workers: frozenset[tuple[str, int]] = frozenset()
    withheld: frozenset[str] = frozenset()
    killed: frozenset[str] = frozenset()
    samples: float | None = None
    loss: float | None = None
    step: int | None = None
    world_size: int = 0
    rank_0_reported_s: float = 0.0
    trains: bool = False
    before: tuple[float, float] | None = None
    refused: tuple[tuple[str, str], ...] = ()
    ranks_disagree: str = ""
    metrics: tuple[Metric, ...] = ()
    times: TrainingTimes = field(default_factory=TrainingTimes)
    repeated: float = 0.0
    unloaded: tuple[float, int] = (0.0, 0)
    samples_total: float | None = None
    stepped_in: int = 0

    @property
    def occupied(self) -> frozenset[str]:
        """The fragments on which the driver may have a process."""
        return self.on | {fragment for fragment, _ in self.with_workers}


def after_start(view: DriverView) -> DriverView:
    """Return the view when another driver is started: only what rank 0 has counted is kept."""
    return DriverView(
        alive=True,
        incarnation=view.incarnation,
        samples=view.samples,
        loss=view.loss,
        refused=view.refused,
        metrics=view.metrics,
        repeated=view.repeated,
        unloaded=view.unloaded,
        samples_total=view.samples_total,
        stepped_in=view.stepped_in,
    )


def after_end(view: DriverView, exception: str = "") -> DriverView:
    """Return the view when the driver's process has ended; without a last event in ``events.jsonl``
    it was killed or crashed.
    """
    if view.ending is None:
        view = replace(
            view,
            ending=Ending.KILLED,
            reason=f"the driver died: {exception}" if exception else view.reason,
        )
    return replace(view, on=frozenset(), with_workers=frozenset(), trains=False)


def after_refused(view: DriverView, key: str, problem: str) -> DriverView:
    """Return the view with a note on a value that cannot be used. Only the first problem of a key
    is kept, because a wrong line may come for days.
    """
    if len(view.refused) >= MAX_REFUSED or key in dict(view.refused):
        return view
    return replace(view, refused=(*view.refused, (key, problem)))


def after_events(
    view: DriverView, lines: Iterable[Mapping[str, Any] | BadLine], now_s: float | None = None
) -> DriverView:
    """Return the view after more lines of ``events.jsonl``; unknown words and keys are skipped."""
    for line in lines:
        event = BadEvent("", str(line)) if isinstance(line, BadLine) else read_event(line, now_s)
        if isinstance(event, BadEvent):
            key = f"event {event.word}" if event.word else "event"
            view = after_refused(view, key, event.problem)
        elif event is not None:
            view = after_event(view, event)
    return view


def after_event(view: DriverView, line: EventLine) -> DriverView:
    """Return the view after one more event, with the times of
    :mod:`bftrainer.wires.worker_times`.
    """
    view = _after_event(view, line)
    times = worker_times.after_event(view.times, line, view.with_workers)
    return view if times is view.times else replace(view, times=times)


def _after_event(view: DriverView, line: EventLine) -> DriverView:
    """Return the view after one more event, without its times."""
    match line.event:
        case Started():
            return replace(
                view,
                incarnation=line.incarnation,
                ending=None,
                reason="",
                tail=(),
                on=frozenset(),
                driver_reported_s=line.at_s,
                with_workers=frozenset(),
                trains=False,
                before=None,
            )
        case WorkerStarted() if len(view.with_workers) >= MAX_WORKERS_KNOWN:
            return after_refused(
                view, "event worker_started", f"more than {MAX_WORKERS_KNOWN:,} workers run"
            )
        case WorkerStarted(fragment=fragment, pid=pid):
            return replace(view, with_workers=view.with_workers | {(fragment, pid)})
        case WorkerExited(fragment=fragment, pid=pid, status=status, planned=planned):
            with_workers = view.with_workers - {(fragment, pid)}
            is_killed = not planned and status in KILLED_STATUSES
            if not is_killed or len(view.killed) >= MAX_WORKERS_KNOWN:
                return replace(view, with_workers=with_workers)
            return replace(view, with_workers=with_workers, killed=view.killed | {fragment})
        case Withheld() if len(view.withheld) >= MAX_WORKERS_KNOWN:
            return after_refused(
                view, "event withheld", f"more than {MAX_WORKERS_KNOWN:,} fragments are withheld"
            )
        case Withheld(fragment=fragment):
            return replace(view, withheld=view.withheld | {fragment})
        case Running(world_size, fragments):
            before = view.before if view.samples is None else (view.rank_0_reported_s, view.samples)
            return replace(
                view,
                incarnation=line.incarnation,
                on=frozenset(fragments),
                driver_reported_s=line.at_s,
                world_size=world_size,
                trains=False,
                before=before,
            )
        case Stopping():
            return replace(view, trains=False)
        case Stopped(reason=reason):
            return _after_last(view, line, Ending.STOPPED, reason)
        case Done():
            return _after_last(view, line, Ending.DONE)
        case Failed(reason=reason, tail=tail):
            return _after_last(view, line, Ending.FAILED, reason, tail)
        case _:
            return view


def _after_last(
    view: DriverView, line: EventLine, ending: Ending, reason: str = "", tail: tuple[str, ...] = ()
) -> DriverView:
    """Return the view after the driver's last event, which says how it ended."""
    return replace(
        view,
        ending=ending,
        reason=reason,
        tail=tail,
        on=frozenset(),
        driver_reported_s=line.at_s,
        trains=False,
    )


def after_progress(
    view: DriverView, lines: Iterable[Mapping[str, Any] | BadLine], now_s: float | None = None
) -> DriverView:
    """Return the view after more lines of ``progress.jsonl``: the last value of each key counts."""
    reports = _RankZeroReports(view)
    for raw_line in lines:
        if isinstance(raw_line, BadLine):
            reports.refuse("progress", str(raw_line))
            continue
        line = parse_progress(raw_line, now_s)
        for key, problem in line.refused:
            reports.refuse(f"progress {key}", problem)
        reports.add(line)
    return reports.result()


class _RankZeroReports:
    """What rank 0 has reported, while its lines are read.

    It is mutable because a backlog has thousands of lines, and a view has twenty fields to copy.
    """

    def __init__(self, view: DriverView) -> None:
        self.view = view
        self.samples = view.samples
        self.loss = view.loss
        self.step = view.step
        self.rank_0_reported_s = view.rank_0_reported_s
        self.trains = view.trains
        self.before = view.before
        self.ranks_disagree = view.ranks_disagree
        self.times = view.times
        self.repeated = view.repeated
        self.unloaded = view.unloaded
        self.samples_total = view.samples_total
        self.stepped_in = view.stepped_in
        self.measurements: list[tuple[float, Mapping[str, float]]] = []

    def refuse(self, key: str, problem: str) -> None:
        """Record a value that cannot be used."""
        self.view = after_refused(self.view, key, problem)

    def add(self, line: ProgressLine) -> None:
        """Apply the values of one line; a key without a value keeps the value it had."""
        if self._is_of_earlier_step(line):
            line = line._replace(step=None, samples=None, loss=None)
        if line.samples is not None:
            self._add_samples(line, line.samples)
        self.rank_0_reported_s = line.at_s or self.rank_0_reported_s
        # A line from before the last rescale was made on the nodes before.
        if (
            self.samples is not None
            and self.rank_0_reported_s < self.view.driver_reported_s
            and self.view.on
        ):
            self.before = (self.rank_0_reported_s, self.samples)
        if self.rank_0_reported_s >= self.view.driver_reported_s and self.view.on:
            self.trains = True
        self.times = worker_times.after_progress(self.times, line)
        if line.step is not None:
            self.step = line.step
        if line.samples_total is not None:
            self.samples_total = line.samples_total
        if line.phase in _STEPS and not line.formed:
            self.stepped_in = max(self.stepped_in, line.incarnation or self.view.incarnation)
        if line.ranks_disagree is not None:
            self.ranks_disagree = line.ranks_disagree
        if line.loss is not None:
            self.loss = line.loss
            self.measurements.append((self.samples or 0.0, {LOSS: line.loss}))
        if line.metrics:
            self.measurements.append((self.samples or 0.0, line.metrics))

    def _is_of_earlier_step(self, line: ProgressLine) -> bool:
        """Return whether a line reports a checkpoint that was written while training went on: it
        counts fewer samples than were reported before.
        """
        if line.phase is not Phase.CHECKPOINTED:
            return False
        return (line.samples or 0.0) < (self.samples or 0.0)

    def _add_samples(self, line: ProgressLine, samples: float) -> None:
        """Apply the number of processed samples; if it falls after a restart, the difference
        counts as repeated.

        A fall without a restart is a counter that starts again, as with every epoch: nothing is
        repeated.
        """
        if _is_too_fast(self.samples, self.rank_0_reported_s, samples, line.at_s):
            problem = (
                f"expected at most {MAX_SAMPLES_PER_S:g} samples/s, found {self.samples:g} and "
                f"then {samples:g}"
            )
            self.refuse("progress samples", problem)
            return
        incarnation = line.incarnation or 0
        is_restarted = not self.trains or line.formed or incarnation > self.view.incarnation
        if self.samples is not None and is_restarted and samples < self.samples:
            self.repeated += self.samples - samples
            has_checkpoint = samples >= NO_CHECKPOINT * self.samples
            self.unloaded = (0.0, 0) if has_checkpoint else (self.samples, incarnation)
        elif incarnation > self.unloaded[1]:
            self.unloaded = (0.0, 0)
        self.samples = samples

    def result(self) -> DriverView:
        """Return the view with everything that the lines reported."""
        metrics, skipped_names = with_metrics(self.view.metrics, self.measurements)
        if skipped_names:
            problem = f"expected at most {MOST_METRICS} names; skipped {skipped_names[0]!r}"
            self.refuse("progress metrics", problem)
        return replace(
            self.view,
            samples=self.samples,
            loss=self.loss,
            step=self.step,
            rank_0_reported_s=self.rank_0_reported_s,
            trains=self.trains,
            before=self.before,
            ranks_disagree=self.ranks_disagree,
            metrics=metrics,
            times=self.times,
            repeated=min(self.repeated, MAX_SAMPLES),
            unloaded=self.unloaded,
            samples_total=self.samples_total,
            stepped_in=self.stepped_in,
        )


def _is_too_fast(old_samples: float | None, old_s: float, new_samples: float, new_s: float) -> bool:
    """Return whether the count of samples grew faster than any trainer can process them.

    A fall is always possible, and so is a first count (``old_samples`` is None).
    """
    if old_samples is None:
        return False
    return new_samples - old_samples > MAX_SAMPLES_PER_S * max(new_s - old_s, 1.0)
