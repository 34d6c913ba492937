"""Throughput and stalls of a trainer, measured from the lines of its driver and its rank 0. Pure.

The measurement goes through the stages of :class:`MeterStage`. After a change of size the first
lines do not count; then windows follow each other, each of which gives a throughput. The longer a
size has been measured, the longer its windows.

A stall is the time from the last line on the old nodes to the first window, less the time that the
samples in between would have taken on the new nodes: slow first steps and repeated work count as
stall. If the old nodes trained on while new ones started, the time from the decision to the last
line on the old nodes is the start. The work that a trainer loses with all its nodes is no part of a
stall: it depends on the checkpoint's age, not on the rescale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from bftrainer.decide.domain.events import Measured, RateSeen, StallSeen, WorkLost
from bftrainer.times import HostS
from bftrainer.wires.bounds import MAX_SAMPLES_PER_S
from bftrainer.wires.reports import DriverView

WARM_UP_FRACTION = 0.25
"""Fraction of a window that does not count after a change of size, while caches are cold."""
WINDOW_GROWTH = 0.25
"""A window lasts at least this fraction of the time measured before on the same nodes."""
MIN_SAMPLES_PER_S = 1e-9
"""A lower throughput counts as none: one sample in thirty years."""
MAX_LAG_S = 3.0
"""Lines are read about a second after they were written.

An older line, or one from the future, comes from another clock.
"""
MAX_WINDOW_S = 30 * 86400.0
"""Nothing that takes longer is a measurement."""


class MeterStage(Enum):
    """Where the measurement of a trainer on its present nodes stands."""

    WITHOUT_NODES = auto()
    """The driver starts, restarts its workers, or has ended."""
    WAITING = auto()
    """No line has come from these nodes yet."""
    WARMING_UP = auto()
    """Lines come, but do not count yet."""
    MEASURING = auto()
    """A window is open."""


@dataclass(frozen=True, slots=True)
class ProgressMark:
    """The samples that rank 0 had reached at a time."""

    at_s: float
    samples: float


@dataclass(frozen=True, slots=True)
class MeterReading:
    """The measurement of one trainer on its present fragments.

    ``previous_fragments``: those before; empty if it had none.
    ``stall_origin``: what the stall is measured from: the last line on the previous nodes, or the
    decision to start, or the driver's start. None once the stall is measured.
    ``previous_rate``: the throughput on the previous nodes; 0 if unknown.
    ``start_s``: the time from the decision to grow to the last line on the previous nodes; None if
    the trainer did not train on, or shrank.
    ``first_line_s``: the time of the first line on the present nodes.
    ``steady_since_s``: the time of the first line that counts.
    ``window_start``: where the open window begins.
    ``lag_s``: the smallest age that a line had when it was read: the offset of the clock of rank
    0's node, and little more.
    """

    fragments: frozenset[str] = frozenset()
    previous_fragments: frozenset[str] = frozenset()
    grew: bool = True
    stall_origin: ProgressMark | None = None
    previous_rate: float = 0.0
    start_s: float | None = None
    first_line_s: float | None = None
    steady_since_s: float = 0.0
    window_start: ProgressMark | None = None
    last_line: ProgressMark | None = None
    lag_s: float = math.inf

    @property
    def stage(self) -> MeterStage:
        """Where the measurement stands, by what is known so far: nodes, a line on them, an open
        window.
        """
        if not self.fragments:
            return MeterStage.WITHOUT_NODES
        if self.last_line is None:
            return MeterStage.WAITING
        if self.window_start is None:
            return MeterStage.WARMING_UP
        return MeterStage.MEASURING

    @property
    def clock_is_off(self) -> bool:
        """Whether the clock of rank 0's node is not that of this host."""
        return math.isfinite(self.lag_s) and abs(self.lag_s) > MAX_LAG_S


