"""An estimated curve from the submitted one and the measurements. Pure; without numpy, as an
estimate has a dozen points.

1. *Scale the prior.* The submitted curve (or a guess) times a * n^b, fitted to the measured points
   in logarithms. A prior on b holds it near 0, so a single point only scales the curve.
2. *Weigh.* Each measured point is combined with that fit by its standard error. Measurements
   without noise count alone.
3. *Order.* More nodes never yield less: adjacent points that fall are pooled. A point below the
   chord of its neighbors is lifted to the chord, unless it is lower by more than two standard
   errors: then the curve is not concave.
4. *Fill in.* Between measured points, the fit, bounded below by their chord and above by the
   extended chords of the adjacent segments, so that concave points give a concave curve. Beyond the
   last point, the fit scaled to it, no steeper than the last measured segment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

from bftrainer.decide.domain.measurements import Measurements, RatePoint
from bftrainer.decide.domain.model import Curve

MISFIT = 0.05
"""Relative error of the scaled prior between points (one standard deviation)."""
BEND = 0.5
"""Standard deviation of the exponent b."""
MOST_BEND = 2.0
"""Largest exponent b accepted, in absolute value."""
TINY = 1e-9
"""Values below this fraction of the largest count as 0."""
FIRM = 2.0
"""A point that many standard errors below the concave majorant is not lifted."""

_FAR = 600.0  # exp() of it is still a number

_Spot = tuple[int, float]
_Fit = Callable[[int], float]


def estimate(prior: Curve, measured: Measurements) -> Curve:
    """Return the estimated curve in samples/s, over the node counts of ``prior``.

    ``prior`` is the curve that was submitted or guessed, of which only the shape is used; it is
    returned itself if nothing was ``measured`` on its node counts. The steps are those of the
    module's text.
    """
    # The curve ends at the last node count of the prior.
    points = [p for p in measured.points if p.nodes <= prior.nodes[-1]]
    if not points:
        return prior
    if min(prior.per_s) <= TINY * max(prior.per_s):  # nothing to scale
        # A value of 0 in the prior stays 0 whatever it is multiplied by, so linear scaling (n
        # samples/s on n nodes) takes its place.
        prior = Curve(prior.nodes, tuple(map(float, prior.nodes)))
    noise = measured.noise()
    fit = _fitted_prior(prior, points, noise)
    spots = _concave_where_soft(_non_decreasing(_weighted_rates(points, fit, noise)), points, noise)
    filled = _filled_points(spots, fit, sorted({1, *prior.nodes}))
    return Curve(tuple(n for n, _ in filled), tuple(v for _, v in filled))


def _fitted_prior(prior: Curve, points: Sequence[RatePoint], noise: float) -> _Fit:
    """Fit prior(n) * a * n^b to the measured ``points`` in logarithms (step 1), and return it as a
    function of the node count n.

    The fit is a weighted linear regression: x = log(n), y = log(measured rate / prior rate), so
    that b is the slope. ``noise`` is the relative standard deviation of one measurement window.
    """
    prior_rates = _prior_table(prior)
    negligible_rate = TINY * max(p.rate for p in points)
    rows: list[tuple[float, float, float]] = []  # (weight, x, y) of each point
    weight_sum = x_sum = y_sum = 0.0
    for p in points:
        if p.rate > negligible_rate:
            # The inverse variance of y: the misfit of the prior, and the noise of the mean of the
            # windows.
            weight = 1.0 / (MISFIT**2 + noise**2 / len(p.windows))
            x = math.log(p.nodes)
            y = math.log(p.rate) - math.log(prior_rates[p.nodes])
            rows.append((weight, x, y))
            weight_sum += weight
            x_sum += weight * x
            y_sum += weight * y
    if not rows:
        return lambda n: 0.0
    # The weighted regression line y = log(a) + b x, with the prior on b.
    mean_x = x_sum / weight_sum
    mean_y = y_sum / weight_sum
    x_deviations = sum(weight * (x - mean_x) ** 2 for weight, x, _ in rows)
    # BEND**-2 acts like further measurements with a slope of 0: it holds b near 0 where little was
    # measured.
    unbounded_b = sum(weight * (x - mean_x) * (y - mean_y) for weight, x, y in rows) / (
        x_deviations + BEND**-2
    )
    b = min(max(unbounded_b, -MOST_BEND), MOST_BEND)
    a = math.exp(min(max(mean_y - b * mean_x, -_FAR), _FAR))
    return lambda n: a * n**b * prior_rates[n]


@lru_cache(maxsize=1024)
def _prior_table(prior: Curve) -> tuple[float, ...]:
    """Return the prior's values at 0 .. its last node count; from (0, 0) to its first point it is
    linear.
    """
    return tuple(prior.at(n) for n in range(prior.nodes[-1] + 1))


def _weighted_rates(points: Sequence[RatePoint], fit: _Fit, noise: float) -> list[float]:
    """Return one rate per point, between the measured one and that of the ``fit``, weighted by
    their errors (step 2).

    ``noise`` is the relative standard deviation of one measurement window; without it, measured
    rates count alone.
    """
    values = []
    for p in points:
        variance = noise**2 / len(p.windows)
        if variance == 0 or p.rate <= 0:
            values.append(p.rate)
        else:  # the weighted mean of the logarithms
            # The weight of the measurement: near 1 where its variance is small beside the misfit.
            share = MISFIT**2 / (MISFIT**2 + variance)
            values.append(p.rate**share * fit(p.nodes) ** (1 - share))
    return values


def _non_decreasing(values: list[float]) -> list[float]:
    """Return the nearest non-decreasing values (step 3).

    Neighbors that fall are replaced by their mean, again and again, until none falls ("pool
    adjacent violators").
    """
    blocks: list[tuple[float, int]] = []  # (mean, number of values)
    for value in values:
        mean, size = value, 1
        while blocks and blocks[-1][0] > mean:
            left_mean, left_size = blocks.pop()
            mean = (mean * size + left_mean * left_size) / (size + left_size)
            size += left_size
        blocks.append((mean, size))
    return [mean for mean, size in blocks for _ in range(size)]


def _concave_where_soft(
    values: list[float], points: Sequence[RatePoint], noise: float
) -> list[_Spot]:
    """Lift each point to the least concave majorant of all, unless it is measured too firmly for
    that (step 3); return (nodes, value) of each.

    The majorant is the lowest concave curve that no point exceeds. ``values`` are the rising values
    of ``points``, ``noise`` is the relative standard deviation of one window. A point that is more
    than ``FIRM`` standard errors below the majorant stays where it is: there, the curve is not
    concave. Points before it are lifted no higher than that, so that the curve still rises.
    """
    spots = [(p.nodes, v) for p, v in zip(points, values, strict=True)]
    # Without noise every point is firm.
    if noise == 0:
        return spots
    lifted = _concave_majorant([(0, 0.0), *spots])[1:]
    result: list[_Spot] = []
    next_value = math.inf
    # From the last point back, since a point must not exceed the one behind it.
    for (n, v), (_, high), p in zip(
        reversed(spots), reversed(lifted), reversed(points), strict=True
    ):
        is_soft = high <= v * (1 + FIRM * noise / math.sqrt(len(p.windows)))
        next_value = min(high, next_value) if is_soft else v
        result.append((n, next_value))
    return result[::-1]


def _concave_majorant(spots: Sequence[_Spot]) -> list[_Spot]:
    """Return the least concave majorant of the points ``spots`` (nodes, value), at the same node
    counts: the lowest concave curve that none of them exceeds.
    """
    hull: list[_Spot] = []
    for n, v in spots:
        # A corner that the line to the new point passes above is none.
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-2], (n, v)):
            hull.pop()
        hull.append((n, v))
    majorant: list[_Spot] = []
    i = 0
    for n, v in spots:
        while i + 1 < len(hull) and hull[i + 1][0] <= n:
            i += 1
        # Corners stay; points between two corners go up to the line between them.
        if hull[i][0] == n:
            majorant.append((n, v))
        else:
            (n0, v0), (n1, v1) = hull[i], hull[i + 1]
            majorant.append((n, v0 + (v1 - v0) * (n - n0) / (n1 - n0)))
    return majorant


def _slope(left: _Spot, right: _Spot) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def _filled_points(spots: list[_Spot], fit: _Fit, node_counts: Sequence[int]) -> list[_Spot]:
    """Return the measured ``spots`` (nodes, value) with points at the other ``node_counts`` of the
    prior added, between them and beyond the last (step 4).
    """
    from_zero: list[_Spot] = [(0, 0.0), *spots]
    slopes = [_slope(low, high) for low, high in pairwise(from_zero)]
    beyond = _points_beyond(
        spots[-1], slopes[-1], fit, [n for n in node_counts if n > spots[-1][0]]
    )
    # The slope behind the last measured segment, which bounds that segment from above.
    slopes.append(_slope(spots[-1], beyond[0]) if beyond else 0.0)
    filled: list[_Spot] = []
    for i, (low, high) in enumerate(pairwise(from_zero)):
        inside = [n for n in node_counts if low[0] < n < high[0]]
        # Elsewhere the curve is the chord, which needs no points.
        if inside and _is_concave_around(slopes, i):
            filled += _points_between(low, high, slopes, i, inside, fit)
        elif inside and i == 0:  # a curve has no point at 0: its first one must be on the chord
            filled.append((inside[0], slopes[0] * inside[0]))
        filled.append(high)
    return [*filled, *beyond]


def _points_beyond(last: _Spot, slope: float, fit: _Fit, node_counts: Sequence[int]) -> list[_Spot]:
    """Return points for the ``node_counts`` beyond the ``last`` measured one (step 4), as (nodes,
    value).

    They follow the ``fit`` (a function of the node count), scaled to meet the last point, and
    neither fall nor rise faster than ``slope``, that of the last measured segment.
    """
    last_n, last_v = last
    scale = last_v / fit(last_n) if fit(last_n) > 0 else 0.0
    points: list[_Spot] = [last]
    for n in node_counts:
        highest = last_v + slope * (n - last_n)
        points.append((n, max(points[-1][1], min(fit(n) * scale, highest))))
    return _concave_majorant(points)[1:]


def _is_concave_around(slopes: list[float], i: int) -> bool:
    """Whether the slopes do not rise from segment to segment around segment ``i``, so that lines
    through its ends bound it from above.
    """
    return (i == 0 or slopes[i - 1] >= slopes[i]) and slopes[i] >= slopes[i + 1]


def _points_between(
    low: _Spot, high: _Spot, slopes: list[float], i: int, inside: list[int], fit: _Fit
) -> list[_Spot]:
    """Return points for the node counts ``inside`` one segment, from ``low`` to ``high`` (step 4),
    as (nodes, value).

    They follow the ``fit``, scaled to meet both ends, but stay above the chord and below lines
    through the ends, each with the mean slope of the two segments that meet there. ``i`` is the
    index of the segment in ``slopes``, which has one more slope than there are segments.
    """
    (n0, v0), (n1, v1) = low, high
    right_slope = (slopes[i] + slopes[i + 1]) / 2
    left_slope = (slopes[i - 1] + slopes[i]) / 2 if i else math.inf
    right_scale = v1 / fit(n1) if fit(n1) > 0 else 0.0
    # At the left end of the first segment, 0 nodes, there is nothing to meet.
    left_scale = v0 / fit(n0) if i and fit(n0) > 0 else right_scale
    filled = []
    for n in inside:
        part = (n - n0) / (n1 - n0)
        value = fit(n) * (left_scale + (right_scale - left_scale) * part)
        top = min(v1 - right_slope * (n1 - n), v0 + left_slope * (n - n0))
        filled.append((n, max(min(value, top), v0 + (v1 - v0) * part)))
    return _concave_majorant([low, *filled, high])[1:-1]
