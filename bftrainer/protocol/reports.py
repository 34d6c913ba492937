"""What a driver has reported of its trainer, as one value: a fold over ``events.jsonl`` and ``progress.jsonl``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from bftrainer.protocol.events import (
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
    parse_event,
)
from bftrainer.protocol.progress_line import parse_progress


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

    @property
    def occupied(self) -> frozenset[str]:
        """Fragments on which it may have a process."""
        return self.on | {fragment for fragment, _ in self.with_workers}


def after_start(view: DriverView) -> DriverView:
    """The view when another driver is started: only what rank 0 has counted stays."""
    return DriverView(alive=True, incarnation=view.incarnation, samples=view.samples, loss=view.loss)


def after_end(view: DriverView) -> DriverView:
    """The view when the driver's process is gone: without a last line it was killed."""
    return replace(view, ending=view.ending or Ending.KILLED, on=frozenset(), with_workers=frozenset(), trains=False)


def after_events(view: DriverView, lines: Iterable[Mapping[str, Any]]) -> DriverView:
    """The view after more lines of ``events.jsonl``; unknown lines and keys are skipped."""
    for line in lines:
        if (parsed := parse_event(line)) is not None:
            view = after_event(view, parsed)
    return view


def after_event(view: DriverView, line: EventLine) -> DriverView:
    """The view after one more event."""
    match line.event:
        case Started():
            return replace(
                view, incarnation=line.incarnation, ending=None, reason="", tail=(), on=frozenset(),
                said_s=line.at_s, with_workers=frozenset(), trains=False,
            )  # fmt: skip
        case WorkerStarted(fragment=fragment, pid=pid):
            return replace(view, with_workers=view.with_workers | {(fragment, pid)})
        case WorkerExited(fragment=fragment, pid=pid):
            return replace(view, with_workers=view.with_workers - {(fragment, pid)})
        case Withheld(fragment=fragment):
            return replace(view, withheld=view.withheld | {fragment})
        case Running(world_size, fragments):
            return replace(
                view, incarnation=line.incarnation, on=frozenset(fragments), said_s=line.at_s, world_size=world_size,
                trains=False,
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


def after_progress(view: DriverView, lines: Iterable[Mapping[str, Any]]) -> DriverView:
    """The view after more lines of ``progress.jsonl``: the last value of each key counts."""
    samples, loss, step, heard_s, trains = view.samples, view.loss, view.step, view.heard_s, view.trains
    for line in map(parse_progress, lines):
        heard_s = line.at_s
        samples = samples if line.samples is None else line.samples
        loss = loss if line.loss is None else line.loss
        step = step if line.step is None else line.step
        trains = trains or (heard_s >= view.said_s and bool(view.on))
    return replace(view, samples=samples, loss=loss, step=step, heard_s=heard_s, trains=trains)
