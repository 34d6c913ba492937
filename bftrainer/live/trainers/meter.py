"""How fast a trainer runs and how long it stands still, from what its driver and its rank 0 have said. Pure.

A window begins when the first lines after a change of size are over and ends once enough time has passed; the longer a size
was measured, the longer its windows. A stall is the time from the last line on the old nodes to the first window, less what
the samples in between would have taken on the new ones: slow first steps and work done twice count as standing still.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bftrainer.domain.events import RateSeen, StallSeen
from bftrainer.protocol.reports import DriverView

SKIPPED = 0.25
"""The first lines on a new size, in windows, are left out: caches are cold, connections are made."""
GROWTH = 0.25
"""A window lasts at least this share of what was measured before on the same nodes."""

Seen = RateSeen | StallSeen


@dataclass(frozen=True, slots=True)
class ProgressMark:
    """Rank 0 was at so many samples at this time."""

    at_s: float
    samples: float


@dataclass(frozen=True, slots=True)
class MeterReading:
    """What is measured of one trainer on its present fragments ``on``.

    ``before`` is the last line on the nodes that it had before (or its driver's start), ``first_s`` the time of the first
    line on these, ``steady_s`` of the first that counts, ``begin`` where the present window begins, ``last`` the latest line.
    """

    on: frozenset[str] = frozenset()
    grew: bool = True
    before: ProgressMark | None = None
    first_s: float | None = None
    steady_s: float = 0.0
    begin: ProgressMark | None = None
    last: ProgressMark | None = None


def read(it: MeterReading, name: str, view: DriverView, window_s: float) -> tuple[MeterReading, tuple[Seen, ...]]:
    """The reading after one more look at the trainer, and what has been measured by it."""
    if not view.alive or not view.on:
        start = ProgressMark(view.said_s, view.samples or 0.0) if view.alive and view.said_s else None
        return MeterReading(before=start), ()
    if view.on != it.on:
        before = it.last or it.before
        it = MeterReading(view.on, not view.on < it.on, before)
    if not view.trains or view.samples is None or view.heard_s < view.said_s:
        return it, ()
    now = ProgressMark(view.heard_s, view.samples)
    if it.last is not None and now.at_s <= it.last.at_s:
        return it, ()
    if it.last is not None and now.samples < it.last.samples:  # back to a checkpoint: not steady any more
        it = replace(it, first_s=None, begin=None)
    it = replace(it, last=now, first_s=now.at_s if it.first_s is None else it.first_s)
    assert it.first_s is not None
    if it.begin is None:
        if now.at_s - it.first_s >= SKIPPED * window_s:
            it = replace(it, begin=now, steady_s=now.at_s)
        return it, ()
    passed_s = now.at_s - it.begin.at_s
    if passed_s < max(window_s, GROWTH * (now.at_s - it.steady_s)):
        return it, ()
    rate = (now.samples - it.begin.samples) / passed_s
    seen: list[Seen] = [RateSeen(name, len(it.on), rate, passed_s)]
    if it.before is not None and rate > 0:
        stall_s = it.begin.at_s - it.before.at_s - (it.begin.samples - it.before.samples) / rate
        if stall_s > 0:
            seen.insert(0, StallSeen(name, it.grew, stall_s))
    return replace(it, begin=now, before=None), tuple(seen)


@dataclass(slots=True)
class MeterBook:
    """The readings of all trainers, and what was measured since it was last taken."""

    window_s: float = 20.0
    _readings: dict[str, MeterReading] = field(default_factory=dict)
    _seen: list[Seen] = field(default_factory=list)

    def hear(self, name: str, view: DriverView) -> None:
        """One more look at a trainer."""
        self._readings[name], seen = read(self._readings.get(name, MeterReading()), name, view, self.window_s)
        self._seen += seen

    def forget(self, name: str) -> None:
        """It is gone."""
        self._readings.pop(name, None)

    def taken(self, of: Callable[[str], bool]) -> tuple[Seen, ...]:
        """What was measured of those; the rest is dropped."""
        seen, self._seen = self._seen, []
        return tuple(s for s in seen if of(s.trainer_id))
