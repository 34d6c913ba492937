"""A driver's reports on its trainer, as one value: a fold over ``events.jsonl`` and ``progress.jsonl``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from bftrainer.protocol import worker_times
from bftrainer.protocol.bounds import MAX_SAMPLES, MAX_SAMPLES_PER_S
from bftrainer.protocol.driver_events import (
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
from bftrainer.protocol.metrics import LOSS, MOST_METRICS, Metric, with_metrics
from bftrainer.protocol.progress_line import Phase, parse_progress
from bftrainer.protocol.worker_times import TrainingTimes
from bftrainer.system.json_tail import BadLine

MAX_WORKERS_KNOWN = 100_000
MAX_REFUSED = 40
LATE = "it did not leave, and was killed after"
"""Of the reason of a driver that could not wait for the final checkpoint."""
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
    """Without a last line."""


@dataclass(frozen=True, slots=True)
class DriverView:
    """A driver as of now. Fragments are named by their ids, the part after ``#`` of their names in the pool.

    ``on`` is where the driver last said it trains (empty while it starts or stops), ``said_s`` when it said so;
    ``with_workers`` are (fragment, pid) of workers that run; ``withheld`` are fragments that it will not use again.
    ``samples``, ``loss``, ``step`` and ``heard_s`` come from rank 0; ``trains``: rank 0 has reported since the last rescale.
    ``before`` is (time, samples) of rank 0's last line before ``said_s``, on the nodes before; None without one.
    ``refused`` says what was not used of the lines: (key, problem), the first problem of each key.
    ``ranks_disagree``: what rank 0 saw last of weights or learning rates that differ between ranks.
    ``metrics``: of all lines that were read here. ``times``: when its nodes came to train. ``repeated``: samples that were
    processed again after a restart, in all. ``unloaded``: (samples, incarnation), where that incarnation began again without
    these samples and none has resumed since. ``samples_total``: of the whole training, as rank 0 reported it last.
    ``stepped_in``: the latest incarnation that has reported a step.
    """

    alive: bool = False
    incarnation: int = 0
    ending: Ending | None = None
    reason: str = ""
    tail: tuple[str, ...] = ()
    on: frozenset[str] = frozenset()
    said_s: float = 0.0
    with_workers: frozenset[tuple[str, int]] = frozenset()
    withheld: frozenset[str] = frozenset()
    samples: float | None = None
    loss: float | None = None
    step: int | None = None
    world_size: int = 0
    heard_s: float = 0.0
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
        """Fragments on which it may have a process."""
        return self.on | {fragment for fragment, _ in self.with_workers}


def after_start(view: DriverView) -> DriverView:
    """The view when another driver is started: only what rank 0 has counted stays."""
    return DriverView(
        alive=True, incarnation=view.incarnation, samples=view.samples, loss=view.loss, refused=view.refused,
        metrics=view.metrics, repeated=view.repeated, unloaded=view.unloaded,
        samples_total=view.samples_total, stepped_in=view.stepped_in,
    )  # fmt: skip


def after_end(view: DriverView, exception: str = "") -> DriverView:
    """The view when the driver's process is gone: without a last event it was killed, or died of an exception."""
    if view.ending is None:
        view = replace(view, ending=Ending.KILLED, reason=f"the driver died: {exception}" if exception else view.reason)
    return replace(view, on=frozenset(), with_workers=frozenset(), trains=False)


def after_refused(view: DriverView, key: str, problem: str) -> DriverView:
    """The view after a value that cannot be used. Each key is kept once: the same line may come for days."""
    if any(key == known for known, _ in view.refused) or len(view.refused) >= MAX_REFUSED:
        return view
    return replace(view, refused=(*view.refused, (key, problem)))


def after_events(
    view: DriverView, lines: Iterable[Mapping[str, Any] | BadLine], now_s: float | None = None
) -> DriverView:
    """The view after more lines of ``events.jsonl``; unknown words and keys are skipped."""
    for line in lines:
        parsed = BadEvent("", str(line)) if isinstance(line, BadLine) else read_event(line, now_s)
        if isinstance(parsed, BadEvent):
            view = after_refused(view, f"event {parsed.word}" if parsed.word else "event", parsed.problem)
        elif parsed is not None:
            view = after_event(view, parsed)
    return view


def after_event(view: DriverView, line: EventLine) -> DriverView:
    """The view after one more event."""
    view = _after_event(view, line)
    times = worker_times.after_event(view.times, line, view.with_workers)
    return view if times is view.times else replace(view, times=times)


