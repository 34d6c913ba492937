"""Throughput and stalls of a trainer, measured from the lines of its driver and its rank 0. Pure.

A window begins after the first lines that follow a change of size, and ends once enough time has passed; the longer a size
was measured, the longer its windows. A stall is the time from the last line on the old nodes to the first window, less the
time that the samples in between would have taken on the new nodes: slow first steps and repeated work count as stall. If the
old nodes trained on while new ones started, the time from the decision to the last line on the old nodes is the start. What
a trainer that lost all its nodes had not saved is no part of a stall: it depends on the checkpoint's age, not on the rescale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from bftrainer.domain.events import Measured, RateSeen, StallSeen, WorkLost
from bftrainer.domain.times import HostS
from bftrainer.protocol.bounds import MAX_SAMPLES_PER_S
from bftrainer.protocol.reports import DriverView

SKIPPED = 0.25
"""Share of a window that is skipped after a change of size, while caches are cold and connections are made."""
GROWTH = 0.25
"""A window lasts at least this share of the time measured before on the same nodes."""
MIN_SAMPLES_PER_S = 1e-9
"""Less counts as none: one sample in thirty years."""
MAX_LAG_S = 3.0
"""Lines are read about a second after they were written; an older one, or one from the future, has another clock."""
MAX_WINDOW_S = 30 * 86400.0
"""Nothing that takes longer is a measurement."""


@dataclass(frozen=True, slots=True)
class ProgressMark:
    """The samples that rank 0 had reached at a time."""

    at_s: float
    samples: float


@dataclass(frozen=True, slots=True)
class MeterReading:
    """The measurement of one trainer on its present fragments ``on``; before, it was on ``was``.

    ``before`` is the last line on its previous nodes (or the decision to start, or its driver's start), ``was_rate`` the rate
    there (0: unknown), ``start_s`` the time from the decision to grow to that line (None: it did not train, or shrank),
    ``first_s`` the time of the first line on the present nodes, ``steady_s`` of the first line that counts, ``begin`` the start
    of the present window, ``last`` the latest line. ``lag_s`` is the smallest age that a line had when it was read: the offset
    of the clock of rank 0's node, and little more.
    """

    on: frozenset[str] = frozenset()
    was: frozenset[str] = frozenset()
    grew: bool = True
    before: ProgressMark | None = None
    was_rate: float = 0.0
    start_s: float | None = None
    first_s: float | None = None
    steady_s: float = 0.0
    begin: ProgressMark | None = None
    last: ProgressMark | None = None
    lag_s: float = math.inf

    @property
    def clock_is_off(self) -> bool:
        """Whether the clock of rank 0's node is not that of this host."""
        return math.isfinite(self.lag_s) and abs(self.lag_s) > MAX_LAG_S


def read(
    it: MeterReading,
    name: str,
    view: DriverView,
    window_s: float,
    now_s: HostS | None = None,
    decided_s: HostS | None = None,
) -> tuple[MeterReading, tuple[Measured, ...]]:
    """The reading after one more look at the trainer, at ``now_s`` by this host's clock, and the new measurements.

    ``decided_s`` is the time of the decision on its present nodes, by this host's clock.
    """
    if view.alive and not view.on and it.last is not None:  # a driver that restarts its workers
        latest = None if view.samples is None else (view.heard_s, view.samples)
        return replace(it, on=frozenset(), was=it.on or it.was, last=_last_line(it, latest)), ()
    if not view.alive or not view.on:
        start = ProgressMark(view.said_s, view.samples or 0.0) if view.alive and view.said_s else None
        return MeterReading(before=start), ()
    if view.on != it.on:
        was, start_s, last = it.on or it.was, None, _last_line(it, view.before)
        if view.on > was and last is not None and it.first_s is not None and decided_s is not None:
            # It says nothing if the trainer stalled when that was decided.
            start_s = max(last.at_s - decided_s, 0.0) if it.first_s <= decided_s else None
        before = last or it.before
        if last is None and before is not None and decided_s is not None:  # a start from 0 includes the driver's own
            before = ProgressMark(min(before.at_s, decided_s), before.samples)
        it = MeterReading(view.on, was, not view.on < was, before, _rate(it.begin, last), start_s)
    if not view.trains or view.samples is None or view.heard_s < view.said_s:
        return it, ()
    now = ProgressMark(view.heard_s, view.samples)
    if it.last is not None and now.at_s <= it.last.at_s:
        return it, ()
    if it.last is None and view.times.formed_s == now.at_s:
        it = _until_formed(it, now)
    lost: tuple[Measured, ...] = ()
    if not it.was and it.last is None and it.before is not None and now.samples < it.before.samples:
        lost = (WorkLost(name, it.before.samples - now.samples),)
        it = replace(it, before=replace(it.before, samples=now.samples))
    if it.last is not None and now.samples < it.last.samples:  # restored from a checkpoint: no longer steady
        it = replace(it, first_s=None, begin=None)
    if now_s is not None:
        it = replace(it, lag_s=min(it.lag_s, now_s - now.at_s))
    it = replace(it, last=now, first_s=now.at_s if it.first_s is None else it.first_s)
    assert it.first_s is not None
    if it.begin is None:
        if now.at_s - it.first_s >= SKIPPED * window_s:
            it = replace(it, begin=now, steady_s=now.at_s)
        return it, lost
    passed_s = now.at_s - it.begin.at_s
    if passed_s < max(window_s, GROWTH * (now.at_s - it.steady_s)):
        return it, ()
    rate = (now.samples - it.begin.samples) / passed_s
    rate = rate if rate >= MIN_SAMPLES_PER_S else 0.0
    if rate > MAX_SAMPLES_PER_S or passed_s > MAX_WINDOW_S:  # no measurement: somebody has set a clock or a counter
        return replace(it, begin=now, before=None), ()
    seen: list[Measured] = [RateSeen(name, len(it.on), rate, passed_s)]
    if it.before is not None and rate > 0:
        stall_s = it.begin.at_s - it.before.at_s - (it.begin.samples - it.before.samples) / rate
        # It lies between two clocks: of the node before, or the driver's host, and of this node.
        if 0 < stall_s <= MAX_WINDOW_S and not it.clock_is_off:
            seen.insert(0, StallSeen(name, it.grew, stall_s, it.start_s, from_zero=not it.was))
    return replace(it, begin=now, before=None), tuple(seen)


def _last_line(it: MeterReading, line: tuple[float, float] | None) -> ProgressMark | None:
    """The latest line on the present nodes: ``line`` may have been read together with the news that they are others now."""
    if it.last is None or line is None or not it.last.at_s < line[0] or line[1] < it.last.samples:
        return it.last
    return ProgressMark(*line)


def _rate(begin: ProgressMark | None, end: ProgressMark | None) -> float:
    if begin is None or end is None or end.at_s <= begin.at_s:
        return 0.0
    return max((end.samples - begin.samples) / (end.at_s - begin.at_s), 0.0)


def _until_formed(it: MeterReading, formed: ProgressMark) -> MeterReading:
    """With the work between the last line and the switch: a line of progress comes once a second, ``formed`` at the switch."""
    before = it.before
    if before is None or it.start_s is None or it.was_rate <= 0 or formed.samples <= before.samples:
        return it
    trained_s = min((formed.samples - before.samples) / it.was_rate, formed.at_s - before.at_s)
    return replace(it, before=ProgressMark(before.at_s + trained_s, formed.samples), start_s=it.start_s + trained_s)


@dataclass(slots=True)
class TrainerMeter:
    """The reading of one trainer. ``told``: it was noted that the clock of its rank 0 is off."""

    reading: MeterReading = field(default_factory=MeterReading)
    told: bool = False

    def hear(
        self, name: str, view: DriverView, window_s: float, now_s: HostS | None = None, decided_s: HostS | None = None
    ) -> tuple[tuple[Measured, ...], str]:
        """Read the meter at ``now_s``. Returns the new measurements, and what is to be noted, once, or nothing.

        ``decided_s`` is the time of the decision on the nodes on which it trains; None: it trains on others.
        """
        self.reading, seen = read(self.reading, name, view, window_s, now_s, decided_s)
        if not seen or not self.reading.clock_is_off or self.told:
            return seen, ""
        self.told = True
        where = "behind" if self.reading.lag_s > 0 else "ahead of"
        lag_s = abs(self.reading.lag_s)
        return seen, f"the clock of rank 0's node is {lag_s:.0f} s {where} this host's; stalls there are not learned"
