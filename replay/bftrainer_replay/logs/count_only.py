"""Logs that count nodes without naming them: what they tell of idle nodes if jobs share nodes.

Each job counts as alone on its nodes. Where jobs use a part of the cores of a node, they may share
it: then more nodes are idle, at most those that are left if all jobs fill nodes to the last core.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bftrainer.errors import UserError
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.model import IdleBound
from bftrainer_replay.logs.source import Source
from bftrainer_replay.logs.span import TrustedSpan

_ALONE_SHARE = 0.95
"""Jobs that use at least this share of the cores of their nodes count as alone on them."""
_CERTAINLY_SHARED = 0.5
"""Jobs that use less than this share of the cores certainly share nodes: the nodes that they ask
for at once say nothing of the size of the cluster.
"""
_LEAST_RECORDED = 0.9
"""Least share of the node-hours for which the log has the cores of jobs."""
_MOST_UNPLACED = 0.02


def check_unit(source: Source) -> None:
    """Raises :class:`UserError` if sizes are in processors, and nothing tells how many a node
    has.
    """
    if source.counts_processors:
        raise UserError(
            f"{source.path}: counts processors, and its header lacks MaxNodes or MaxProcs: "
            "nodes are not known; specify "
            "--processors-per-node (1, if a node has one processor)"
        )


def used_part(source: Source, table: JobTable, span: TrustedSpan) -> float | None:
    """Return the share of the cores of their nodes that jobs use, weighted by node-hours.

    None if the log has the cores of too few jobs. If it does not have the cores of a node, a node
    is taken to have as many as any job uses of one.
    """
    cores = np.array([use.cores for use in table.all_uses])
    capacity = source.cores_per_node or float(cores.max(initial=0.0))
    if not capacity:
        return None
    all_h = recorded_h = used_h = 0.0
    for part in table.parts():
        node_h = _run_s(table, part, span) * table.node_counts[part] / 3600
        job_cores = cores[table.use[part]]
        all_h += float(node_h.sum())
        recorded_h += float(node_h[job_cores > 0].sum())
        used_h += float((node_h * np.minimum(job_cores / capacity, 1.0)).sum())
    if not recorded_h or recorded_h < _LEAST_RECORDED * all_h:
        return None
    return used_h / recorded_h


def _run_s(table: JobTable, part: slice, span: TrustedSpan) -> NDArray[np.float64]:
    """Return the seconds that each job of a part ran inside the span (0: it never did)."""
    begin_s = np.clip(table.start_s[part], span.start_s, span.end_s)
    end_s = np.clip(table.end_s[part], span.start_s, span.end_s)
    # Not a maximum with 0: a job that never started has NaN.
    return np.where(end_s > begin_s, end_s - begin_s, 0.0)


def check_size(source: Source, used: float | None) -> None:
    """Raise :class:`UserError` if jobs certainly share nodes, as the share ``used`` of cores shows.

    Then the size of the cluster cannot be guessed from the number of nodes that jobs had at once.
    """
    if used is not None and used < _CERTAINLY_SHARED:
        raise UserError(
            f"{source.path}: jobs use {used:.0%} of the cores of their nodes, so they share "
            "nodes, and neither names nor "
            "the size of the cluster are in the log; expected a log that names nodes "
            "(NodeList), or --machine-nodes"
        )


def bound_if_shared(
    used: float | None, busy_h: float, service_h: float, idle_share: float
) -> IdleBound | None:
    """Return the largest possible idle share: that of jobs that share nodes and fill each of them.

    None if jobs use whole nodes, or if it is not known. ``used`` is the share of the cores of their
    nodes that jobs use, ``busy_h`` are the node-hours of jobs, ``service_h`` those of the cluster,
    and ``idle_share`` is the share if no nodes are shared.
    """
    if used is None or used >= _ALONE_SHARE:
        return None
    largest_share = min(max(1.0 - used * busy_h / service_h, idle_share), 1.0)
    return IdleBound(
        largest_share, f"if jobs share nodes, of whose cores each uses {used:.0%} on average"
    )


def warn_of_unplaced(source: Source, unplaced: float) -> None:
    """Add a warning to ``source`` if jobs had more nodes at once than the cluster has.

    ``unplaced`` is the share of the node-hours for which that is so; up to 2 % is not worth one.
    """
    if unplaced > _MOST_UNPLACED:
        source.warnings.append(
            f"for {unplaced:.0%} of the node-hours, jobs had more nodes at once than the "
            "cluster has: they share nodes, or "
            "it is larger; how many nodes were idle cannot be told from this log, only that it "
            "is at least this share"
        )


def node_hours(table: JobTable, span: TrustedSpan) -> float:
    """Return the node-hours of all jobs inside the span, as if each was alone on its nodes."""
    held_s = 0.0
    for start_s, end_s, nodes in table.runs():
        length_s = np.clip(end_s, span.start_s, span.end_s) - np.clip(
            start_s, span.start_s, span.end_s
        )
        held_s += float(np.dot(length_s, nodes))
    return held_s / 3600


def node_hours_placed(table: JobTable, span: TrustedSpan) -> float:
    """Return the node-hours of all jobs inside the span on the nodes that :func:`~.first_fit.place`
    gave them, which may be fewer than they asked for.
    """
    node_s = 0.0
    for part in table.parts():
        n_nodes = np.diff(table.offsets[part.start : part.stop + 1])
        node_s += float(np.dot(_run_s(table, part, span), n_nodes))
    return node_s / 3600
