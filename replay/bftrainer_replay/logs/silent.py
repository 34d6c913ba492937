"""Nodes that ran no job for so long that they may have been down: a job log alone cannot tell them
from idle ones.
"""

from __future__ import annotations

import numpy as np

from bftrainer.counted import counted
from bftrainer_replay.logs.idle import NodePeriods, length_of
from bftrainer_replay.logs.model import SilentNodes
from bftrainer_replay.logs.node_events import EVENTS_COMMAND
from bftrainer_replay.logs.node_groups import NodeGroups
from bftrainer_replay.logs.source import Source
from bftrainer_replay.logs.span import TrustedSpan

LEAST_H = 48.0
_PART_OF_LOG = 0.25
_MAX_LISTED = 3
_LEAST_RENAMED = 2
_LEAST_RATIO = 0.8
"""Renamed nodes go out of use, and about as many come into use: the ratio of the smaller number to
the larger is at least this.
"""


def remark_on_silence(
    source: Source, idle: NodePeriods, groups: NodeGroups, service_h: float, span: TrustedSpan
) -> SilentNodes | None:
    """Return how many nodes ran no job for so long that they may have been down, and what that
    changes.

    That is 48 h or more, and a quarter of the log or until its end. The result has the idle share
    with and without these periods, and a remark tells of it; None if there are no such nodes.
    ``idle`` are periods of ``groups`` of nodes, and ``service_h`` is the node-hours of the whole
    cluster.
    """
    length_ms = length_of(span)
    hours = idle.length_h
    is_to_end = idle.until == length_ms
    is_silent = (hours >= LEAST_H) & (is_to_end | (hours >= _PART_OF_LOG * length_ms / 3_600_000))
    if not is_silent.any():
        return None
    silent = idle.selected(is_silent).of_nodes(groups)
    nodes = np.unique(silent.nodes)
    nodes_to_end = np.unique(silent.nodes[silent.until == length_ms])
    # Silent periods count neither as idle time nor as time of the cluster.
    silent_h, idle_h = float(silent.length_h.sum()), idle.node_h(groups)
    share = idle_h / service_h
    share_without = max(idle_h - silent_h, 0.0) / max(service_h - silent_h, 1.0)
    listed = ", ".join(groups.names[node] for node in nodes[:_MAX_LISTED].tolist())
    output = f", the output of `{EVENTS_COMMAND}`," if source.dialect.slurm else ""
    hint = "" if source.options.node_events else f" (--node-events FILE{output} tells)"
    source.remarks.append(
        f"{counted(len(nodes), 'node')} ran no job for {LEAST_H:g} h or more and for a quarter "
        "of the log or to its end "
        f"({listed}{', ...' if len(nodes) > _MAX_LISTED else ''}; {len(nodes_to_end):,} "
        "of them to its end): they may have been down or "
        f"removed{hint}; without these periods {share_without:.1%} of the node-time is idle, not "
        f"{share:.1%}"
    )
    renamed = _renamed_count(silent, length_ms)
    if renamed:
        source.warnings.append(
            f"{renamed:,} nodes ran their last job before as many others ran their first, so "
            "they may have been renamed: then "
            f"{share_without:.1%} of the node-time is idle, not {share:.1%}"
        )
    return SilentNodes(len(nodes), share, share_without, renamed)


def _renamed_count(silent: NodePeriods, length_ms: int) -> int:
    """Return how many nodes seem to have been renamed; 0 if none did.

    Their old names went out of use at about the time at which as many other names came into use.
    ``length_ms`` is the length of the span.
    """
    gone_at_ms = silent.since[(silent.until == length_ms) & (silent.since > 0)]
    new_at_ms = silent.until[(silent.since == 0) & (silent.until < length_ms)]
    smaller, larger = sorted((len(gone_at_ms), len(new_at_ms)))
    if smaller < _LEAST_RENAMED or smaller < _LEAST_RATIO * larger:
        return 0
    apart_h = float(np.median(new_at_ms) - np.median(gone_at_ms)) / 3_600_000
    return smaller if abs(apart_h) <= LEAST_H else 0


def sum_h(span: TrustedSpan) -> float:
    """Return the hours of the span without outages."""
    outage_s = sum(
        max(0.0, min(end_s, span.end_s) - max(start_s, span.start_s))
        for start_s, end_s in span.outages
    )
    return max(span.end_s - span.start_s - outage_s, 1.0) / 3600
