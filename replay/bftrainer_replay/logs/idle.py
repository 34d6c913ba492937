"""From jobs on nodes to idle nodes over time: a node is idle while no job holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer.decide.domain.events import PoolChanged
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.model import PoolEvent
from bftrainer_replay.logs.span import TrustedSpan

_EMPTY: frozenset[str] = frozenset()
Ints = NDArray[np.int64]
_AT_ONCE = 1 << 16
"""Events whose nodes are named together: lists of all of them would take more memory than the
events.
"""


@dataclass(frozen=True, slots=True, eq=False)
class NodePeriods:
    """Periods of nodes as parallel arrays (node, since, until), in whole milliseconds since the
    span's start.
    """

    nodes: Ints
    since: Ints
    until: Ints

    @property
    def length_h(self) -> NDArray[np.float64]:
        """Hours of each period."""
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
    """Turn arrays of nodes and times in seconds into :class:`NodePeriods`, clipped to the span."""
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
        [_uncovered(taken, length) for taken, _ in taken_periods(table, span, unavailable)]
    )


def taken_periods(
    table: JobTable, span: TrustedSpan, unavailable: NodePeriods
) -> Iterator[tuple[NodePeriods, NDArray[np.int64]]]:
    """Yield (periods, jobs) for one group of nodes after another: the periods in which nodes are
    not idle, and the job of each of the first ``len(jobs)`` of these periods.

    The further periods belong to no job. A node is taken as a whole in them: it is unavailable, in
    an outage, or at an edge of the span (where the period has no length).
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
    """Concatenate the periods of all parts."""
    return NodePeriods(
        *(
            np.concatenate([getattr(part, name) for part in periods])
            for name in NodePeriods.__slots__
        )
    )


def without(
    periods: NodePeriods, idle: NodePeriods, n_nodes: int, span: TrustedSpan
) -> NodePeriods:
    """Return the parts of ``periods`` that ``idle``, which lies inside of them, does not cover;
    ``n_nodes`` is the number of nodes.
    """
    length = length_of(span)
    nodes = np.arange(n_nodes, dtype=np.int64)
    edges = _periods_of_all(nodes, 0, 0) + _periods_of_all(nodes, length, length)
    # Outside of ``periods`` or inside of ``idle``: the rest is what neither covers.
    outside = _uncovered(periods + edges, length)
    return _uncovered(outside + idle + edges, length)


def _uncovered(periods: NodePeriods, length: int) -> NodePeriods:
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
    is_gap = (since[1:] > covered_until[:-1]) & (node[1:] == node[:-1])
    gap_node = node[1:][is_gap]
    gap_since = covered_until[:-1][is_gap] - gap_node * stretch
    return NodePeriods(gap_node, gap_since, since[1:][is_gap] - gap_node * stretch)


def idle_events(
    idle: NodePeriods, names: tuple[str, ...], span: TrustedSpan, debounce_s: float
) -> tuple[PoolEvent, ...]:
    """Turn idle periods into the events of the pool of idle nodes over ``span``; the last event is
    at the end of the span, even if nothing changes there.

    Idle periods shorter than ``debounce_s`` are dropped unless an edge of the span cuts them. Times
    are rounded to milliseconds, the resolution of event logs.
    """
    return _events(*_changes(idle, span, debounce_s), names, span)


def _changes(
    idle: NodePeriods, span: TrustedSpan, debounce_s: float
) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return all joins and leaves as three arrays in order of time: milliseconds since the span's
    start, the node, and whether it leaves. At equal times, joins come before leaves. A node that is
    idle at the end of the span does not leave.
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


def _events(
    at_ms: Ints, node: Ints, leaves: NDArray[np.bool_], names: tuple[str, ...], span: TrustedSpan
) -> tuple[PoolEvent, ...]:
    """Group the arrays of :func:`_changes` by time into one event each; add an event without
    changes at an edge of the span that has none.
    """
    # Changes cuts[k] to cuts[k + 1] are those of event k; its first n_joins[k] are joins.
    begins = np.flatnonzero(np.diff(at_ms, prepend=-1))
    cuts = np.append(begins, len(at_ms))
    n_joins = np.add.reduceat(~leaves, begins, dtype=np.int64) if len(at_ms) else begins
    times_s = np.round(span.start_s + at_ms[begins] / 1000, 3)
    node_names = np.array(names, dtype=object)
    # The nodes of a job often join and leave together: equal sets are stored once.
    unique_sets: dict[frozenset[str], frozenset[str]] = {_EMPTY: _EMPTY}

    def node_set(listed: list[str]) -> frozenset[str]:
        nodes = frozenset(listed)
        return unique_sets.setdefault(nodes, nodes)

    events: list[PoolEvent] = []
    if not len(at_ms) or at_ms[0] != 0:
        events.append(PoolEvent(span.start_s, PoolChanged()))
    for first in range(0, len(times_s), _AT_ONCE):
        last = min(first + _AT_ONCE, len(times_s))
        chunk_names = node_names[node[cuts[first] : cuts[last]]].tolist()
        chunk_times_s = times_s[first:last].tolist()
        ends = (cuts[first + 1 : last + 1] - cuts[first]).tolist()
        begin = 0
        for at_s, end, count in zip(chunk_times_s, ends, n_joins[first:last].tolist(), strict=True):
            middle = begin + count  # joins come before leaves
            joined, left = node_set(chunk_names[begin:middle]), node_set(chunk_names[middle:end])
            events.append(PoolEvent(at_s, PoolChanged(joined, left)))
            begin = end
    if not len(at_ms) or at_ms[-1] != length_of(span):
        events.append(PoolEvent(span.end_s, PoolChanged()))
    return tuple(events)
