"""Logs that count nodes without naming them: what they tell of idle nodes if jobs share nodes.

Each job counts as alone on its nodes. Where jobs use a part of the cores of a node, they may share
it: then more nodes are idle, at most those that are left if all jobs fill nodes to the last core.
"""

from __future__ import annotations

import numpy as np

from bftrainer.errors import UserError
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.model import IdleBound
from bftrainer_replay.logs.source import Source
from bftrainer_replay.logs.span import TrustedSpan

_FULL = 0.95
"""Share of the cores of their nodes from which on jobs count as alone on them."""
_CERTAINLY_SHARED = 0.5
"""Share of the cores below which the number of nodes at once says nothing of the size of the
cluster.
"""
_KNOWN = 0.9
"""Share of the node-hours whose cores have to be known."""
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
    """Return the share of the cores of their nodes that jobs use, weighted by node-hours; None if
    the log does not tell.
    """
    cores = np.array([use.cores for use in table.all_uses])
    capacity = source.cores_per_node or float(cores.max(initial=0.0))
    if not capacity:
        return None
    all_h = known_h = used_h = 0.0
    for part in table.parts():
        begin, end = (
            np.clip(times[part], span.start_s, span.end_s) for times in (table.start_s, table.end_s)
        )
        held_h = np.where(end > begin, end - begin, 0.0) * table.node_counts[part] / 3600
        job_cores = cores[table.use[part]]
        all_h += float(held_h.sum())
        known_h += float(held_h[job_cores > 0].sum())
        used_h += float((held_h * np.minimum(job_cores / capacity, 1.0)).sum())
    return used_h / known_h if known_h and known_h >= _KNOWN * all_h else None


def check_size(source: Source, used: float | None) -> None:
    """Raises :class:`UserError` if jobs certainly share nodes: then the size of the cluster cannot
    be guessed from the nodes of jobs.
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
    """Return the idle share if jobs shared nodes and filled each to the last core; None if jobs use
    whole nodes, or if it is not known.
    """
    if used is None or used >= _FULL:
        return None
    largest_share = min(max(1.0 - used * busy_h / service_h, idle_share), 1.0)
    return IdleBound(
        largest_share, f"if jobs share nodes, of whose cores each uses {used:.0%} on average"
    )


def warn_of_unplaced(source: Source, unplaced: float) -> None:
    """Add a warning if for more than 2% of the node-hours (``unplaced``: the share), jobs had more
    nodes at once than the cluster has.
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
    held_s = 0.0
    for part in table.parts():
        begin, end = (
            np.clip(times[part], span.start_s, span.end_s) for times in (table.start_s, table.end_s)
        )
        nodes = np.diff(table.first[part.start : part.stop + 1])
        held_s += float(np.dot(np.where(end > begin, end - begin, 0.0), nodes))
    return held_s / 3600
