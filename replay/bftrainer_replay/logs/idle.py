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
        [
            _uncovered(b.nodes, b.since, b.until, length)
            for b, _ in taken_periods(table, span, unavailable)
        ]
    )


def taken_periods(
    table: JobTable, span: TrustedSpan, unavailable: NodePeriods
) -> Iterator[tuple[NodePeriods, NDArray[np.int64]]]:
    """Yield, for one group of nodes after another, the periods in which nodes are not idle and the
    jobs of these periods.

    First come the periods of jobs, as many as there are job numbers, then those in which a node is
    taken as a whole: unavailable, in an outage, or at an edge of the span (without length).
    """
    length = length_of(span)
    # A busy interval of zero length at each edge of the span makes the first and last idle periods
    # like all others.
    closed = [
        (0, 0),
        (length, length),
        *(milliseconds(np.array(out), span).tolist() for out in span.outages),
    ]
    for first, last, places, job in table.by_nodes():
        start, end = milliseconds(table.start_s[job], span), milliseconds(table.end_s[job], span)
        inside = end > start
        busy = NodePeriods(
            table.members[places[inside]].astype(np.int64), start[inside], end[inside]
        )
        down = (unavailable.nodes >= first) & (unavailable.nodes < last)
        busy += NodePeriods(
            unavailable.nodes[down], unavailable.since[down], unavailable.until[down]
        )
        for since, until in closed:
            busy += NodePeriods(
                np.arange(first, last), np.full(last - first, since), np.full(last - first, until)
            )
        yield busy, job[inside]


def together(periods: Sequence[NodePeriods]) -> NodePeriods:
    """Concatenate the periods of all parts."""
    return NodePeriods(
        *(
            np.concatenate([getattr(part, name) for part in periods])
            for name in NodePeriods.__slots__
        )
    )


def without(periods: NodePeriods, idle: NodePeriods, names: int, span: TrustedSpan) -> NodePeriods:
    """Return the parts of ``periods`` that ``idle``, which lies inside of them, does not cover;
    ``names`` is the number of nodes.
    """
    length = length_of(span)
    everyone = np.arange(names, dtype=np.int64)
    edges = NodePeriods(
        everyone, np.zeros(names, dtype=np.int64), np.zeros(names, dtype=np.int64)
    ) + NodePeriods(everyone, np.full(names, length), np.full(names, length))
    first = periods + edges
    busy = _uncovered(first.nodes, first.since, first.until, length)
    whole = busy + idle + edges
    return _uncovered(whole.nodes, whole.since, whole.until, length)


def _uncovered(node: Ints, start: Ints, end: Ints, length: int) -> NodePeriods:
    """Return, for each node, the gaps between its intervals (``start[k]`` to ``end[k]`` on
    ``node[k]``).
    """
    # All nodes on one number line, a stretch of it per node, so that one running maximum serves all
    # nodes.
    stretch = length + 1
    start = start + node * stretch
    order = np.argsort(start, kind="stable")
    start, node = start[order], node[order]
    busy_until = np.maximum.accumulate(end[order] + node * stretch)
    gap = (start[1:] > busy_until[:-1]) & (node[1:] == node[:-1])
    owner = node[1:][gap]
    return NodePeriods(
        owner, busy_until[:-1][gap] - owner * stretch, start[1:][gap] - owner * stretch
    )


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
    start, the node, and whether it leaves. At equal times, joins come before leaves.
    """
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
    return int(milliseconds(np.array([span.end_s]), span)[0])


def milliseconds(times: NDArray[np.float64], span: TrustedSpan) -> Ints:
    """Times inside the span, as whole milliseconds since its start."""
    return np.rint((np.clip(times, span.start_s, span.end_s) - span.start_s) * 1000).astype(
        np.int64
    )


def _events(
    at: Ints, who: Ints, leaves: NDArray[np.bool_], names: tuple[str, ...], span: TrustedSpan
) -> tuple[PoolEvent, ...]:
    """Group the arrays of :func:`_changes` by time into one event each; add an event without
    changes at an edge of the span that has none.
    """
    begins = np.flatnonzero(np.diff(at, prepend=-1))
    cuts = np.append(begins, len(at))
    joins = np.add.reduceat(~leaves, begins, dtype=np.int64) if len(at) else begins
    moments = np.round(span.start_s + at[begins] / 1000, 3)
    node_names = np.array(names, dtype=object)
    same: dict[frozenset[str], frozenset[str]] = {
        _EMPTY: _EMPTY
    }  # the nodes of a job often come and go together

    def nodes(listed: list[str]) -> frozenset[str]:
        node_set = frozenset(listed)
        return same.setdefault(node_set, node_set)

    events: list[PoolEvent] = []
    if not len(at) or at[0] != 0:
        events.append(PoolEvent(span.start_s, PoolChanged()))
    for first in range(0, len(moments), _AT_ONCE):
        last = min(first + _AT_ONCE, len(moments))
        begin = 0
        chunk_names = node_names[who[cuts[first] : cuts[last]]].tolist()
        ends, joined = (
            (cuts[first + 1 : last + 1] - cuts[first]).tolist(),
            joins[first:last].tolist(),
        )
        for at_s, end, count in zip(moments[first:last].tolist(), ends, joined, strict=True):
            middle = begin + count  # joins stand before leaves
            events.append(
                PoolEvent(
                    at_s,
                    PoolChanged(nodes(chunk_names[begin:middle]), nodes(chunk_names[middle:end])),
                )
            )
            begin = end
    if not len(at) or at[-1] != length_of(span):
        events.append(PoolEvent(span.end_s, PoolChanged()))
    return tuple(events)
