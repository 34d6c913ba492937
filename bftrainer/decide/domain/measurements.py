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
        """Return the point measured on exactly ``nodes`` nodes; None if there is none."""
        i = bisect_left(self.points, nodes, key=_node_count)
        return self.points[i] if i < len(self.points) and self.points[i].nodes == nodes else None

    def has_point_near(self, nodes: int) -> bool:
        """Whether this node count, or one within about a quarter of it (0.8 to 1.25 times), was
        measured.
        """
        return any(0.8 * nodes <= p.nodes <= 1.25 * nodes for p in self.points)

    def with_rate(self, nodes: int, samples_per_s: float, seconds: float) -> Measurements:
        """Return these measurements and one more window: ``samples_per_s``, measured for
        ``seconds`` on ``nodes`` nodes.

        The window is added to the point of this node count, or begins a new point.
        """
        i = bisect_left(self.points, nodes, key=_node_count)
        is_measured = i < len(self.points) and self.points[i].nodes == nodes
        earlier_windows: tuple[float, ...] = ()
        earlier_s = 0.0
        larger = self.points[i:]
        if is_measured:
            earlier_windows, earlier_s = self.points[i].windows, self.points[i].seconds
            larger = self.points[i + 1 :]
        windows = _latest_values(earlier_windows, samples_per_s)
        rate = middle(windows)
        point = RatePoint(
            nodes, windows, earlier_s + seconds, rate, _squared_deviations(windows, rate)
        )
        return replace(self, points=(*self.points[:i], point, *larger))

    def with_stall(
        self, grew: bool, seconds: float, start_s: float | None = None, from_zero: bool = False
    ) -> Measurements:
        """Return these measurements and one more stall of ``seconds``, of a trainer that ``grew``
        or shrank.

        With ``start_s``, new nodes started while old ones trained on: the stall is that of the
        switch to all nodes, after a start that took this long. Without it, as after a start
        ``from_zero`` nodes, the stall includes the start: it counts as R^up only until a start was
        measured.
        """
        if not grew:
            return replace(self, downs=_latest_values(self.downs, seconds))
        if start_s is not None:
            # Stalls before the first measured start include the start: they are forgotten.
            switches = self.ups if self.starts else ()
            return replace(
                self,
                ups=_latest_values(switches, seconds),
                starts=_latest_values(self.starts, start_s),
            )
        ups = self.ups if self.starts else _latest_values(self.ups, seconds)
        zeros = _latest_values(self.from_zero, seconds) if from_zero else self.from_zero
        return replace(self, ups=ups, from_zero=zeros)

    def noise(self) -> float:
        """Return the relative standard deviation of one window, pooled over all points; 0 until one
        point has two windows.

        Each point with k windows contributes k - 1 degrees of freedom, since the mean is estimated
        from the same windows.
        """
        degrees_of_freedom = sum(len(p.windows) - 1 for p in self.points)
        if not degrees_of_freedom:
            return 0.0
        return math.sqrt(math.fsum(p.squares for p in self.points) / degrees_of_freedom)


def _latest_values(values: tuple[float, ...], value: float) -> tuple[float, ...]:
    """Return the latest ``WINDOWS`` values, of which ``value`` is the last."""
    return (*values[1 - WINDOWS :], value)


def _squared_deviations(windows: tuple[float, ...], rate: float) -> float:
    """Return the sum of the windows' squared deviations from their mean, relative to ``rate``, for
    the noise of a point; 0 for a single window.

    A deviation counts as 100 % at most.
    """
    if len(windows) < 2 or rate <= 0:
        return 0.0
    mean = math.fsum(windows) / len(windows)
    return sum((min(abs(w - mean), rate) / rate) ** 2 for w in windows)


def middle(values: tuple[float, ...]) -> float:
    """Return the trimmed mean of ``values``: the mean without the smallest and the largest of three
    or more.

    Of equal values it is exactly that value.
    """
    inner = sorted(values)[1:-1] if len(values) > 2 else values
    low, high = min(inner), max(inner)
    if low == high:
        return low
    mean = math.fsum(inner) / len(inner)
    return min(max(mean, low), high)  # rounding must not lead outside the values


def _node_count(point: RatePoint) -> int:
    return point.nodes