def update(
    reading: MeterReading,
    name: str,
    view: DriverView,
    window_s: float,
    now_s: HostS | None = None,
    decided_s: HostS | None = None,
) -> tuple[MeterReading, tuple[Measured, ...]]:
    """Return the ``reading`` after one more look at the trainer, and the new measurements.

    ``name`` is the trainer's, for the measurements, and ``view`` the driver's report. ``window_s``:
    the least length of a window, over which throughput is measured. ``now_s`` is the time of the
    look and ``decided_s`` that of the decision on the trainer's present nodes, both by this host's
    clock.
    """
    if not view.alive or not view.on:
        return _without_nodes(reading, view), ()
    if view.on != reading.fragments:
        reading = _on_new_nodes(reading, view, decided_s)
    line = _new_line(reading, view)
    if line is None:
        return reading, ()

    losses: tuple[Measured, ...] = ()
    if reading.stage is MeterStage.WAITING:
        # formed_s is a copy of the time in rank 0's line, so the two are equal exactly if this line
        # was written when the group of the present nodes formed.
        if view.times.formed_s == line.at_s:
            reading = _with_work_until_switch(reading, line)
        reading, losses = _without_lost_work(reading, name, line)
    elif _is_restored(reading, line):
        # The size has to warm up again.
        reading = replace(reading, first_line_s=None, window_start=None)
    reading = _with_line(reading, line, now_s)

    if reading.stage is MeterStage.WARMING_UP:
        return _warmed_up(reading, line, window_s), losses
    return _close_full_window(reading, name, window_s)


def _without_nodes(reading: MeterReading, view: DriverView) -> MeterReading:
    """Return the reading of a trainer that trains on no nodes at present.

    - The driver restarts its workers, and lines have been read: the reading is kept, with the
      nodes as the previous ones.
    - The driver runs, and no line has been read: a new reading, in which the stall begins when
      the driver said that it starts, or where it trains (``driver_reported_s``).
    - The driver has ended, or has reported nothing yet: an empty reading.
    """
    if view.alive and reading.last_line is not None:
        latest = None if view.samples is None else (view.rank_0_reported_s, view.samples)
        return replace(
            reading,
            fragments=frozenset(),
            previous_fragments=reading.fragments or reading.previous_fragments,
            last_line=_last_line(reading, latest),
        )
    if view.alive and view.driver_reported_s:
        return MeterReading(stall_origin=ProgressMark(view.driver_reported_s, view.samples or 0.0))
    return MeterReading()


def _on_new_nodes(reading: MeterReading, view: DriverView, decided_s: HostS | None) -> MeterReading:
    """Return a new reading on other nodes, which keeps the time from which the stall between the
    old and the new nodes is measured.

    Only where nodes were added can the old ones have trained on. ``decided_s`` is the time of the
    decision on the new nodes.
    """
    previous = reading.fragments or reading.previous_fragments
    last_line = _last_line(reading, view.before)
    start_s = None
    if view.on > previous:
        start_s = _start_s(reading, last_line, decided_s)
    return MeterReading(
        fragments=view.on,
        previous_fragments=previous,
        grew=not view.on < previous,
        # Without a line on old nodes, the stall begins with the decision or the driver.
        stall_origin=last_line or _start_origin(reading, decided_s),
        previous_rate=_throughput_between(reading.window_start, last_line),
        start_s=start_s,
    )


def _start_s(
    reading: MeterReading, last_line: ProgressMark | None, decided_s: HostS | None
) -> float | None:
    """Return how long the old nodes trained on after the decision, until their last line; None if
    they did not train at that time.
    """
    if last_line is None or reading.first_line_s is None or decided_s is None:
        return None
    # The old nodes had not begun to train when the decision was made.
    if reading.first_line_s > decided_s:
        return None
    return max(last_line.at_s - decided_s, 0.0)


