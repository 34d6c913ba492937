"""What a driver has said about its trainer, as one value: a fold over the lines of events.jsonl and progress.jsonl. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


class Ending(Enum):
    """How a driver ended. ``KILLED``: without a last line."""

    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class DriverView:
    """A driver as of now. Fragments are named by their ids, the part of the pool's name after ``#``.

    ``on`` is what it last said it trains on (empty while it starts or stops), ``said_s`` when; ``with_workers`` is where a
    worker has started and not ended; ``withheld`` is what it will not use again. ``samples``, ``loss`` and ``heard_s`` come
    from rank 0; ``trains`` says that rank 0 has reported since the last change of size.
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


def after_events(view: DriverView, lines: Iterable[Mapping[str, Any]]) -> DriverView:
    """The view after more lines of events.jsonl; lines and keys that are not known are passed over."""
    for line in lines:
        fragment, at_s = str(line.get("fragment", "")), float(line.get("time", 0.0))
        match line.get("event"):
            case "started":
                view = replace(
                    view, incarnation=int(line.get("incarnation", 0)), ending=None, reason="", tail=(), on=frozenset(),
                    said_s=at_s, with_workers=frozenset(), trains=False,
                )  # fmt: skip
            case "worker_started":
                view = replace(view, with_workers=view.with_workers | {(fragment, int(line.get("pid", 0)))})
            case "worker_exited":
                view = replace(view, with_workers=_without_one(view.with_workers, fragment, line.get("pid")))
            case "withheld":
                view = replace(view, withheld=view.withheld | {fragment})
            case "running":
                on = frozenset(str(f) for f in line.get("fragments", ()))
                view = replace(
                    view, incarnation=int(line.get("incarnation", view.incarnation)), on=on, said_s=at_s,
                    world_size=int(line.get("world_size", 0)), trains=False,
                )  # fmt: skip
            case "stopping":
                view = replace(view, trains=False)
            case "stopped" | "done" | "failed" as name:
                tail = tuple(str(text) for text in line.get("tail", ()))
                reason = str(line.get("reason", ""))
                view = replace(
                    view, ending=Ending(name), reason=reason, tail=tail, on=frozenset(), said_s=at_s, trains=False
                )
    return view


def after_progress(view: DriverView, lines: Iterable[Mapping[str, Any]]) -> DriverView:
    """The view after more lines of progress.jsonl: the last one counts."""
    samples, loss, step, heard_s, trains = view.samples, view.loss, view.step, view.heard_s, view.trains
    for line in lines:
        heard_s = _number(line.get("time")) or 0.0
        samples = samples if (said := _number(line.get("samples"))) is None else said
        loss = loss if (said := _number(line.get("loss"))) is None else said
        step = count if isinstance(count := line.get("step"), int) else step
        trains = trains or (heard_s >= view.said_s and bool(view.on))
    return replace(view, samples=samples, loss=loss, step=step, heard_s=heard_s, trains=trains)


def _without_one(workers: frozenset[tuple[str, int]], fragment: str, pid: object) -> frozenset[tuple[str, int]]:
    """Without the worker that ended; a line without its pid takes any one of that fragment."""
    there = sorted(w for w in workers if w[0] == fragment and (pid is None or w[1] == pid))
    return workers - {there[0]} if there else workers


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
