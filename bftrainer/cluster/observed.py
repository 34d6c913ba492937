"""A cluster that is observed and of which nothing is held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bftrainer.cluster.classes import class_of
from bftrainer.cluster.model import NodeView, PeerPilot
from bftrainer.cluster.ports import Scheduler
from bftrainer.cluster.selection import may_be_held
from bftrainer.cluster.windows import PilotJobs
from bftrainer.config.pilot import NodeClassConfig, NodesConfig


@dataclass(frozen=True, slots=True)
class ObservedSite:
    """The scheduler of a cluster of which nothing is held, and which of its nodes count.
    ``remarks`` are assumptions that the user should know of; ``pilots`` asks for all users' pilots,
    where the scheduler shows them.
    """

    scheduler: Scheduler
    ours: PilotJobs
    nodes: NodesConfig = field(default_factory=NodesConfig)
    remarks: tuple[str, ...] = ()
    classes: Mapping[str, NodeClassConfig] = field(default_factory=dict)
    pilots: Callable[[], tuple[PeerPilot, ...]] | None = None

    def chosen(self, views: Iterable[NodeView]) -> frozenset[str]:
        """Return the names of the nodes that the configuration allows, by its keys partitions,
        hosts, exclude and node_class.
        """
        return frozenset(node.name for node in views if self._is_chosen(node))

    def _is_chosen(self, node: NodeView) -> bool:
        """Whether the configuration allows a node."""
        if not may_be_held(node.name, self.nodes):
            return False
        if self.nodes.partitions and set(self.nodes.partitions).isdisjoint(node.partitions):
            return False
        return self.nodes.node_class in (None, class_of(node, self.classes))
