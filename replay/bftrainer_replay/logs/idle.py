"""From jobs on nodes to idle nodes over time: a node is idle while no job holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.model import GroupedEvents
from bftrainer_replay.logs.node_groups import NodeGroups
from bftrainer_replay.logs.span import TrustedSpan

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class NodePeriods:
    """Periods of nodes, or of node groups, as parallel arrays (node, since, until), in whole
    milliseconds since the span's start.
    """

    nodes: Ints
    since: Ints
    until: Ints

    @property
    def length_h(self) -> NDArray[np.float64]:
        """Hours of each period."""
        return (self.until - self.since) / 3_600_000

    def node_h(self, groups: NodeGroups) -> float:
        """Return the hours of all periods, those of a group once for each of its nodes."""
        return float(np.dot(self.length_h, groups.weights[self.nodes]))

    def of_nodes(self, groups: NodeGroups) -> NodePeriods:
        """Return the periods of nodes, where these are of their groups: each is repeated for each
        node.
        """
        nodes_by_group = np.argsort(groups.of_node, kind="stable")
        ends = np.cumsum(groups.weights)
        counts = groups.weights[self.nodes]
        # The k-th node of the group of each period, for k from 0 to its weight.
        k = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        begins = np.repeat((ends - groups.weights)[self.nodes], counts)
        return NodePeriods(
            nodes_by_group[begins + k], np.repeat(self.since, counts), np.repeat(self.until, counts)
        )

    def selected(self, mask: NDArray[np.bool_]) -> NodePeriods:
        """Return the periods in the mask."""
        return NodePeriods(self.nodes[mask], self.since[mask], self.until[mask])

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
    """Return periods of nodes from arrays of nodes and times in seconds, clipped to the span."""
    since, until = (
        milliseconds(np.array(times, dtype=np.float64), span) for times in (start_s, end_s)
    )
    return NodePeriods(np.array(nodes, dtype=np.int64), since, until)


def idle_periods(
    table: JobTable, span: TrustedSpan, unavailable: NodePeriods = NO_PERIODS
) -> NodePeriods:
    """Return when each node is idle: no job holds it, it is not ``unavailable``, and there is no
    outage.
    """
    length = length_of(span)
    return together(
        [_gaps_between(taken, length) for taken, _ in taken_periods(table, span, unavailable)]
    )


def taken_periods(
    table: JobTable, span: TrustedSpan, unavailable: NodePeriods
) -> Iterator[tuple[NodePeriods, NDArray[np.int64]]]:
    """Yield (periods, jobs) for one group of nodes after another: when nodes are not idle, and why.

    ``jobs`` has the job of each of the first ``len(jobs)`` periods. The further periods belong to
    no job. A node is taken as a whole in them: it is unavailable, in an outage, or at an edge of
    the span (where the period has no length).
    """
    length = length_of(span)
    # A busy interval of zero length at each edge of the span makes the first and last idle periods
    # like all others.
    closed = [
        (0, 0),
        (length, length),
        *(milliseconds(np.array(outage), span).tolist() for outage in span.outages),
    ]
    for begin, end, places, jobs in table.node_groups():
        since = milliseconds(table.start_s[jobs], span)
        until = milliseconds(table.end_s[jobs], span)
        # Clipped to the span, a job outside of it has no length.
        is_inside = until > since
        taken = NodePeriods(
            table.members[places[is_inside]].astype(np.int64), since[is_inside], until[is_inside]
        )
        is_down = (unavailable.nodes >= begin) & (unavailable.nodes < end)
        taken += NodePeriods(
            unavailable.nodes[is_down], unavailable.since[is_down], unavailable.until[is_down]
        )
        for closed_since, closed_until in closed:
            taken += _periods_of_all(np.arange(begin, end), closed_since, closed_until)
        yield taken, jobs[is_inside]


def _periods_of_all(nodes: Ints, since: int, until: int) -> NodePeriods:
    """Return the same period for each of the nodes."""
    return NodePeriods(nodes, np.full(len(nodes), since), np.full(len(nodes), until))


def together(periods: Sequence[NodePeriods]) -> NodePeriods:
    """Return the periods of all parts as one."""
    return NodePeriods(
        *(
            np.concatenate([getattr(part, name) for part in periods])
            for name in NodePeriods.__slots__
        )
    )


def uncovered_parts(
    periods: NodePeriods, idle: NodePeriods, n_nodes: int, span: TrustedSpan
) -> NodePeriods:
    """Return the parts of ``periods`` that ``idle`` does not cover.

    ``idle`` lies inside of ``periods``; ``n_nodes`` is the number of nodes.
    """
    length = length_of(span)
    nodes = np.arange(n_nodes, dtype=np.int64)
    edges = _periods_of_all(nodes, 0, 0) + _periods_of_all(nodes, length, length)
    # Outside of ``periods`` or inside of ``idle``: the rest is what neither covers.
    outside = _gaps_between(periods + edges, length)
    return _gaps_between(outside + idle + edges, length)


def _gaps_between(periods: NodePeriods, length: int) -> NodePeriods:
    """Return, for each node, the gaps between its periods, which may overlap; ``length`` is that of
    the span in milliseconds.
    """
    # All nodes are put on one number line, a stretch of it per node, so that one running maximum
    # serves all nodes.
    stretch = length + 1
    since = periods.since + periods.nodes * stretch
    order = np.argsort(since, kind="stable")
    since, node = since[order], periods.nodes[order]
    covered_until = np.maximum.accumulate(periods.until[order] + node * stretch)
    # Nothing covers the time before this period, and it is not the first of its node.
    is_gap = (since[1:] > covered_until[:-1]) & (node[1:] == node[:-1])
    gap_node = node[1:][is_gap]
    gap_since = covered_until[:-1][is_gap] - gap_node * stretch
    return NodePeriods(gap_node, gap_since, since[1:][is_gap] - gap_node * stretch)


def idle_events(
    idle: NodePeriods, groups: NodeGroups, span: TrustedSpan, debounce_s: float
) -> GroupedEvents:
    """Return the events of the pool of idle nodes over ``span``, from idle periods of node groups.

    The last event is at the end of the span, even if nothing changes there. Idle periods shorter
    than ``debounce_s`` are dropped unless an edge of the span cuts them. Times are rounded to
    milliseconds, the resolution of event logs.
    """
    return _grouped_events(*_joins_and_leaves(idle, span, debounce_s), groups, span)


def _joins_and_leaves(
    idle: NodePeriods, span: TrustedSpan, debounce_s: float
) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return all joins and leaves of idle nodes in order of time, as three arrays.

    They are milliseconds since the span's start, the node, and whether it leaves. At equal times,
    joins come before leaves. A node that is idle at the end of the span does not leave. Periods
    shorter than ``debounce_s`` are left out.
    """
    length = length_of(span)
    is_long = idle.until - idle.since >= 1000 * debounce_s
    # A period that an edge of the span cuts may be longer than the log shows.
    keep = is_long | (idle.since == 0) | (idle.until == length)
    nodes, since, until = idle.nodes[keep], idle.since[keep], idle.until[keep]
    has_ended = until < length
    at_ms = np.concatenate((since, until[has_ended]))
    node = np.concatenate((nodes, nodes[has_ended]))
    leaves = np.arange(len(at_ms)) >= len(since)
    order = np.argsort(at_ms, kind="stable")
    return at_ms[order], node[order], leaves[order]


