"""From measurements per GPU count to a trainer's curve per node count.

One batch size per GPU is used for a model, as in the paper (32 per GPU): the one measured on the
most GPU counts, and the largest of those. Where a GPU count was measured in several placements, the
placement counts whose number of nodes is nearest to the number of whole nodes of the site; if there
are several such placements, their median. Breakpoints are the node counts whose GPUs were measured;
between them a curve is linear. Curves are smoothed only on request.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from statistics import median

from bftrainer.decide.domain.model import Curve
from bftrainer_papers.traces.profiles import Profile, ProfilePoint


class CurveShape(Enum):
    """How a measured curve is adjusted."""

    MEASURED = "measured"
    """Not at all: the allocation accepts any curve."""
    MONOTONE = "monotone"
    """The largest value so far, so that more nodes are never slower."""
    CONCAVE = "concave"
    """The least concave curve above it."""


@dataclass(frozen=True, slots=True)
class MeasuredScaling:
    """A model's curve per node count. Beyond ``measured_nodes`` it is extrapolated.

    ``by_gpu`` are the measured (GPUs, samples/s) with ``batch`` samples per GPU. ``interpolated``
    counts the breakpoints that were not measured themselves.
    """

    name: str
    model: str
    curve: Curve
    measured_nodes: int
    batch: int
    by_gpu: tuple[tuple[int, float], ...]
    interpolated: int

    def rate(self, gpus: int) -> float:
        """Samples per second on ``gpus`` GPUs; beyond the measurements, the last measured value."""
        return _interpolated_rate(self.by_gpu, min(gpus, self.by_gpu[-1][0]))


def scaling_of(
    profile: Profile,
    gpus_per_node: int,
    shape: CurveShape = CurveShape.MEASURED,
    extrapolate_to: int | None = None,
) -> MeasuredScaling | None:
    """Return a model's curve on nodes with ``gpus_per_node`` GPUs; None if fewer GPUs than those of
    one node were measured.

    With ``extrapolate_to``, the curve continues to that node count as n^a. The exponent a is that
    of the last two measured points, limited to 0 .. 1; a curve with one point is not extrapolated.
    The name of the curve ends in "-extrapolated".
    """
    batch, points = _one_batch(profile.points)
    by_gpu = tuple(sorted(_by_gpus(points, gpus_per_node).items()))
    max_nodes = by_gpu[-1][0] // gpus_per_node
    if max_nodes < 1:
        return None
    measured = {gpus for gpus, _ in by_gpu}
    # Node counts that get a point of the curve: 1 and the largest always, and those measured.
    nodes = sorted(
        {1, max_nodes, *(gpus // gpus_per_node for gpus in measured if gpus % gpus_per_node == 0)}
    )
    values = _adjusted_points(
        [(n, _interpolated_rate(by_gpu, n * gpus_per_node)) for n in nodes], shape
    )
    interpolated_count = sum(n * gpus_per_node not in measured for n in nodes)
    name = f"{profile.model}-{profile.hardware}".replace(" ", "-")
    if extrapolate_to is not None and extrapolate_to > max_nodes and len(values) > 1:
        values += _extrapolated_points(values, extrapolate_to)
        name += "-extrapolated"
    curve = Curve(tuple(n for n, _ in values), tuple(value for _, value in values))
    return MeasuredScaling(name, profile.model, curve, max_nodes, batch, by_gpu, interpolated_count)


def _one_batch(points: list[ProfilePoint]) -> tuple[int, list[ProfilePoint]]:
    """Return the batch size that was measured on most numbers of GPUs, and its measurements.

    Of several such sizes, it is the largest.
    """
    counts: defaultdict[int, set[int]] = defaultdict(set)
    for point in points:
        counts[point.batch].add(point.gpus)
    batch = max(counts, key=lambda size: (len(counts[size]), size))
    return batch, [point for point in points if point.batch == batch]


def _by_gpus(points: list[ProfilePoint], gpus_per_node: int) -> dict[int, float]:
    """Return the samples per second by number of GPUs, from measurements on different node counts.

    Of the measurements with the same GPUs, those count whose number of nodes is nearest to the
    number of whole nodes that these GPUs need; the rate is their median.
    """
    groups: defaultdict[int, list[ProfilePoint]] = defaultdict(list)
    for point in points:
        groups[point.gpus].append(point)
    rates = {}
    for gpus, same_gpus in groups.items():
        whole_nodes = math.ceil(gpus / gpus_per_node)
        nearest = min(abs(point.nodes - whole_nodes) for point in same_gpus)
        rates[gpus] = median(
            point.samples_per_s for point in same_gpus if abs(point.nodes - whole_nodes) == nearest
        )
    return rates


def _interpolated_rate(by_gpu: tuple[tuple[int, float], ...], gpus: int) -> float:
    """Return the samples per second on ``gpus`` GPUs, interpolated linearly between measured
    numbers.

    Below the first measured number, the rate grows linearly from 0.
    """
    place = bisect_right([count for count, _ in by_gpu], gpus)
    left = by_gpu[place - 1] if place else (0, 0.0)
    if left[0] == gpus or place == len(by_gpu):
        return left[1]
    right = by_gpu[place]
    return left[1] + (right[1] - left[1]) * (gpus - left[0]) / (right[0] - left[0])


def _adjusted_points(values: list[tuple[int, float]], shape: CurveShape) -> list[tuple[int, float]]:
    """Return the points of a curve in another shape: as measured, never falling, or concave."""
    if shape is CurveShape.MEASURED:
        return values
    best = 0.0
    rising = [(n, best := max(best, value)) for n, value in values]
    if shape is CurveShape.MONOTONE:
        return rising
    hull = [(0, 0.0)]
    for point in rising:
        # A point below the line between its neighbors makes the curve convex there.
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    # A curve has a value for one node: if that point was dropped, it lies on the hull's first line.
    return hull[1:] if hull[1][0] == 1 else [(1, _slope(hull[0], hull[1])), *hull[1:]]


def _slope(left: tuple[int, float], right: tuple[int, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def _extrapolated_points(values: list[tuple[int, float]], end: int) -> list[tuple[int, float]]:
    """Return points that continue a curve as n^a from its end to ``end`` nodes, at doubling counts.

    The exponent a is that of the curve's last two points; it is limited to 0 .. 1: the
    extrapolation neither falls nor grows faster than the nodes.
    """
    (n0, v0), (n1, v1) = values[-2:]
    exponent = min(max(math.log(v1 / v0) / math.log(n1 / n0), 0.0), 1.0)
    nodes = [n1]
    while nodes[-1] < end:
        nodes.append(min(2 * nodes[-1], end))
    return [(n, v1 * (n / n1) ** exponent) for n in nodes[1:]]


def is_concave(curve: Curve) -> bool:
    """Whether no further node brings more throughput than the one before."""
    points = [(0, 0.0), *zip(curve.nodes, curve.per_s, strict=True)]
    slopes = [_slope(left, right) for left, right in pairwise(points)]
    return all(right <= left * (1 + 1e-9) for left, right in pairwise(slopes))
