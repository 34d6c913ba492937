"""Idle nodes by partition and device type: how much lies idle in each, and what its own waiting
jobs could have used.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from bftrainer_replay.analysis.idle_causes import MOST_WORK, idle_causes
from bftrainer_replay.analysis.window_fragments import fragments_of
from bftrainer_replay.logs.dialect import GENERIC
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.logs.partition import in_partition

_MAX_PARTITIONS = 40
"""Of more partitions, those in which most jobs ran are shown."""


def words_of(window: LogWindow) -> tuple[str, str]:
    """What the log's format calls a partition, and an account."""
    dialect = GENERIC if window.queue is None else window.queue.dialect
    return dialect.partition, dialect.account


def headings(partition: str) -> tuple[str, ...]:
    """Return the headings of :meth:`PartitionFigures.cells`; ``partition`` is the log's word for
    one.
    """
    rest = (
        "nodes",
        "idle node-hours",
        "idle",
        "a waiting job fits",
        "median idle period",
        "jobs waiting",
    )
    return (partition, "device type", *rest)


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """Nodes of one device type in one partition, and the jobs that wait for this partition.

    ``waiting`` is the mean number of waiting jobs, None without a queue, and ``fillable_share`` the
    part of the partition's idle node-time that they could have used, on nodes of any type.
    """

    partition: str
    devices: str
    nodes: int
    idle_node_h: float
    idle_share: float
    median_idle_s: float
    waiting: float | None
    fillable_share: float | None

    def cells(self) -> tuple[str, ...]:
        """Return the figures as a row of a table, in the order of :func:`headings`."""
        return (
            self.partition,
            self.devices,
            f"{self.nodes:,}",
            f"{self.idle_node_h:,.0f}",
            f"{self.idle_share:.1%}",
            "" if self.fillable_share is None else f"{self.fillable_share:.1%}",
            f"{self.median_idle_s / 60:,.0f} min",
            "" if self.waiting is None else f"{self.waiting:,.1f}",
        )


def partitions_of(window: LogWindow) -> tuple[PartitionFigures, ...]:
    """Measure the nodes of each device type in each partition, those with most idle node-hours
    first; empty if the log has no partitions of named nodes.
    """
    facts = window.site.nodes
    if facts is None or not facts.partitions or window.span_s <= 0:
        return ()
    types = facts.device_type()
    rows = []
    for name in list(facts.partitions)[:_MAX_PARTITIONS]:
        part = in_partition(window, name)
        fragments = fragments_of(part)
        causes = idle_causes(part, MOST_WORK // len(facts.partitions))
        fillable = None if causes is None else causes.fillable_share
        waiting = None if part.queue is None else _mean_waiting(part)
        members = np.flatnonzero(facts.partitions[name]).tolist()
        type_of = {facts.names[node]: types[node] for node in members}
        names = () if part.site.nodes is None else part.site.nodes.names
        type_of_down = [type_of[names[node]] for node in part.site.down.tolist()]
        down_h = part.site.down_h(part.start_s, part.end_s)
        of_fragment = np.array([type_of[node] for node in fragments.nodes], dtype=object)
        for kind, nodes in sorted(Counter(type_of.values()).items()):
            length_s = fragments.length_s[of_fragment == kind] if len(of_fragment) else np.empty(0)
            idle_h = float(length_s.sum()) / 3600
            out_h = 0.0
            if type_of_down:
                out_h = float(down_h[[down_kind == kind for down_kind in type_of_down]].sum())
            whole_h = nodes * window.service_s / 3600 - out_h
            # 0: none of these nodes was ever in service.
            share = idle_h / whole_h if whole_h > 0 else 0.0
            median_s = float(np.median(length_s)) if len(length_s) else 0.0
            rows.append(
                PartitionFigures(name, kind, nodes, idle_h, share, median_s, waiting, fillable)
            )
        del part  # a copy of its jobs, before the next one
    return tuple(sorted(rows, key=lambda row: (-row.idle_node_h, row.partition, row.devices)))


def _mean_waiting(window: LogWindow) -> float:
    """Return the mean number of waiting jobs over time."""
    assert window.queue is not None
    queue = window.queue
    waited_s = sum(
        float(queue.waited_s(part, window.start_s, window.end_s).sum()) for part in queue.parts()
    )
    return waited_s / window.span_s
