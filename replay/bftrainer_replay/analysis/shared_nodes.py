"""Cores and devices that lie idle: on nodes without a job, which a pilot can hold, and on nodes
that jobs share.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from bftrainer_replay.analysis.window_fragments import fragments_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.logs.resource_use import CORES


@dataclass(frozen=True, slots=True)
class IdleResource:
    """The hours of one kind of resource, as core-hours or device-hours: idle on nodes without a job
    (``whole_nodes_h``) or on nodes with one (``parts_h``), used, or out of service.
    """

    kind: str
    whole_nodes_h: float
    parts_h: float
    used_h: float
    down_h: float

    @property
    def idle_h(self) -> float:
        """The idle hours, on whole nodes and on parts."""
        return self.whole_nodes_h + self.parts_h

    @property
    def available_h(self) -> float:
        """The hours that jobs used or could have used."""
        return self.idle_h + self.used_h


@dataclass(frozen=True, slots=True)
class SharedNodes:
    """Idle hours of cores, then of each kind of device, on nodes that jobs share. ``is_told``: the
    capacity of nodes is from --node-info.
    """

    jobs_per_busy_node: float
    is_told: bool
    kinds: tuple[IdleResource, ...]

    def sentence(self) -> str:
        """Return sentences on how much of each kind is idle, and how much a pilot can hold."""
        phrases = [
            f"{_hours_unit(resource.kind)}: {resource.idle_h:,.0f} idle "
            f"({resource.idle_h / resource.available_h:.1%} of all), "
            f"{resource.whole_nodes_h:,.0f} of them on nodes without a job and "
            f"{resource.parts_h:,.0f} on nodes with one"
            for resource in self.kinds
            if resource.available_h
        ]
        holdable = ", ".join(
            f"{resource.whole_nodes_h / resource.idle_h:.0%} of the idle "
            f"{_hours_unit(resource.kind)}"
            for resource in self.kinds
            if resource.idle_h
        )
        limit = f" A pilot holds whole nodes only, so it can hold {holdable}." if holdable else ""
        return (
            f"{'; '.join(phrases)}.{limit} ({self.capacity_origin}; "
            f"{self.jobs_per_busy_node:.1f} jobs share a busy node.)"
        )

    @property
    def capacity_origin(self) -> str:
        """A sentence that says where the capacity of a node is from."""
        if self.is_told:
            return "The capacity of a node is that of --node-info"
        return (
            "The capacity of a node is the most that was in use on it at once, so it may "
            "be more: see --node-info"
        )

    def as_dict(self) -> dict[str, object]:
        """Return the hours as a JSON object, with one object inside for each kind."""
        content: dict[str, object] = {"jobs_per_busy_node": self.jobs_per_busy_node}
        for resource in self.kinds:
            hours = asdict(resource)
            del hours["kind"]
            content[resource.kind] = {"idle_h": resource.idle_h, **hours}
        return content


def shared_nodes(window: LogWindow) -> SharedNodes | None:
    """Return the idle hours of cores and devices on whole nodes and on parts of nodes.

    None if the log does not say what its jobs were allocated.
    """
    facts, use = window.site.nodes, window.site.use
    if facts is None or use is None:
        return None
    index_of = {name: index for index, name in enumerate(facts.names)}
    fragments = fragments_of(window)
    idle_nodes = np.array([index_of[name] for name in fragments.first_nodes], dtype=np.int64)
    idle_h = fragments.node_s / 3600
    down_nodes = window.site.down
    down_h = window.site.down_h(window.start_s, window.end_s)
    outage_s = sum(
        max(0.0, min(end_s, window.end_s) - max(start_s, window.start_s))
        for start_s, end_s in use.outages
    )
    service_h = (window.span_s - outage_s) / 3600
    kinds = []
    for kind in use.used_h:
        recorded = facts.cores if kind == CORES else facts.devices[kind]
        # The margin keeps rounding errors from adding a core.
        capacity = np.ceil(recorded - 1e-6)  # of each node
        used_h = use.between(kind, window.start_s, window.end_s)
        kind_idle_h = float(np.dot(capacity[idle_nodes], idle_h)) if len(idle_nodes) else 0.0
        kind_down_h = float(np.dot(capacity[down_nodes], down_h))
        all_h = float(capacity.sum()) * service_h
        kinds.append(
            IdleResource(
                kind=kind,
                whole_nodes_h=kind_idle_h,
                # What is neither used, out of service, nor on a node without a job.
                parts_h=max(0.0, all_h - used_h - kind_idle_h - kind_down_h),
                used_h=used_h,
                down_h=kind_down_h,
            )
        )
    return SharedNodes(facts.jobs_per_busy_node, facts.is_told, tuple(kinds))


def _hours_unit(kind: str) -> str:
    """Return the unit of one kind, such as "GPU-hours"."""
    names = {CORES: "core", "gpu": "GPU"}
    return f"{names.get(kind, kind)}-hours"
