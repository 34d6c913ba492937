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
    """The parameters of a draw, which are calibrated until the log is like the paper's: the numbers
    of joins, leaves and fragments in the window (without the warm-up before it), the share of short
    fragments, and a factor (``tail_scale``) for the lengths of long ones.
    """

    joins: float
    leaves: float
    fragments: float
    short_share: float
    tail_scale: float


@dataclass(frozen=True, slots=True)
class Draw:
    """Fragments as parallel arrays: the index of the node, and start and end in slots since the
    start of the window. A fragment with an end after the window is still idle at its end.
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
        """Return the first ``count`` numbers in [0, 1) of the stream for a purpose."""
        bits = np.random.PCG64(np.random.SeedSequence([*self._seed, purpose]))
        return np.random.Generator(bits).random(count)


def draw(nodes: int, span: int, parameters: DrawParameters, streams: RandomStreams) -> Draw:
    """Draw the idle fragments of a cluster of ``nodes`` nodes over ``span`` slots of time.

    A fragment is a period in which one node is idle. At each of the drawn instants, a group of
    nodes becomes idle, as when a job ends; the parts of a group stay idle for different lengths.
    """
    growth = (span + WARM_UP_SLOTS) / span  # the counts of parameters are without the warm-up
    instants = _draw_instants(span, round(parameters.joins * growth), streams)
    mean_size = parameters.fragments * growth / len(instants)
    group_sizes = _draw_group_sizes(instants, nodes, mean_size, streams)
    group, size = _split_groups(group_sizes, streams)
    start = instants[group]
    end = start + _draw_lengths(size, parameters, span, streams)
    is_fixed = np.zeros(len(start), dtype=bool)
    for drain_start, drain_end in _draw_drains(instants, group_sizes, nodes, span, streams):
        is_inside = (start >= drain_start) & (start <= drain_end - SHORTEST_SLOTS)
        end[is_inside] = drain_end
        is_fixed[is_inside] = True
    end = _merge_ends(start, end, is_fixed, round(parameters.leaves * growth))
    return _cut_to_window(_place_groups(nodes, start, end, size, group, streams), span)


def _draw_instants(span: int, count: int, streams: RandomStreams) -> Slots:
    """Draw about ``count`` distinct slots in which nodes become idle; return them in order.

    There are more of them at some hours of the day, most at 15 h. Slot 0 begins the window; those
    before it are of the warm-up.
    """
    slots = np.arange(-WARM_UP_SLOTS, span)
    hour = slots / SLOTS_PER_H
    weight = np.rint(1000 * (1 + 0.4 * np.cos(2 * math.pi * (hour - 15) / 24))).astype(np.int64)
    weight_until = np.cumsum(weight)
    count = max(1, min(count, len(slots) // 2))
    # Many more are drawn than needed; the first ``count`` distinct ones are used.
    drawn = streams.uniform(1, 8 * count)
    picked = np.searchsorted(
        weight_until, (drawn * weight_until[-1]).astype(np.int64), side="right"
    )
    _, first_draw = np.unique(picked, return_index=True)
    return np.asarray(slots[np.sort(picked[np.sort(first_draw)[:count]])])


def _draw_group_sizes(instants: Slots, nodes: int, mean: float, streams: RandomStreams) -> Slots:
    """Draw how many nodes become idle together at each instant; return the sizes by instant.

    They are evenly spaced quantiles of a lognormal distribution with the given mean, in random
    order, the larger ones mostly in "loose" hours, in which many nodes become idle.
    """
    normal, count = NormalDist(), len(instants)
    z = np.array([normal.inv_cdf((k + 0.5) / count) for k in range(count)])
    sigma = 1.97 * math.log(max(nodes, 2)) / math.log(4734)
    # No group has more than 95 % of the nodes.
    largest = max(1, nodes * 19 // 20)

    def sizes(mu: float) -> Slots:
        lognormal = np.exp(np.minimum(mu + sigma * z, 30.0))
        return np.clip(np.rint(lognormal), 1, largest).astype(np.int64)

    # Rounding and limits change the mean: mu is searched by bisection.
    low, high = -10.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        if sizes(middle).sum() < mean * count:
            low = middle
        else:
            high = middle
    # In a loose period of six hours, large groups are more likely.
    period = (instants + WARM_UP_SLOTS) // (6 * SLOTS_PER_H)
    looseness = streams.uniform(8, int(period[-1]) + 1)[period]
    key = streams.uniform(2, count) + 0.5 * looseness
    rank = np.argsort(np.argsort(key, kind="stable"), kind="stable")
    return sizes(high)[rank]


def _split_groups(group_sizes: Slots, streams: RandomStreams) -> tuple[Slots, Slots]:
    """Split each group of nodes into parts that stay idle equally long.

    Return, by part, the index of its group and its number of nodes. The parts of a group are
    adjacent, the largest first.
    """
    mean_extra = 0.38 * np.log(group_sizes)
    ratio = mean_extra / (1 + mean_extra)
    u = 1 - streams.uniform(3, len(group_sizes))
    # The number of parts beyond the first has a geometric distribution.
    geometric = np.floor(np.log(u) / np.log(np.maximum(ratio, 1e-9)))
    n_extra = np.where(ratio > 0, geometric, 0).astype(np.int64)
    n_extra = np.minimum(n_extra, np.minimum(group_sizes - 1, 8))
    # The parts beyond the first have 16 % of the nodes together, and at least one each.
    extra_size = np.maximum(1, 16 * group_sizes // (100 * np.maximum(n_extra, 1)))
    group = np.repeat(np.arange(len(group_sizes)), n_extra + 1)
    size = extra_size[group]
    first = np.cumsum(n_extra + 1) - (n_extra + 1)
    size[first] = group_sizes - n_extra * extra_size
    return group, size


def _draw_lengths(
    size: Slots, parameters: DrawParameters, span: int, streams: RandomStreams
) -> Slots:
    """Draw how long each part stays idle, in slots of 10 s.

    They are evenly spaced quantiles, weighted by nodes, in random order; the formulas of short and
    long ones are fitted (see the module).
    """
    order = np.argsort(streams.uniform(4, len(size)), kind="stable")
    u = np.empty(len(size))
    u[order] = (np.cumsum(size[order]) - size[order] / 2) / size.sum()
    p = parameters.short_share
    is_short = u < p
    # The quantile among the short lengths, or among the long ones.
    quantile = np.clip(np.where(is_short, u / p, (u - p) / (1 - p)), 0, 1 - 1e-12)
    short_s = 70 * (600 / 70) ** (quantile**1.2)
    long_s = 600 + parameters.tail_scale * 1456 * (-np.log1p(-quantile)) ** 1.25
    longest = max(SHORT_SLOTS, min(6 * SLOTS_PER_H, span // 4))
    short = np.clip(np.rint(short_s / SLOT_S), SHORTEST_SLOTS, SHORT_SLOTS - 1)
    long = np.clip(np.rint(long_s / SLOT_S), SHORT_SLOTS, longest)
    return np.where(is_short, short, long).astype(np.int64)


def _draw_drains(
    instants: Slots, group_sizes: Slots, nodes: int, span: int, streams: RandomStreams
) -> list[tuple[int, int]]:
    """Draw drains, in which nodes stay idle until a common end, as before a large job.

    Return the start and end of each, in slots. There is at most one in each equal part of the
    window; a drain ends early if enough nodes have become idle in it.
    """
    # Five a week; the random number rounds the fraction up or down.
    count = int(span / (7 * 24 * SLOTS_PER_H) * 5 + streams.uniform(5, 1)[0])
    drains = []
    random_numbers = streams.uniform(6, 3 * count).reshape(count, 3)
    for part, (u_start, u_length, u_depth) in enumerate(random_numbers):
        start = int((part + u_start) * span / count)
        end = start + min(round((2 + 1.5 * u_length) * SLOTS_PER_H), span // 8)
        first_instant = int(np.searchsorted(instants, start))
        n_idle = np.cumsum(group_sizes[first_instant : np.searchsorted(instants, end)])
        enough_index = int(np.searchsorted(n_idle, (0.4 + 0.5 * u_depth) * nodes))
        if enough_index < len(n_idle):
            end = min(end, int(instants[first_instant + enough_index]) + SHORT_SLOTS)
        if end <= span:
            drains.append((start, end))
    return drains


def _merge_ends(start: Slots, end: Slots, is_fixed: NDArray[np.bool_], target_count: int) -> Slots:
    """Move ends of fragments that are close to each other to one time; return the ends.

    As many are moved as it takes for about ``target_count`` distinct times to remain, because a log
    has fewer events than fragments: a job takes several nodes at once. No part may become short or
    stop being short; fixed ends (of drains) do not move.
    """
    # Neighbors in the order of ends are joined to clusters, the closest first. The cost of a gap
    # is relative to the shorter of the two fragments.
    order = np.lexsort((start, end))
    gap = np.diff(end[order])
    length = (end - start)[order]
    cost = gap / np.minimum(length[1:], length[:-1])
    gaps = np.flatnonzero(gap > 0)
    surplus = max(0, len(gaps) + 1 - target_count)
    is_joined = gap == 0
    is_joined[gaps[np.argsort(cost[gaps], kind="stable")[:surplus]]] = True
    cluster = np.concatenate(([0], np.cumsum(~is_joined)))
    # A cluster moves to the end in its middle, or to a fixed end in it.
    first = np.flatnonzero(np.concatenate(([True], ~is_joined)))
    last = np.append(first[1:], len(order)) - 1
    target = end[order][(first + last) // 2]
    fixed = np.flatnonzero(is_fixed[order])
    target[cluster[fixed]] = end[order][fixed]
    new_end = end.copy()
    new_end[order] = target[cluster]
    old_length, new_length = end - start, new_end - start
    changes_class = (old_length < SHORT_SLOTS) != (new_length < SHORT_SLOTS)
    stays = is_fixed | (new_length < SHORTEST_SLOTS) | changes_class
    return np.where(stays, end, new_end)


def _place_groups(
    nodes: int, start: Slots, end: Slots, size: Slots, group: Slots, streams: RandomStreams
) -> Draw:
    """Return the fragments with a node for each: each group on consecutive busy nodes.

    Idle nodes are skipped; a group begins at a random node. Parts of a group for which no busy node
    is left are dropped.
    """
    idle_until = np.full(nodes, -(10**9), dtype=np.int64)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    after = np.append(first[1:], len(group))
    first_node = (streams.uniform(7, len(first)) * nodes).astype(np.int64)
    placed: list[tuple[Slots, Slots, Slots]] = []
    for k, (first_part, next_group) in enumerate(zip(first.tolist(), after.tolist(), strict=True)):
        busy = np.flatnonzero(idle_until < start[first_part])
        ends = np.repeat(end[first_part:next_group], size[first_part:next_group])[: len(busy)]
        if len(ends):
            begin = int(np.searchsorted(busy, first_node[k]))
            group_nodes = busy[(begin + np.arange(len(ends))) % len(busy)]
            idle_until[group_nodes] = ends
            placed.append((group_nodes, np.full(len(ends), start[first_part]), ends))
    return Draw(*(np.concatenate(columns) for columns in zip(*placed, strict=True)))


def _cut_to_window(drawn: Draw, span: int) -> Draw:
    """Return the fragments cut to the window, without those that are then shorter than a minute.

    The last event moves to the end of the window, so that the log has the length that was asked
    for.
    """
    node, end = drawn.node, drawn.end
    start = np.maximum(drawn.start, 0)
    keep = (np.minimum(end, span) - start >= SHORTEST_SLOTS) & (start <= span - SHORTEST_SLOTS)
    node, start, end = node[keep], start[keep], end[keep].copy()
    if not len(node):
        return Draw(np.array([0]), np.array([span - SHORTEST_SLOTS]), np.array([span]))
    # A log ends at its last event: the fragments with the first end at or after the end of the
    # window (without one, the latest end) end there.
    ends_later = end >= span
    last_end = end[ends_later].min() if ends_later.any() else end.max()
    end[end == last_end] = span
    return Draw(node, start, end)
