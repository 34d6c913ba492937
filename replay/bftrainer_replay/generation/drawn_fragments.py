"""Draws idle fragments from fitted distributions, for :mod:`bftrainer_replay.generation.generate`.

The distributions are fitted to the paper's Summit log (10-24 Feb 2021). None of its rows is kept,
only these parameters:

- Joins. A job's nodes are released together. Group sizes are lognormal, sigma 1.97 at 4,734 nodes
  (median 4, upper quartile 16, 90th percentile 50, 99th about 500) and proportional to ln(nodes);
  the mean follows from the number of fragments.
- Times are on the authors' grid of 10 s, with the log's daily rhythm (1 + 0.4 cos): more at 15 h
  than at 3 h.
- A group is taken in 1 + 0.38 ln(size) parts on average, the first of which has 84 % of its nodes.
- Lengths. Short fragments last 70 * (600/70)^(u^1.2) s for uniform u (mean 222 s); long ones 600 s
  plus a Weibull-like tail of 1,456 s * (-ln(1 - u))^1.25 (mean 1,650 s). The share of short
  fragments and the scale of the tail are calibrated.
- Drains. Five times a week no node is taken for 2.0 to 3.5 hours, or until 40 to 90 % of the
  cluster is idle; then all idle nodes are taken at once.
- Loose and tight hours. Larger groups tend to come together: they are ranked by u plus half a
  uniform level per six hours. With the drains, a sixth (64 nodes) to a quarter (4,734 nodes) of the
  idle node-time falls into times when more than 42 % of the cluster is idle (Summit: 28 %, more
  than 2,000 nodes).
- Leaves. A starting job takes nodes of several groups: ends that are close, relative to the
  lengths, are merged until the required number of distinct times remains.

Random numbers come from ``Generator.random`` of PCG64 only, and all values are rounded to whole
slots and nodes before they are compared or summed, so the result does not depend on the platform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

SLOT_S = 10
SLOTS_PER_H = 3600 // SLOT_S
SHORT_SLOTS = 600 // SLOT_S
SHORTEST_SLOTS = 60 // SLOT_S
WARM_UP_SLOTS = 6 * SLOTS_PER_H
"""Slots drawn before the start, so that the log begins in a steady state."""

Slots = NDArray[np.int64]
Uniform = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DrawParameters:
    """The parameters of a draw, which are calibrated until the log is like the paper's: numbers of
    joins, leaves and fragments in the window (without the warm-up before it), the share of short
    fragments, and a factor for the lengths of the others.
    """

    joins: float
    leaves: float
    fragments: float
    short_share: float
    tail_scale: float


@dataclass(frozen=True, slots=True)
class Draw:
    """Fragments by node index, in slots since the start of the window; an ``end`` after the window
    means still idle.
    """

    node: Slots
    start: Slots
    end: Slots


class RandomStreams:
    """Streams of uniform random numbers, one per purpose, the same in each round of a
    calibration.
    """

    def __init__(self, *seed: int) -> None:
        self._seed = seed

    def uniform(self, purpose: int, count: int) -> Uniform:
        """The first ``count`` numbers in [0, 1) of a stream."""
        bits = np.random.PCG64(np.random.SeedSequence([*self._seed, purpose]))
        return np.random.Generator(bits).random(count)


def draw(nodes: int, span: int, parameters: DrawParameters, streams: RandomStreams) -> Draw:
    """Draw the idle fragments of a cluster of ``nodes`` nodes over ``span`` slots of time."""
    longer = (span + WARM_UP_SLOTS) / span
    at = _instants(span, round(parameters.joins * longer), streams)
    sizes = _sizes(at, nodes, parameters.fragments * longer / len(at), streams)
    group, size = _parts(sizes, streams)
    length = _lengths(size, parameters, span, streams)
    start = at[group]
    end, fixed = start + length, np.zeros(len(start), dtype=bool)
    for begins, ends in _drains(at, sizes, nodes, span, streams):
        inside = (start >= begins) & (start <= ends - SHORTEST_SLOTS)
        end[inside], fixed[inside] = ends, True
    end = _merge(start, end, fixed, round(parameters.leaves * longer))
    return _window(_place(nodes, start, end, size, group, streams), span)


def _instants(span: int, count: int, streams: RandomStreams) -> Slots:
    """Draw about ``count`` distinct slots in which nodes become idle, in order, more of them at
    some hours of the day; slot 0 begins the window.
    """
    slots = np.arange(-WARM_UP_SLOTS, span)
    hour = slots / SLOTS_PER_H
    weight = np.rint(1000 * (1 + 0.4 * np.cos(2 * math.pi * (hour - 15) / 24))).astype(np.int64)
    upto = np.cumsum(weight)
    count = max(1, min(count, len(slots) // 2))
    tries = streams.uniform(1, 8 * count)
    picked = np.searchsorted(upto, (tries * upto[-1]).astype(np.int64), side="right")
    _, first = np.unique(picked, return_index=True)
    return np.asarray(slots[np.sort(picked[np.sort(first)[:count]])])


def _sizes(at: Slots, nodes: int, mean: float, streams: RandomStreams) -> Slots:
    """Draw how many nodes become idle together at each slot of ``at``, lognormal with the given
    mean: evenly spaced quantiles, the larger ones mostly in "loose" hours.
    """
    normal, count = NormalDist(), len(at)
    z = np.array([normal.inv_cdf((i + 0.5) / count) for i in range(count)])
    sigma = 1.97 * math.log(max(nodes, 2)) / math.log(4734)

    def sizes(mu: float) -> Slots:
        return np.clip(
            np.rint(np.exp(np.minimum(mu + sigma * z, 30.0))), 1, max(1, nodes * 19 // 20)
        ).astype(np.int64)

    low, high = -10.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if sizes(middle).sum() < mean * count else (low, middle)
    hours = (at + WARM_UP_SLOTS) // (6 * SLOTS_PER_H)
    loose = streams.uniform(8, int(hours[-1]) + 1)[hours]
    rank = np.argsort(
        np.argsort(streams.uniform(2, count) + 0.5 * loose, kind="stable"), kind="stable"
    )
    return sizes(high)[rank]


def _parts(sizes: Slots, streams: RandomStreams) -> tuple[Slots, Slots]:
    """Split each group of nodes into parts that stay idle equally long; return the group and the
    size of each part. The parts of a group are adjacent, the largest first.
    """
    extra_mean = 0.38 * np.log(sizes)
    ratio = extra_mean / (1 + extra_mean)
    u = 1 - streams.uniform(3, len(sizes))
    extra = np.where(ratio > 0, np.floor(np.log(u) / np.log(np.maximum(ratio, 1e-9))), 0).astype(
        np.int64
    )
    extra = np.minimum(extra, np.minimum(sizes - 1, 8))
    extra_size = np.maximum(1, 16 * sizes // (100 * np.maximum(extra, 1)))
    group = np.repeat(np.arange(len(sizes)), extra + 1)
    size = extra_size[group]
    first = np.cumsum(extra + 1) - (extra + 1)
    size[first] = sizes - extra * extra_size
    return group, size


def _lengths(size: Slots, parameters: DrawParameters, span: int, streams: RandomStreams) -> Slots:
    """Draw how long each part stays idle, in slots: evenly spaced quantiles, weighted by nodes, in
    random order.
    """
    order = np.argsort(streams.uniform(4, len(size)), kind="stable")
    u = np.empty(len(size))
    u[order] = (np.cumsum(size[order]) - size[order] / 2) / size.sum()
    p = parameters.short_share
    is_short = u < p
    within = np.clip(np.where(is_short, u / p, (u - p) / (1 - p)), 0, 1 - 1e-12)
    short_s = 70 * (600 / 70) ** (within**1.2)
    long_s = 600 + parameters.tail_scale * 1456 * (-np.log1p(-within)) ** 1.25
    short = np.clip(np.rint(short_s / SLOT_S), SHORTEST_SLOTS, SHORT_SLOTS - 1)
    long = np.clip(
        np.rint(long_s / SLOT_S), SHORT_SLOTS, max(SHORT_SLOTS, min(6 * SLOTS_PER_H, span // 4))
    )
    return np.where(is_short, short, long).astype(np.int64)


def _drains(
    at: Slots, sizes: Slots, nodes: int, span: int, streams: RandomStreams
) -> list[tuple[int, int]]:
    """Draw drains, in which nodes stay idle until a common end, as before a large job: begin and
    end of each. There is at most one in each equal part of the window; it ends early when deep
    enough.
    """
    count = int(span / (7 * 24 * SLOTS_PER_H) * 5 + streams.uniform(5, 1)[0])
    drains = []
    for i, (u_begin, u_length, u_depth) in enumerate(
        streams.uniform(6, 3 * count).reshape(count, 3)
    ):
        begins = int((i + u_begin) * span / count)
        ends = begins + min(round((2 + 1.5 * u_length) * SLOTS_PER_H), span // 8)
        first = int(np.searchsorted(at, begins))
        gathered = np.cumsum(sizes[first : np.searchsorted(at, ends)])
        deep = int(np.searchsorted(gathered, (0.4 + 0.5 * u_depth) * nodes))
        if deep < len(gathered):
            ends = min(ends, int(at[first + deep]) + SHORT_SLOTS)
        if ends <= span:
            drains.append((begins, ends))
    return drains


def _merge(start: Slots, end: Slots, fixed: NDArray[np.bool_], wanted: int) -> Slots:
    """Move ends of fragments that are close to each other to one time, until about ``wanted``
    distinct times remain.

    No part may become short or stop being short; fixed ends (of drains) do not move.
    """
    order = np.lexsort((start, end))
    gap = np.diff(end[order])
    length = (end - start)[order]
    cost = gap / np.minimum(length[1:], length[:-1])
    links = np.flatnonzero(gap > 0)
    surplus = max(0, len(links) + 1 - wanted)
    joined = gap == 0
    joined[links[np.argsort(cost[links], kind="stable")[:surplus]]] = True
    cluster = np.concatenate(([0], np.cumsum(~joined)))
    first = np.flatnonzero(np.concatenate(([True], ~joined)))
    last = np.append(first[1:], len(order)) - 1
    target = end[order][(first + last) // 2]
    held = np.flatnonzero(fixed[order])
    target[cluster[held]] = end[order][held]
    moved = end.copy()
    moved[order] = target[cluster]
    was, now = end - start, moved - start
    kept = fixed | (now < SHORTEST_SLOTS) | ((was < SHORT_SLOTS) != (now < SHORT_SLOTS))
    return np.where(kept, end, moved)


def _place(
    nodes: int, start: Slots, end: Slots, size: Slots, group: Slots, streams: RandomStreams
) -> Draw:
    """Put each group on consecutive busy nodes (skipping idle ones), beginning at a random node."""
    idle_until = np.full(nodes, -(10**9), dtype=np.int64)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    after = np.append(first[1:], len(group))
    where = (streams.uniform(7, len(first)) * nodes).astype(np.int64)
    pieces: list[tuple[Slots, Slots, Slots]] = []
    for k, (a, b) in enumerate(zip(first.tolist(), after.tolist(), strict=True)):
        busy = np.flatnonzero(idle_until < start[a])
        ends = np.repeat(end[a:b], size[a:b])[: len(busy)]
        if len(ends):
            begin = int(np.searchsorted(busy, where[k]))
            taken = busy[(begin + np.arange(len(ends))) % len(busy)]
            idle_until[taken] = ends
            pieces.append((taken, np.full(len(ends), start[a]), ends))
    return Draw(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))


def _window(drawn: Draw, span: int) -> Draw:
    """Cut the fragments to the window, drop those under a minute at its edges, and move the last
    event to its end.
    """
    node, end = drawn.node, drawn.end
    start = np.maximum(drawn.start, 0)
    keep = (np.minimum(end, span) - start >= SHORTEST_SLOTS) & (start <= span - SHORTEST_SLOTS)
    node, start, end = node[keep], start[keep], end[keep].copy()
    if not len(node):
        return Draw(np.array([0]), np.array([span - SHORTEST_SLOTS]), np.array([span]))
    still = end >= span
    closing = end[still].min() if still.any() else end.max()
    end[end == closing] = span
    return Draw(node, start, end)
