"""The nodes that a simulated pilot holds, in groups that began together and end together."""

from __future__ import annotations

from dataclasses import dataclass, field

from bftrainer.decide.yielding.node_sets import NumberedNodes

NONE = NumberedNodes(0)


@dataclass(slots=True)
class HolderGroup:
    """Holders of one node each, from ``start_s`` to ``limit_s`` at the latest. ``number`` tells
    groups apart.
    """

    number: int
    start_s: float
    limit_s: float
    nodes: NumberedNodes


@dataclass(slots=True)
class HeldNodes:
    """All holders, in order of their start. ``nodes`` is what they hold, ``count`` how many nodes
    that are, ``starts`` how many holders have started so far.
    """

    groups: list[HolderGroup] = field(default_factory=list)
    nodes: NumberedNodes = NONE
    count: int = 0
    starts: int = 0

    def start(self, now_s: float, limit_s: float, nodes: NumberedNodes) -> None:
        """Start holders that end at ``limit_s`` at the latest."""
        self.groups.append(HolderGroup(self.starts, now_s, limit_s, nodes))
        self.nodes |= nodes
        self.count += len(nodes)
        self.starts += len(nodes)

    def older_than(self, born_s: float) -> int:
        """Return the number of nodes whose holders began at ``born_s`` or earlier."""
        return sum(len(group.nodes) for group in self.groups if group.start_s <= born_s)

    def youngest(self, count: int, born_s: float) -> NumberedNodes:
        """Return the ``count`` nodes of the youngest holders that began at ``born_s`` or
        earlier.
        """
        chosen = NONE
        for group in reversed(self.groups):
            if count <= 0:
                break
            if group.start_s <= born_s:
                taken = group.nodes.first(count)
                chosen |= taken
                count -= len(taken)
        assert count <= 0, "more holders were taken than there are"
        return chosen

    def end(self, nodes: NumberedNodes) -> None:
        """End the holders on these nodes."""
        assert nodes <= self.nodes, "a holder was ended that is none"
        for group in self.groups:
            group.nodes -= nodes
        self.nodes -= nodes
        self.count -= len(nodes)
        self.groups = [group for group in self.groups if group.nodes]

    def expire(self, now_s: float) -> NumberedNodes:
        """End the holders whose limit has come; return their nodes."""
        nodes = NONE.union(*(group.nodes for group in self.groups if group.limit_s <= now_s))
        if nodes:
            self.end(nodes)
        return nodes

    def shorten(self, limit_s: float) -> bool:
        """Let all holders end at ``limit_s`` at the latest; return whether any would have ended
        later.
        """
        late = [group for group in self.groups if group.limit_s > limit_s]
        for group in late:
            group.limit_s = limit_s
        return bool(late)

    def ends(self, young_since_s: float) -> list[tuple[float, int]]:
        """Return (limit, nodes) of the holders that began after ``young_since_s``."""
        return [
            (group.limit_s, len(group.nodes))
            for group in self.groups
            if group.start_s > young_since_s
        ]