def length_of(span: TrustedSpan) -> int:
    """Return the length of the span in whole milliseconds."""
    return int(milliseconds(np.array([span.end_s]), span)[0])


def milliseconds(times: NDArray[np.float64], span: TrustedSpan) -> Ints:
    """Return times in seconds, clipped to the span, as whole milliseconds since its start."""
    return np.rint((np.clip(times, span.start_s, span.end_s) - span.start_s) * 1000).astype(
        np.int64
    )


def _grouped_events(
    at_ms: Ints, group: Ints, leaves: NDArray[np.bool_], groups: NodeGroups, span: TrustedSpan
) -> GroupedEvents:
    """Return the events of the pool: one for each time in the arrays of :func:`_joins_and_leaves`.

    An edge of the span that has no changes gets an event without changes.
    """
    # Changes cuts[k] to cuts[k + 1] are those of event k; its first n_joins[k] are joins.
    begins = np.flatnonzero(np.diff(at_ms, prepend=-1))
    cuts = np.append(begins, len(at_ms))
    n_joins = np.add.reduceat(~leaves, begins, dtype=np.int64) if len(at_ms) else begins
    middles = begins + n_joins
    times_s = np.round(span.start_s + at_ms[begins] / 1000, 3)
    if not len(at_ms) or at_ms[0] != 0:
        times_s = np.concatenate(([span.start_s], times_s))
        cuts, middles = np.concatenate(([0], cuts)), np.concatenate(([0], middles))
    if not len(at_ms) or at_ms[-1] != length_of(span):
        times_s = np.append(times_s, span.end_s)
        cuts, middles = np.append(cuts, len(at_ms)), np.append(middles, len(at_ms))
    is_idle = np.zeros(len(groups), dtype=np.bool_)
    return GroupedEvents(groups, times_s, cuts, middles, group.astype(np.int32), is_idle)