def _start_origin(reading: MeterReading, decided_s: HostS | None) -> ProgressMark | None:
    """Return the time and samples from which the stall of a start from 0 nodes is measured: the
    decision or the driver's start, whichever is earlier.
    """
    origin = reading.stall_origin
    if origin is None or decided_s is None:
        return origin
    return ProgressMark(min(origin.at_s, decided_s), origin.samples)


def _last_line(reading: MeterReading, line: tuple[float, float] | None) -> ProgressMark | None:
    """Return the latest line of rank 0 on the present nodes (time, samples); None without any.

    ``line`` may have been read together with the news that the trainer has moved to other nodes.
    """
    last = reading.last_line
    if last is None or line is None:
        return last
    at_s, samples = line
    if at_s > last.at_s and samples >= last.samples:
        return ProgressMark(at_s, samples)
    return last


def _new_line(reading: MeterReading, view: DriverView) -> ProgressMark | None:
    """Return the line (time, samples) that rank 0 has written on the present nodes since the last
    look; None if there is none.
    """
    # Older than the driver's report about the present nodes: written on the nodes before.
    if not view.trains or view.samples is None or view.rank_0_reported_s < view.driver_reported_s:
        return None
    if reading.last_line is not None and view.rank_0_reported_s <= reading.last_line.at_s:
        return None
    return ProgressMark(view.rank_0_reported_s, view.samples)


def _with_work_until_switch(reading: MeterReading, switch: ProgressMark) -> MeterReading:
    """Return the reading with the work between the last line and the switch to the new nodes added
    to what the old nodes did.

    Lines of progress come once a second; ``switch``, the first on the new nodes, was written at the
    switch itself. The samples in between are converted to seconds by the throughput of the old
    nodes.
    """
    origin = reading.stall_origin
    if origin is None or reading.start_s is None or reading.previous_rate <= 0:
        return reading
    samples = switch.samples - origin.samples
    if samples <= 0:
        return reading
    trained_s = min(samples / reading.previous_rate, switch.at_s - origin.at_s)
    return replace(
        reading,
        stall_origin=ProgressMark(origin.at_s + trained_s, switch.samples),
        start_s=reading.start_s + trained_s,
    )


def _without_lost_work(
    reading: MeterReading, name: str, line: ProgressMark
) -> tuple[MeterReading, tuple[Measured, ...]]:
    """Return the reading without the work that a trainer lost with all its nodes, and that work as
    a measurement.

    ``line`` is the first one after the restart from a checkpoint. The loss depends on the age of
    the checkpoint, and is no part of the stall.
    """
    origin = reading.stall_origin
    if reading.previous_fragments or origin is None or line.samples >= origin.samples:
        return reading, ()
    loss = WorkLost(name, origin.samples - line.samples)
    return replace(reading, stall_origin=replace(origin, samples=line.samples)), (loss,)


def _is_restored(reading: MeterReading, line: ProgressMark) -> bool:
    """Whether the trainer has gone back to a checkpoint, so that it is no longer steady."""
    return reading.last_line is not None and line.samples < reading.last_line.samples


def _with_line(reading: MeterReading, line: ProgressMark, now_s: HostS | None) -> MeterReading:
    """Return the reading with a line of rank 0 as the last one, and with its age at ``now_s`` if
    that is given (:attr:`MeterReading.lag_s`).
    """
    first_line_s = line.at_s if reading.first_line_s is None else reading.first_line_s
    lag_s = reading.lag_s
    if now_s is not None:
        lag_s = min(lag_s, now_s - line.at_s)
    return replace(reading, last_line=line, first_line_s=first_line_s, lag_s=lag_s)


def _warmed_up(reading: MeterReading, line: ProgressMark, window_s: float) -> MeterReading:
    """Return the reading, with its first window opened at ``line`` once the trainer has warmed up:
    ``WARM_UP_FRACTION`` of a window after the first line on these nodes.

    Call only after a line was taken up.
    """
    assert reading.first_line_s is not None
    if line.at_s - reading.first_line_s < WARM_UP_FRACTION * window_s:
        return reading
    return replace(reading, window_start=line, steady_since_s=line.at_s)


