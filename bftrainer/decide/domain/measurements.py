"""Measurements of one model: samples per second at each visited node count, and the stalls of
rescaling. Pure.

Only the latest windows count, so old conditions are forgotten. Of three or more windows the
smallest and the largest are dropped, so one slow minute (a busy file system, another job's burst)
changes nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace

WINDOWS = 9
"""Windows and stalls kept per node count and direction."""


@dataclass(frozen=True, slots=True)
class RatePoint:
    """The measured speed on one node count.

    ``windows`` are the latest measurements (samples/s each), ``rate`` is their trimmed mean, and
    ``seconds`` is the time of all measurements. ``squares`` is the sum of the windows' squared
    deviations from their mean, relative to ``rate``.
    """

    nodes: int
    windows: tuple[float, ...]
    seconds: float
    rate: float
    squares: float = 0.0


@dataclass(frozen=True, slots=True)
class Measurements:
    """What was measured for one key: speeds as points by increasing node count, and the latest
    costs of rescales.

    ``ups`` and ``downs`` are stalls in seconds after growing and shrinking, ``starts`` the times
    that new nodes took to start while old ones trained on, ``from_zero`` the times from a decision
    until a trainer without nodes trained.
    """

    points: tuple[RatePoint, ...] = ()
    ups: tuple[float, ...] = ()
    downs: tuple[float, ...] = ()
    starts: tuple[float, ...] = ()
    from_zero: tuple[float, ...] = ()

    def at(self, nodes: int) -> RatePoint | None:
        i = bisect_left(self.points, nodes, key=_NODES)
        return self.points[i] if i < len(self.points) and self.points[i].nodes == nodes else None

    def knows(self, nodes: int) -> bool:
        """Whether this node count, or one within about a quarter of it (0.8 to 1.25 times), was
        measured.
        """
        return any(0.8 * nodes <= p.nodes <= 1.25 * nodes for p in self.points)

    def with_rate(self, nodes: int, samples_per_s: float, seconds: float) -> Measurements:
        """Return these measurements and one more window of ``seconds`` on ``nodes`` nodes."""
        i = bisect_left(self.points, nodes, key=_NODES)
        old = (
            self.points[i]
            if i < len(self.points) and self.points[i].nodes == nodes
            else RatePoint(nodes, (), 0.0, 0.0)
        )
        windows = (*old.windows[1 - WINDOWS :], samples_per_s) if old.windows else (samples_per_s,)
        rate = middle(windows)
        new = RatePoint(nodes, windows, old.seconds + seconds, rate, _squares(windows, rate))
        return replace(self, points=(*self.points[:i], new, *self.points[i + bool(old.windows) :]))

    def with_stall(
        self, grew: bool, seconds: float, start_s: float | None = None, from_zero: bool = False
    ) -> Measurements:
        """Return these measurements and one more stall; with ``start_s``, the stall is that of the
        switch after a start that took this long.

        The stall of a start ``from_zero`` nodes includes the start: it counts as R^up only until a
        start was measured.
        """
        if grew and start_s is not None:
            ups = (*self.ups[1 - WINDOWS :], seconds) if self.starts else (seconds,)
            return replace(self, ups=ups, starts=(*self.starts[1 - WINDOWS :], start_s))
        if grew:
            zeros = (*self.from_zero[1 - WINDOWS :], seconds) if from_zero else self.from_zero
            ups = self.ups if self.starts else (*self.ups[1 - WINDOWS :], seconds)
            return replace(self, ups=ups, from_zero=zeros)
        return replace(self, downs=(*self.downs[1 - WINDOWS :], seconds))

    def noise(self) -> float:
        """Return the relative standard deviation of one window, pooled over all points; 0 until one
        point has two windows.
        """
        freedom = sum(len(p.windows) - 1 for p in self.points)
        if not freedom:
            return 0.0
        return math.sqrt(math.fsum(p.squares for p in self.points) / freedom)


def _squares(windows: tuple[float, ...], rate: float) -> float:
    if len(windows) < 2 or rate <= 0:
        return 0.0
    mean = math.fsum(windows) / len(windows)
    return sum((min(abs(w - mean), rate) / rate) ** 2 for w in windows)


def middle(values: tuple[float, ...]) -> float:
    """Return the trimmed mean: the mean without the smallest and the largest of three or more
    values.

    Of equal values it is exactly that value.
    """
    kept = sorted(values)[1:-1] if len(values) > 2 else values
    low, high = min(kept), max(kept)
    return low if low == high else min(max(math.fsum(kept) / len(kept), low), high)


def _NODES(point: RatePoint) -> int:  # noqa: N802  # a key function
    return point.nodes
