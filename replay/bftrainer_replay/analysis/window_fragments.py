"""Fragments and pool sizes of a window, as arrays.

A fragment is a period during which one node is idle; a node may have many (paper 2.1). Of fragments
that the window cuts at its start or end, the part inside counts. The node-time of all fragments is
therefore the resource integral of Eqn 17, and a node that is always idle is one fragment as long as
the window.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.logs.model import LogWindow


@dataclass(frozen=True, slots=True)
class Fragments:
    """The fragments of a window as parallel arrays, in order of their ends (ties by name; fragments
    still open at the window's end come last).
    """

    nodes: tuple[str, ...]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]

    @property
    def length_s(self) -> NDArray[np.float64]:
        """Seconds of each fragment inside the window."""
        return self.end_s - self.start_s


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
    """Return every fragment (period in which one node is idle) of the window; of fragments that the
    window cuts, the part inside.
    """
    idle_since = dict.fromkeys(window.initial, window.start_s)
    nodes: list[str] = []
    start_s, end_s = array("d"), array("d")  # a log of 49,152 nodes has millions of fragments
    for event in window.events:
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
    return Fragments(tuple(nodes), np.frombuffer(start_s), np.frombuffer(end_s))


def pool_sizes_of(window: LogWindow) -> PoolSizes:
    """Return the number of idle nodes from each event to the next, beginning with the initial
    state.
    """
    changes = [len(event.change.joined) - len(event.change.left) for event in window.events]
    start_s = np.array([window.start_s, *(event.at_s for event in window.events)], dtype=np.float64)
    nodes = np.cumsum([len(window.initial), *changes], dtype=np.int64)
    return PoolSizes(start_s, np.diff(start_s, append=window.end_s), nodes)


def sizes_once_started(window: LogWindow, wait_s: float) -> PoolSizes:
    """Return the number of nodes over time that have been idle for at least ``wait_s``; nodes that
    are idle at the window's start count from there.
    """
    fragments = fragments_of(window)
    outlasts_wait = fragments.start_s + wait_s < fragments.end_s
    begins_s = fragments.start_s[outlasts_wait] + wait_s
    ends_s = fragments.end_s[outlasts_wait]
    steps = np.repeat(np.array((1, -1), dtype=np.int64), len(begins_s))
    # A step of 0 at the window's start makes it the first time.
    all_s = np.concatenate((begins_s, ends_s, [window.start_s]))
    times_s, time_index = np.unique(all_s, return_inverse=True)
    change = np.bincount(time_index, np.append(steps, 0), len(times_s)).astype(np.int64)
    return PoolSizes(times_s, np.diff(times_s, append=window.end_s), np.cumsum(change))
