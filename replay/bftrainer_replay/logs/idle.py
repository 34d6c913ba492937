"""From jobs on nodes to idle nodes over time: a node is idle while no job holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer.domain.events import PoolChanged
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.model import PoolEvent
from bftrainer_replay.logs.span import TrustedSpan

_EMPTY: frozenset[str] = frozenset()
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class NodePeriods:
    """(node, since, until) as parallel arrays, in whole milliseconds since the span's start."""

    nodes: Ints
    since: Ints
    until: Ints

    @property
    def length_h(self) -> NDArray[np.float64]:
        """Hours of each."""
        return (self.until - self.since) / 3_600_000

    def __add__(self, other: NodePeriods) -> NodePeriods:
        return NodePeriods(
            np.concatenate((self.nodes, other.nodes)),
            np.concatenate((self.since, other.since)),
            np.concatenate((self.until, other.until)),
        )


NO_PERIODS = NodePeriods(*(np.empty(0, dtype=np.int64) for _ in range(3)))


def periods_of(
    nodes: Sequence[int], start_s: Sequence[float], end_s: Sequence[float], span: TrustedSpan
) -> NodePeriods:
    """Periods in seconds, clipped to the span."""
    since, until = (_milliseconds(np.array(times, dtype=np.float64), span) for times in (start_s, end_s))
    return NodePeriods(np.array(nodes, dtype=np.int64), since, until)


def idle_periods(table: JobTable, span: TrustedSpan, unavailable: NodePeriods = NO_PERIODS) -> NodePeriods:
    """When each node is idle: no job holds it, it is not unavailable, and there is no outage."""
    length = length_of(span)
    counts = np.diff(table.first)
    held = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    start = _milliseconds(np.nan_to_num(table.start_s, nan=span.start_s), span)[held]
    end = _milliseconds(table.end_s, span)[held]
    inside = end > start
    names = len(table.names)
    everyone = np.arange(names, dtype=np.int64)
    # A busy interval of zero length at each edge of the span makes the first and last idle periods like all others.
    edges = [(0, 0), (length, length)]
    for out_from, out_to in span.outages:
        edge = _milliseconds(np.array([out_from, out_to]), span)
        edges.append((int(edge[0]), int(edge[1])))
    node = np.concatenate([table.members[inside].astype(np.int64), unavailable.nodes, *(everyone for _ in edges)])
    start = np.concatenate([start[inside], unavailable.since, *(np.full(names, begin) for begin, _ in edges)])
    end = np.concatenate([end[inside], unavailable.until, *(np.full(names, finish) for _, finish in edges)])
    return _uncovered(node, start, end, length)


def without(periods: NodePeriods, idle: NodePeriods, names: int, span: TrustedSpan) -> NodePeriods:
    """The parts of ``periods`` that ``idle``, which lies inside of them, does not cover."""
    length = length_of(span)
    everyone = np.arange(names, dtype=np.int64)
    edges = NodePeriods(everyone, np.zeros(names, dtype=np.int64), np.zeros(names, dtype=np.int64)) + NodePeriods(
        everyone, np.full(names, length), np.full(names, length)
    )
    first = periods + edges
    busy = _uncovered(first.nodes, first.since, first.until, length)
    whole = busy + idle + edges
    return _uncovered(whole.nodes, whole.since, whole.until, length)


def _uncovered(node: Ints, start: Ints, end: Ints, length: int) -> NodePeriods:
    """The gaps between the given intervals of each node."""
    # All nodes on one number line, a stretch of it per node, so that one running maximum serves all nodes.
    stretch = length + 1
    start = start + node * stretch
    order = np.argsort(start, kind="stable")
    start, node = start[order], node[order]
    busy_until = np.maximum.accumulate(end[order] + node * stretch)
    gap = (start[1:] > busy_until[:-1]) & (node[1:] == node[:-1])
    owner = node[1:][gap]
    return NodePeriods(owner, busy_until[:-1][gap] - owner * stretch, start[1:][gap] - owner * stretch)


def idle_events(
    idle: NodePeriods, names: tuple[str, ...], span: TrustedSpan, debounce_s: float
) -> tuple[PoolEvent, ...]:
    """The pool of idle nodes over ``span``; the last event is its end, even if nothing changes there.

    Idle periods shorter than ``debounce_s`` are dropped unless an edge of the span cuts them. Times are rounded to
    milliseconds, the resolution of event logs.
    """
    return _events(*_changes(idle, span, debounce_s), names, span)


def _changes(idle: NodePeriods, span: TrustedSpan, debounce_s: float) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """(milliseconds since the span's start, node, whether it leaves), in order; joins before leaves of an instant."""
    nodes, since, until = idle.nodes, idle.since, idle.until
    length = length_of(span)
    keep = (until - since >= 1000 * debounce_s) | (since == 0) | (until == length)
    nodes, since, until = nodes[keep], since[keep], until[keep]
    over = until < length
    at, who = np.concatenate((since, until[over])), np.concatenate((nodes, nodes[over]))
    leaves = np.arange(len(at)) >= len(since)
    order = np.argsort(at, kind="stable")
    return at[order], who[order], leaves[order]


def length_of(span: TrustedSpan) -> int:
    """Milliseconds of the span."""
    return int(_milliseconds(np.array([span.end_s]), span)[0])


def _milliseconds(times: NDArray[np.float64], span: TrustedSpan) -> Ints:
    """Times inside the span, as whole milliseconds since its start."""
    return np.rint((np.clip(times, span.start_s, span.end_s) - span.start_s) * 1000).astype(np.int64)


def _events(
    at: Ints, who: Ints, leaves: NDArray[np.bool_], names: tuple[str, ...], span: TrustedSpan
) -> tuple[PoolEvent, ...]:
    cuts = np.flatnonzero(np.diff(at)) + 1
    begins = [0, *cuts.tolist()] if len(at) else []
    ends = [*cuts.tolist(), len(at)]
    middles: list[int] = (np.cumsum(~leaves) - ~leaves).tolist()  # number of joins before each change
    moments = at[begins].tolist()
    node_names = np.array(names, dtype=object)[who].tolist()
    joins = int(np.count_nonzero(~leaves))
    same: dict[frozenset[str], frozenset[str]] = {_EMPTY: _EMPTY}  # the nodes of a job often come and go together

    def nodes(begin: int, end: int) -> frozenset[str]:
        if begin == end:
            return _EMPTY
        found = frozenset(node_names[begin:end])
        return same.setdefault(found, found)

    events: list[PoolEvent] = []
    if not moments or moments[0] != 0:
        events.append(PoolEvent(span.start_s, PoolChanged()))
    for moment, begin, end in zip(moments, begins, ends, strict=False):
        middle = begin + (middles[end] if end < len(middles) else joins) - middles[begin]  # joins stand before leaves
        change = PoolChanged(nodes(begin, middle), nodes(middle, end))
        events.append(PoolEvent(round(span.start_s + moment / 1000, 3), change))
    if not moments or moments[-1] != length_of(span):
        events.append(PoolEvent(span.end_s, PoolChanged()))
    return tuple(events)
