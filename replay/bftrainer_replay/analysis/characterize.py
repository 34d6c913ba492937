"""The idle nodes of a log in numbers: those of the paper's section 2.1 and Table 1, for one
window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bftrainer.counted import counted
from bftrainer.errors import InvalidValueError
from bftrainer_replay.analysis.idle_causes import IdleCauses, idle_causes
from bftrainer_replay.analysis.window_fragments import (
    Fragments,
    PoolSizes,
    fragments_of,
    joined_and_left,
    pool_sizes_of,
)
from bftrainer_replay.logs.model import LogWindow, times_of, union

SHORT_FRAGMENT_S = 600.0
"""The paper's "less than 10 minutes"."""
START_S = 20.0
"""Seconds in which a worker of a pool starts, with its imports."""


@dataclass(frozen=True, slots=True)
class FragmentLengths:
    """Lengths of fragments; "short" means less than 10 minutes.

    All fragments count; a fragment that the window cuts counts with its part inside (see
    :mod:`bftrainer_replay.analysis.window_fragments`). On the first 168 h of the paper's Summit
    log, 58.4 % are short, with 12.1 % of the node-time; the paper says 58 % and "about 10 %".
    Without the cut fragments, neither value changes by 0.1 points there.
    """

    short_share: float
    short_node_time_share: float
    first_quartile_s: float
    median_s: float
    third_quartile_s: float
    p90_s: float


@dataclass(frozen=True, slots=True)
class Characteristics:
    """The idle nodes of one window in numbers.

    The initial state counts as one of ``events``, but not as a join or a leave. ``joins`` and
    ``leaves`` count the events in which at least one node joins or leaves (an event may be both).
    ``increases`` and ``decreases`` count the events after which more or fewer nodes are idle than
    before, as INC/h and DEC/h of Table 1. ``idle_nodes_median`` is weighted by time.
    ``fragment_lengths`` is None if no node is ever idle, ``idle_while`` if the log has no queue.
    ``span_h`` excludes the gaps of the record (``unknown_h``) and the outages of the cluster
    (``outage_h``): both count neither as idle nor as not idle. Changes at the edges of a gap are
    not events, and fragments that a gap cuts count with their known part. ``down_node_h`` are the
    node-hours of nodes without a job that were out of service or reserved. They count on neither
    side of ``idle_share``, which is idle node-hours over node-hours in service. ``pool_share`` is
    the share of the idle node-hours that would become work of a pool of independent workers on all
    idle nodes, if each worker starts in :data:`START_S`.
    """

    span_h: float
    machine_nodes: int
    events: int
    joins: int
    leaves: int
    increases: int
    decreases: int
    node_hours: float
    eq_nodes: float
    idle_share: float
    idle_nodes_min: int
    idle_nodes_median: int
    idle_nodes_max: int
    fragments: int
    fragment_lengths: FragmentLengths | None
    idle_while: IdleCauses | None = None
    unknown_h: float = 0.0
    down_node_h: float = 0.0
    outage_h: float = 0.0
    pool_share: float = 0.0

    @property
    def left_out(self) -> str:
        """The time that the idle share leaves out on both sides, in words; empty if it leaves out
        nothing.
        """
        phrases = []
        if self.outage_h:
            phrases.append(f"{self.outage_h:,.1f} hours of outages")
        if self.unknown_h:
            phrases.append(f"{self.unknown_h:,.1f} hours that were not recorded")
        if self.down_node_h:
            phrases.append(
                f"{self.down_node_h:,.0f} node-hours of nodes out of service or reserved"
            )
        return " and ".join(phrases)

    def per_hour(self, count: int) -> float:
        """Return a count of events as a mean rate (1/h)."""
        return count / self.span_h


