"""Times of nodes: since when each one is idle, or when it was seen last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bftrainer.decide.yielding.node_sets import NodeSet, union_of


@dataclass(frozen=True, slots=True)
class TimesByNode:
    """``groups``: sets of nodes, none of them in two, each with the time of its nodes. Nodes come
    and go together, so there are few.
    """

    groups: tuple[tuple[float, NodeSet], ...] = ()

    @property
    def nodes(self) -> NodeSet:
        """All nodes that have a time."""
        return union_of(nodes for _, nodes in self.groups)

    def only(self, nodes: NodeSet) -> TimesByNode:
        """Return the times of these nodes."""
        kept = [(at_s, group & nodes) for at_s, group in self.groups]
        return TimesByNode(tuple((at_s, group) for at_s, group in kept if group))

    def without(self, nodes: NodeSet) -> TimesByNode:
        """Return the times of all other nodes."""
        kept = [(at_s, group - nodes) for at_s, group in self.groups]
        return TimesByNode(tuple((at_s, group) for at_s, group in kept if group))

    def also(self, nodes: NodeSet, at_s: float) -> TimesByNode:
        """Return the times with ``at_s`` for those of these nodes that have none."""
        new = nodes - self.nodes if self.groups else nodes
        return TimesByNode((*self.groups, (at_s, new))) if new else self

    def joined(self, others: TimesByNode) -> TimesByNode:
        """Return these times and others, of other nodes."""
        return TimesByNode((*self.groups, *others.groups))

    def until(self, latest_s: float) -> NodeSet:
        """Return the nodes whose time is no later."""
        return self._where(lambda at_s: at_s <= latest_s)

    def since(self, earliest_s: float) -> NodeSet:
        """Return the nodes whose time is no earlier."""
        return self._where(lambda at_s: at_s >= earliest_s)

    def _where(self, is_chosen: Callable[[float], bool]) -> NodeSet:
        return union_of(nodes for at_s, nodes in self.groups if is_chosen(at_s))
