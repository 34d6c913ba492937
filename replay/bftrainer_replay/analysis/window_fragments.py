"""Fragments and pool sizes of a window, as arrays.

A fragment is a period during which one node is idle; a node may have many (paper 2.1). Of fragments
that the window cuts at its start or end, the part inside counts. The node-time of all fragments is
therefore the resource integral of Eqn 17, and a node that is always idle is one fragment as long as
the window.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.logs.model import GroupedEvents, LogWindow, times_of
from bftrainer_replay.logs.node_groups import NodeGroups

_HALF = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Fragments:
    """The fragments of a window as parallel arrays, in order of their ends (fragments still open at
    the window's end come last).

    The nodes of a group are idle together: the fragments of row k are those of the
    ``groups.weights[group[k]]`` nodes of that group.
    """

    groups: NodeGroups
    group: NDArray[np.int64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]

    @property
    def length_s(self) -> NDArray[np.float64]:
        """Seconds inside the window of each row."""
        return self.end_s - self.start_s

    @property
    def weights(self) -> NDArray[np.int64]:
        """The number of fragments in each row."""
        return self.groups.weights[self.group]

    @property
    def first_nodes(self) -> list[str]:
        """The first node of each row, which has what all nodes of the row have."""
        return [self.groups.names[node] for node in self.groups.first[self.group].tolist()]

    @property
    def node_s(self) -> NDArray[np.float64]:
        """The node-seconds of each row."""
        return self.length_s * self.weights

    @property
    def count(self) -> int:
        """The number of fragments."""
        return int(self.weights.sum())

    def selected(self, mask: NDArray[np.bool_]) -> Fragments:
        """Return the rows in the mask."""
        return Fragments(self.groups, self.group[mask], self.start_s[mask], self.end_s[mask])

    def quantiles_s(self, *shares: float) -> list[float]:
        """Return the lengths below which these shares of the fragments are, interpolated linearly.
        There must be a fragment.
        """
        return weighted_quantiles(self.length_s, self.weights, shares)

    def by_length(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the different lengths in ascending order, and the number of fragments of each."""
        lengths_s, index = np.unique(self.length_s, return_inverse=True)
        counts = np.bincount(index, self.weights, minlength=len(lengths_s))
        return lengths_s, counts.astype(np.int64)


def weighted_quantiles(
    values: NDArray[np.float64], weights: NDArray[np.int64], shares: Sequence[float]
) -> list[float]:
    """Return what ``numpy.quantile`` gives for the values, each repeated as often as its weight
    says.

    The numbers are the same to the last bit, but no value is repeated in memory.
    """
    order = np.argsort(values, kind="stable")
    ordered, cumulative_weight = values[order], np.cumsum(weights[order])
    quantiles = []
    for share in shares:
        # The index of the quantile among all repeated values, with a fraction.
        place = share * (int(cumulative_weight[-1]) - 1)
        below = math.floor(place)
        first, second = (
            float(
                ordered[
                    np.searchsorted(
                        cumulative_weight, min(k, int(cumulative_weight[-1]) - 1), side="right"
                    )
                ]
            )
            for k in (below, below + 1)
        )
        part, distance = place - below, second - first
        # numpy interpolates from the nearer side.
        between = first + distance * part if part < _HALF else second - distance * (1 - part)
        quantiles.append(between)
    return quantiles


@dataclass(frozen=True, slots=True)
class PoolSizes:
    """|N| as a step function: ``nodes[k]`` holds from ``start_s[k]`` for ``duration_s[k]``
    seconds.
    """

    start_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    nodes: NDArray[Any]

    def node_s(self, max_nodes: float = math.inf) -> float:
        """Return the resource integral (Eqn 17), in node-seconds, of at most ``max_nodes`` nodes at
        a time.
        """
        return float(np.dot(np.minimum(self.nodes, max_nodes), self.duration_s))

    def node_s_by(self, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the resource integral from the first time up to each time in ``at_s``."""
        edges_s = np.append(self.start_s, self.start_s[-1] + self.duration_s[-1])
        sums = np.concatenate(([0.0], np.cumsum(self.nodes * self.duration_s)))
        integral: NDArray[np.float64] = np.interp(at_s, edges_s, sums)
        return integral

    def node_hours(self) -> float:
        """Return the resource integral in node-hours."""
        return self.node_s() / 3600


def fragments_of(window: LogWindow) -> Fragments:
    """Return every fragment (period in which one node is idle) of the window, in order of their
    ends.

    Of fragments that the window cuts, the part inside counts.
    """
    events = window.events
    if isinstance(events, GroupedEvents):
        return Fragments(events.groups, *events.periods(window.start_s, window.end_s))
    idle_since = dict.fromkeys(window.initial, window.start_s)
    nodes: list[str] = []
    start_s, end_s = array("d"), array("d")  # a log may have millions of fragments
    for event in events:
        for node in sorted(event.change.left):
            nodes.append(node)
            start_s.append(idle_since.pop(node))
            end_s.append(event.at_s)
        for node in event.change.joined:
            idle_since[node] = event.at_s
    for node in sorted(idle_since):
        if idle_since[node] < window.end_s:
            nodes.append(node)
            start_s.append(idle_since[node])
            end_s.append(window.end_s)
    groups = NodeGroups.alone(sorted(set(nodes)))
    index_of = {name: index for index, name in enumerate(groups.names)}
    group = np.array([index_of[name] for name in nodes], dtype=np.int64)
    return Fragments(groups, group, np.frombuffer(start_s), np.frombuffer(end_s))


def joined_and_left(window: LogWindow) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of nodes that join and that leave at each event of the window."""
    events = window.events
    if isinstance(events, GroupedEvents):
        return events.joined_and_left()
    counts = [(len(event.change.joined), len(event.change.left)) for event in events]
    joined, left = np.array(counts, dtype=np.int64).reshape(-1, 2).T
    return joined, left


def pool_sizes_of(window: LogWindow) -> PoolSizes:
    """Return the number of idle nodes over time: from each event to the next.

    It begins with the nodes that are idle at the window's start.
    """
    joined, left = joined_and_left(window)
    start_s = np.concatenate(([window.start_s], times_of(window.events)))
    nodes = len(window.initial) + np.concatenate(([0], np.cumsum(joined - left)))
    return PoolSizes(start_s, np.diff(start_s, append=window.end_s), nodes)


def sizes_once_started(window: LogWindow, wait_s: float) -> PoolSizes:
    """Return over time how many nodes have been idle for at least ``wait_s``.

    Nodes that are idle at the window's start count from there. Fragments that end before the wait
    is over count nowhere.
    """
    fragments = fragments_of(window)
    outlasts_wait = fragments.start_s + wait_s < fragments.end_s
    begins_s = fragments.start_s[outlasts_wait] + wait_s
    ends_s = fragments.end_s[outlasts_wait]
    weights = fragments.weights[outlasts_wait]
    steps = np.concatenate((weights, -weights))
    # A step of 0 at the window's start makes it the first time.
    all_s = np.concatenate((begins_s, ends_s, [window.start_s]))
    times_s, time_index = np.unique(all_s, return_inverse=True)
    change = np.bincount(time_index, np.append(steps, 0), len(times_s)).astype(np.int64)
    return PoolSizes(times_s, np.diff(times_s, append=window.end_s), np.cumsum(change))
