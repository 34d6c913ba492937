"""Since when nodes have been idle, by the scheduler's word and in the pilot's looks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bftrainer.domain.cluster import NodeView
from bftrainer.domain.node_stages import NodeStage
from bftrainer.domain.times import PilotS


@dataclass(frozen=True, slots=True)
class FirstSeen:
    """By node: the instants before a request, by the pilot's clock. A look that does not offer a node forgets it."""

    instants: dict[str, dict[NodeStage, PilotS]] = field(default_factory=dict)

    def looked(self, offered: Iterable[str], nodes: Iterable[NodeView], at_s: PilotS, offset_s: float) -> FirstSeen:
        """After a look at ``at_s``. ``offset_s``: what the pilot's clock is ahead of the scheduler's."""
        fresh = set(offered)
        kept = {node: known for node, known in self.instants.items() if node in fresh}
        for node in nodes:
            if node.name in fresh and node.name not in kept:
                instants = {NodeStage.SEEN: at_s}
                if node.last_busy_s is not None:
                    instants[NodeStage.IDLE] = PilotS(min(node.last_busy_s + offset_s, at_s))
                kept[node.name] = instants
        return FirstSeen(kept)

    def of(self, node: str) -> dict[NodeStage, PilotS]:
        """A node's instants; empty if it is not idle."""
        return self.instants.get(node, {})