def _close_full_window(
    reading: MeterReading, name: str, window_s: float
) -> tuple[MeterReading, tuple[Measured, ...]]:
    """Close the window if it has lasted long enough, and open the next one. Returns the reading and
    the measurements.

    These are the throughput in the window and, after the first window on these nodes, the stall
    before it. Call only while a window is open.
    """
    start, end = reading.window_start, reading.last_line
    assert start is not None
    assert end is not None
    passed_s = end.at_s - start.at_s
    measured_s = end.at_s - reading.steady_since_s
    # The longer this size was measured, the longer its windows.
    if passed_s < max(window_s, WINDOW_GROWTH * measured_s):
        return reading, ()
    next_reading = replace(reading, window_start=end, stall_origin=None)
    rate = (end.samples - start.samples) / passed_s
    rate = rate if rate >= MIN_SAMPLES_PER_S else 0.0
    if rate > MAX_SAMPLES_PER_S or passed_s > MAX_WINDOW_S:  # a clock or a counter was set
        return next_reading, ()
    throughput = RateSeen(name, len(reading.fragments), rate, passed_s)
    stall_s = _stall_s(reading, rate)
    if stall_s is None:
        return next_reading, (throughput,)
    from_zero = not reading.previous_fragments
    stall = StallSeen(name, reading.grew, stall_s, reading.start_s, from_zero=from_zero)
    return next_reading, (stall, throughput)


def _stall_s(reading: MeterReading, rate: float) -> float | None:
    """Return the seconds of the stall before the first window; None if it is measured already, or
    cannot be.

    It is the time from the last line on the previous nodes to the window, less the time that the
    samples in between would have taken without a stall, at the throughput ``rate`` of the window.
    The two ends are times of two clocks: that of the previous node or of the driver's host, and
    that of the present node.
    """
    origin, start = reading.stall_origin, reading.window_start
    if origin is None or start is None or rate <= 0 or reading.clock_is_off:
        return None
    stall_s = start.at_s - origin.at_s - (start.samples - origin.samples) / rate
    return stall_s if 0 < stall_s <= MAX_WINDOW_S else None


def _throughput_between(start: ProgressMark | None, end: ProgressMark | None) -> float:
    """Return the throughput between two marks; 0 if it cannot be computed."""
    if start is None or end is None or end.at_s <= start.at_s:
        return 0.0
    return max((end.samples - start.samples) / (end.at_s - start.at_s), 0.0)


@dataclass(slots=True)
class TrainerMeter:
    """The meter of one trainer, which warns once if the clock of its rank 0 is off."""

    reading: MeterReading = field(default_factory=MeterReading)
    clock_warning_sent: bool = False

    def hear(
        self,
        name: str,
        view: DriverView,
        window_s: float,
        now_s: HostS | None = None,
        decided_s: HostS | None = None,
    ) -> tuple[tuple[Measured, ...], str]:
        """Update the meter by a driver's report at ``now_s``; return the new measurements, and a
        warning if the clock of rank 0's node is off ("" for none).

        ``window_s`` is the least length of a window. ``decided_s`` is the time of the decision on
        the nodes on which the trainer trains; None if it trains on others.
        """
        self.reading, measurements = update(self.reading, name, view, window_s, now_s, decided_s)
        if not measurements or not self.reading.clock_is_off or self.clock_warning_sent:
            return measurements, ""
        self.clock_warning_sent = True
        return measurements, _clock_warning(self.reading.lag_s)


def _clock_warning(lag_s: float) -> str:
    """Say by how much the clock of rank 0's node is off."""
    where = "behind" if lag_s > 0 else "ahead of"
    return (
        f"the clock of rank 0's node is {abs(lag_s):.0f} s {where} this host's; "
        "stalls there are not learned"
    )
