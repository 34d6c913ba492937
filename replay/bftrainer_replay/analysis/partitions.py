"""Idle nodes by partition and device type: how much lies idle in each, and what its own waiting
jobs could have used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bftrainer_replay.analysis.idle_causes import MOST_WORK, idle_causes
from bftrainer_replay.analysis.window_fragments import fragments_of
from bftrainer_replay.logs.dialect import GENERIC
from bftrainer_replay.logs.logged_nodes import LoggedNodes
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.logs.partition import in_partition

_MAX_PARTITIONS = 40
"""Limit for the partitions that are shown: those in which most jobs ran."""


def words_of(window: LogWindow) -> tuple[str, str]:
    """Return the words of the log's format for a partition and for an account."""
    dialect = GENERIC if window.queue is None else window.queue.dialect
    return dialect.partition, dialect.account


def headings(partition: str) -> tuple[str, ...]:
    """Return the headings of :meth:`PartitionFigures.cells`; ``partition`` is the word of the log's
    format for a partition.
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

    ``waiting`` is the mean number of waiting jobs, and ``fillable_share`` the part of the
    partition's idle node-time that they could have used, on nodes of any type; both are None
    without a queue.
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
    """Return the figures of each device type in each partition, those with most idle node-hours
    first.

    Empty if the log has no partitions of named nodes.
    """
    facts = window.site.nodes
    if facts is None or not facts.partitions or window.span_s <= 0:
        return ()
    types = facts.device_type()
    rows: list[PartitionFigures] = []
    for name in list(facts.partitions)[:_MAX_PARTITIONS]:
        rows += _figures_by_type(window, facts, types, name)
    return tuple(sorted(rows, key=lambda row: (-row.idle_node_h, row.partition, row.devices)))


def _figures_by_type(
    window: LogWindow, facts: LoggedNodes, types: list[str], partition: str
) -> Iterator[PartitionFigures]:
    """Yield the figures of each device type in a partition, in the order of the types' names.

    ``facts`` are what the log tells of all nodes, ``types`` the device type of each of them.
    """
    partition_window = in_partition(window, partition)
    fragments = fragments_of(partition_window)
    # The limit on work holds for all partitions together.
    causes = idle_causes(partition_window, MOST_WORK // len(facts.partitions))
    waiting = None if partition_window.queue is None else _mean_waiting(partition_window)
    members = np.flatnonzero(facts.partitions[partition]).tolist()
    type_of = {facts.names[node]: types[node] for node in members}
    type_of_fragment = np.array([type_of[node] for node in fragments.first_nodes])
    part_names = () if partition_window.site.nodes is None else partition_window.site.nodes.names
    type_of_down = [type_of[part_names[node]] for node in partition_window.site.down.tolist()]
    all_down_h = partition_window.site.down_h(partition_window.start_s, partition_window.end_s)
    for device_type, n_nodes in sorted(Counter(type_of.values()).items()):
        of_type = fragments.selected(type_of_fragment == device_type)
        down_h = 0.0
        if type_of_down:
            is_of_type = [down_type == device_type for down_type in type_of_down]
            down_h = float(all_down_h[is_of_type].sum())
        idle_h = float(of_type.node_s.sum()) / 3600
        service_h = n_nodes * window.service_s / 3600 - down_h
        yield PartitionFigures(
            partition=partition,
            devices=device_type,
            nodes=n_nodes,
            idle_node_h=idle_h,
            # 0: none of these nodes was ever in service.
            idle_share=idle_h / service_h if service_h > 0 else 0.0,
            median_idle_s=of_type.quantiles_s(0.5)[0] if of_type.count else 0.0,
            waiting=waiting,
            fillable_share=None if causes is None else causes.fillable_share,
        )


def _mean_waiting(window: LogWindow) -> float:
    """Return the mean number of waiting jobs over time: the sum of their waits over the window's
    length.
    """
    assert window.queue is not None
    queue = window.queue
    waited_s = sum(
        float(queue.waited_s(part, window.start_s, window.end_s).sum()) for part in queue.parts()
    )
    return waited_s / window.span_s
