"""Nodes that ran no job for so long that they may have been down: a job log alone cannot tell them
from idle ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bftrainer.counted import counted
from bftrainer_replay.logs.idle import NodePeriods, length_of
from bftrainer_replay.logs.model import SilentNodes
from bftrainer_replay.logs.node_events import EVENTS_COMMAND
from bftrainer_replay.logs.source import Source
from bftrainer_replay.logs.span import TrustedSpan

LEAST_H = 48.0
_PART_OF_LOG = 0.25
_NAMED = 3
_LEAST_RENAMED = 2
_ALIKE = 0.8
"""Part of the nodes that went out of use which has to come into use under other names."""


def remark_on_silence(
    source: Source, idle: NodePeriods, names: tuple[str, ...], service_h: float, span: TrustedSpan
) -> SilentNodes | None:
    """Look for nodes that ran no job for 48 h or more, and for a quarter of the log or to its end:
    they may have been down.

    Return what they are and add a remark, or returns None if there are none. ``service_h`` is the
    node-hours of the whole cluster.
    """
    length = length_of(span)
    hours = idle.length_h
    long = (hours >= LEAST_H) & (
        (idle.until == length) | (hours >= _PART_OF_LOG * length / 3_600_000)
    )
    if not long.any():
        return None
    nodes = np.unique(idle.nodes[long])
    to_end = np.unique(idle.nodes[long & (idle.until == length)])
    # Nodes out of service are on neither side of a share.
    long_h = float(hours[long].sum())
    before = float(hours.sum() / service_h)
    after = float(hours[~long].sum() / max(service_h - long_h, 1.0))
    first = ", ".join(names[node] for node in nodes[:_NAMED].tolist())
    output = f", the output of `{EVENTS_COMMAND}`," if source.dialect.slurm else ""
    hint = "" if source.options.node_events else f" (--node-events FILE{output} tells)"
    source.remarks.append(
        f"{counted(len(nodes), 'node')} ran no job for {LEAST_H:g} h or more and for a quarter "
        "of the log or to its end "
        f"({first}{', ...' if len(nodes) > _NAMED else ''}; {len(to_end):,} of them to its "
        "end): they may have been down or "
        f"removed{hint}; without these periods {after:.1%} of the node-time is idle, not "
        f"{before:.1%}"
    )
    renamed = _renamed(idle, long, length)
    if renamed:
        source.warnings.append(
            f"{renamed:,} nodes ran their last job before as many others ran their first, so "
            "they may have been renamed: then "
            f"{after:.1%} of the node-time is idle, not {before:.1%}"
        )
    return SilentNodes(len(nodes), before, after, renamed)


def _renamed(idle: NodePeriods, long: NDArray[np.bool_], length: int) -> int:
    """Return how many nodes seem to have been renamed: they went out of use at about the time at
    which as many others came into use. 0 if none did.
    """
    gone_at = idle.since[long & (idle.until == length) & (idle.since > 0)]
    new_at = idle.until[long & (idle.since == 0) & (idle.until < length)]
    fewer, more = sorted((len(gone_at), len(new_at)))
    if fewer < _LEAST_RENAMED or fewer < _ALIKE * more:
        return 0
    apart = float(np.median(new_at) - np.median(gone_at)) / 3_600_000
    return fewer if abs(apart) <= LEAST_H else 0


def sum_h(span: TrustedSpan) -> float:
    """Hours of the span without outages."""
    out_s = sum(
        max(0.0, min(end_s, span.end_s) - max(start_s, span.start_s))
        for start_s, end_s in span.outages
    )
    return max(span.end_s - span.start_s - out_s, 1.0) / 3600