def _after_event(view: DriverView, line: EventLine) -> DriverView:
    match line.event:
        case Started():
            return replace(
                view, incarnation=line.incarnation, ending=None, reason="", tail=(), on=frozenset(),
                said_s=line.at_s, with_workers=frozenset(), trains=False, before=None,
            )  # fmt: skip
        case WorkerStarted() if len(view.with_workers) >= MAX_WORKERS_KNOWN:
            return after_refused(view, "event worker_started", f"more than {MAX_WORKERS_KNOWN:,} workers run")
        case WorkerStarted(fragment=fragment, pid=pid):
            return replace(view, with_workers=view.with_workers | {(fragment, pid)})
        case WorkerExited(fragment=fragment, pid=pid):
            return replace(view, with_workers=view.with_workers - {(fragment, pid)})
        case Withheld() if len(view.withheld) >= MAX_WORKERS_KNOWN:
            return after_refused(view, "event withheld", f"more than {MAX_WORKERS_KNOWN:,} fragments are withheld")
        case Withheld(fragment=fragment):
            return replace(view, withheld=view.withheld | {fragment})
        case Running(world_size, fragments):
            before = view.before if view.samples is None else (view.heard_s, view.samples)
            return replace(
                view, incarnation=line.incarnation, on=frozenset(fragments), said_s=line.at_s, world_size=world_size,
                trains=False, before=before,
            )  # fmt: skip
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
    return replace(view, ending=ending, reason=reason, tail=tail, on=frozenset(), said_s=line.at_s, trains=False)


def after_progress(
    view: DriverView, lines: Iterable[Mapping[str, Any] | BadLine], now_s: float | None = None
) -> DriverView:
    """The view after more lines of ``progress.jsonl``: the last value of each key counts."""
    samples, loss, step, heard_s, trains = view.samples, view.loss, view.step, view.heard_s, view.trains
    disagree, times, before = view.ranks_disagree, view.times, view.before
    repeated, unloaded = view.repeated, view.unloaded
    samples_total, stepped_in = view.samples_total, view.stepped_in
    measured: list[tuple[float, Mapping[str, float]]] = []
    for found in lines:
        if isinstance(found, BadLine):
            view = after_refused(view, "progress", str(found))
            continue
        line = parse_progress(found, now_s)
        for key, problem in line.refused:
            view = after_refused(view, f"progress {key}", problem)
        if line.phase is Phase.CHECKPOINTED and (line.samples or 0.0) < (samples or 0.0):
            # Written while training went on: of an earlier step.
            line = line._replace(step=None, samples=None, loss=None)
        if line.samples is not None:
            if is_too_far(samples, heard_s, line.samples, line.at_s):
                problem = (
                    f"expected at most {MAX_SAMPLES_PER_S:g} samples/s, found {samples:g} and then {line.samples:g}"
                )
                view = after_refused(view, "progress samples", problem)
            else:
                # A fall without a restart is a counter that starts again, as with every epoch: nothing is done twice.
                incarnation = line.incarnation or 0
                restarted = not trains or line.formed or incarnation > view.incarnation
                if samples is not None and restarted and line.samples < samples:
                    repeated += samples - line.samples
                    unloaded = (samples, incarnation) if line.samples < NO_CHECKPOINT * samples else (0.0, 0)
                elif incarnation > unloaded[1]:
                    unloaded = (0.0, 0)
                samples = line.samples
        heard_s = line.at_s or heard_s
        if samples is not None and heard_s < view.said_s and view.on:
            before = (heard_s, samples)
        if line.loss is not None:
            loss = line.loss
            measured.append((samples or 0.0, {LOSS: loss}))
        if line.metrics:
            measured.append((samples or 0.0, line.metrics))
        step = step if line.step is None else line.step
        samples_total = samples_total if line.samples_total is None else line.samples_total
        if line.phase in _STEPS and not line.formed:
            stepped_in = max(stepped_in, line.incarnation or view.incarnation)
        disagree = disagree if line.ranks_disagree is None else line.ranks_disagree
        times = worker_times.after_progress(times, line)
        trains = trains or (heard_s >= view.said_s and bool(view.on))
    metrics, left_out = with_metrics(view.metrics, measured)
    if left_out:
        view = after_refused(
            view, "progress metrics", f"expected at most {MOST_METRICS} names; skipped {left_out[0]!r}"
        )
    return replace(
        view, samples=samples, loss=loss, step=step, heard_s=heard_s, trains=trains, before=before,
        ranks_disagree=disagree, metrics=metrics, times=times, repeated=min(repeated, MAX_SAMPLES), unloaded=unloaded,
        samples_total=samples_total, stepped_in=stepped_in,
    )  # fmt: skip


def is_too_far(before: float | None, before_s: float, now: float, now_s: float) -> bool:
    """Whether no trainer can have processed these samples in this time; a fall to an earlier checkpoint is possible."""
    return before is not None and now - before > MAX_SAMPLES_PER_S * max(now_s - before_s, 1.0)