def characterize(window: LogWindow) -> Characteristics:
    """Return the figures of a window's idle nodes: their node-hours, their changes, their
    fragments.

    They are the resource integral (Eqn 17), eq-nodes (Eqn 18: the mean number of idle nodes),
    events, and fragments, the periods in which one node is idle. Raises
    :class:`~bftrainer.errors.InvalidValueError` if the window has no known length or the machine
    has no nodes.
    """
    if not window.span_s > 0:
        raise InvalidValueError(
            f"{window.source}: nothing to characterize: the window has no length"
        )
    if not window.service_s > 0:
        raise InvalidValueError(
            f"{window.source}: nothing to characterize: the window lies in a gap or an outage "
            "of the log"
        )
    if window.machine_nodes < 1:
        raise InvalidValueError(
            f"{window.source}: nothing to characterize: the cluster has "
            f"{counted(window.machine_nodes, 'node')}"
        )
    sizes = pool_sizes_of(window)
    gap_edges_s = [at_s for gap in window.gaps for at_s in gap]
    # At the edges of a gap, nodes seem to leave and join because nothing is known in the gap.
    is_real = np.isin(times_of(window.events), gap_edges_s, invert=True)
    joined, left = (counts[is_real] for counts in joined_and_left(window))
    size_changes = np.diff(sizes.nodes)[is_real]
    fragments = fragments_of(window)
    node_hours = sizes.node_hours()
    span_h = window.service_s / 3600
    down_node_h = float(window.site.down_h(window.start_s, window.end_s).sum())
    # Gaps and outages, in which the pool is empty, do not count for the smallest pool and the
    # median.
    sizes = _without_gaps(sizes, window)
    pool_sizes = sizes.nodes[sizes.duration_s > 0]
    return Characteristics(
        span_h=span_h,
        machine_nodes=window.machine_nodes,
        events=1 + len(size_changes),
        joins=int(np.count_nonzero(joined)),
        leaves=int(np.count_nonzero(left)),
        increases=int(np.count_nonzero(size_changes > 0)),
        decreases=int(np.count_nonzero(size_changes < 0)),
        node_hours=node_hours,
        eq_nodes=node_hours / span_h,
        idle_share=node_hours / window.service_node_h,
        idle_nodes_min=int(pool_sizes.min()),
        idle_nodes_median=_time_median(sizes),
        idle_nodes_max=int(pool_sizes.max()),
        fragments=fragments.count,
        fragment_lengths=_fragment_lengths(fragments) if fragments.count else None,
        idle_while=idle_causes(window),
        unknown_h=window.unknown_s / 3600,
        down_node_h=down_node_h,
        outage_h=window.outage_s / 3600,
        pool_share=_work_of_pool_s(fragments) / (3600 * node_hours or 1.0),
    )


def _without_gaps(sizes: PoolSizes, window: LogWindow) -> PoolSizes:
    """Return the pool sizes (idle nodes over time) without the time of gaps and outages."""
    left_out = union((*window.gaps, *window.outages))
    if not left_out:
        return sizes
    begins_s, ends_s = zip(*left_out, strict=True)
    # Steps also begin where a gap begins or ends. A gap is then one step, since the pool does not
    # change in it; this step is dropped.
    edges_s = [at_s for at_s in (*begins_s, *ends_s) if at_s < window.end_s]
    start_s = np.union1d(sizes.start_s, edges_s)
    nodes = sizes.nodes[np.searchsorted(sizes.start_s, start_s, side="right") - 1]
    keep = ~np.isin(start_s, begins_s)
    return PoolSizes(start_s[keep], np.diff(start_s, append=window.end_s)[keep], nodes[keep])


def _work_of_pool_s(fragments: Fragments) -> float:
    """Return the seconds of all fragments that are left after a start in each."""
    return float(np.dot(np.maximum(fragments.length_s - START_S, 0), fragments.weights))


def _fragment_lengths(fragments: Fragments) -> FragmentLengths:
    """Return quantiles of the fragments' lengths, and the shares of those below 10 minutes.

    A fragment is a period in which one node is idle.
    """
    weights, node_s = fragments.weights, fragments.node_s
    is_short = fragments.length_s < SHORT_FRAGMENT_S
    first, median, third, p90 = fragments.quantiles_s(0.25, 0.5, 0.75, 0.9)
    return FragmentLengths(
        short_share=float(weights[is_short].sum() / weights.sum()),
        short_node_time_share=float(node_s[is_short].sum() / node_s.sum()),
        first_quartile_s=first,
        median_s=median,
        third_quartile_s=third,
        p90_s=p90,
    )


def _time_median(sizes: PoolSizes) -> int:
    """Return the smallest pool size that is not exceeded during at least half of the time."""
    order = np.argsort(sizes.nodes, kind="stable")
    elapsed_s = np.cumsum(sizes.duration_s[order])
    return int(sizes.nodes[order][np.searchsorted(elapsed_s, elapsed_s[-1] / 2)])
