"""The nodes that a simulated pilot holds, in groups that began together and end together."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class HolderGroup:
    """``nodes`` holders of one node each, from ``start_s`` to ``limit_s`` at the latest."""

    start_s: float
    limit_s: float
    nodes: int


@dataclass(slots=True)
class HeldNodes:
    """All holders, in order of their start. ``nodes`` is how many nodes they hold, ``starts`` how
    many holders have started so far.
    """

    groups: list[HolderGroup] = field(default_factory=list)
    nodes: int = 0
    starts: int = 0

    def start(self, now_s: float, limit_s: float, nodes: int) -> None:
        """Start holders that end at ``limit_s`` at the latest."""
        self.groups.append(HolderGroup(now_s, limit_s, nodes))
        self.nodes += nodes
        self.starts += nodes

    def older_than(self, born_s: float) -> int:
        """Return the number of nodes whose holders began at ``born_s`` or earlier."""
        return sum(group.nodes for group in self.groups if group.start_s <= born_s)

    def take(self, count: int, born_s: float) -> None:
        """End ``count`` holders, the youngest first, of those that began at ``born_s`` or
        earlier.
        """
        self.nodes -= count
        for group in reversed(self.groups):
            if group.start_s > born_s:
                continue
            taken = min(count, group.nodes)
            group.nodes -= taken
            count -= taken
            if not count:
                break
        assert not count, "more holders were taken than there are"
        self._forget_empty()

    def expire(self, now_s: float) -> int:
        """End the holders whose limit has come; return how many."""
        ended = 0
        for group in self.groups:
            if group.limit_s <= now_s:
                ended += group.nodes
                group.nodes = 0
        self.nodes -= ended
        if ended:
            self._forget_empty()
        return ended

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
            (group.limit_s, group.nodes) for group in self.groups if group.start_s > young_since_s
        ]

    def _forget_empty(self) -> None:
        self.groups = [group for group in self.groups if group.nodes]
