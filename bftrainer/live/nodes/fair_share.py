"""The equal split of idle nodes among users, which every pilot computes alike from what all show: no service, no set-up.

Each user gets the same number of nodes, and nobody more than the user's pilots want (water-filling). A pilot requests no more
than its part, and gives back what it holds above it once no node is idle that others could take. Pure.

If nodes stay idle although others want more, they cannot use these nodes (another partition, another class): then the split is
no use, and is left for a while.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bftrainer.domain.cluster import PeerPilot

PATIENCE_S = 3.0
"""So long a pilot keeps nodes above its part: the others may be about to take idle ones."""
IN_VAIN_S = 45.0
"""Nodes that are idle for so long while a pilot holds its part and wants more are of no use to the others."""
LEFT_S = 3600.0
"""So long the split is left then."""
SETTLES_S = 25.0
"""A node on its way from one user to another is nobody's for a moment: the most nodes of so many seconds are divided."""


@dataclass(frozen=True, slots=True)
class OwnPilot:
    """This pilot. ``wants``: nodes that its trainers could use; ``holds``: what it has, or requests; ``leaves``: nodes that it
    has given back and not yet released.
    """

    user: str
    wants: int
    holds: int
    leaves: int = 0


@dataclass(frozen=True, slots=True)
class ShareMemory:
    """The most nodes lately and when that was, since when this pilot holds more than its part, since when nodes are idle in
    vain, until when the split is left.
    """

    nodes: int = 0
    nodes_s: float = -math.inf
    above_s: float = math.inf
    idle_s: float = math.inf
    left_until_s: float = -math.inf

    def seen(self, nodes: int, now_s: float) -> ShareMemory:
        """After a look at all nodes that are idle or held."""
        if nodes < self.nodes and now_s - self.nodes_s < SETTLES_S:
            return self
        return replace(self, nodes=nodes, nodes_s=now_s)

    def then(self, part: int, own: OwnPilot, idle: int, now_s: float) -> ShareMemory:
        """``part`` is this pilot's, ``idle`` the nodes that nobody holds."""
        if now_s < self.left_until_s:
            return replace(self, above_s=math.inf, idle_s=math.inf)
        above_s = min(self.above_s, now_s) if own.holds > part and not idle else math.inf
        idle_s = min(self.idle_s, now_s) if idle and part <= own.holds < own.wants else math.inf
        if now_s - idle_s >= IN_VAIN_S:
            return replace(self, above_s=math.inf, idle_s=math.inf, left_until_s=now_s + LEFT_S)
        return replace(self, above_s=above_s, idle_s=idle_s)


def equal_parts(nodes: int, wants: Mapping[str, int]) -> dict[str, int]:
    """``nodes`` divided evenly, nobody above what it wants; odd nodes by name. The sum is the smaller of both sums.

    Cost: O(U log U).
    """
    parts: dict[str, int] = {}
    left = nodes
    for count, name in enumerate(sorted(wants, key=lambda name: (wants[name], name))):
        fair = left / (len(wants) - count)
        parts[name] = min(max(wants[name], 0), math.floor(fair))
        left -= parts[name]
    for name in sorted(parts):
        more = int(left > 0 and parts[name] < wants[name])
        parts[name] += more
        left -= more
    return parts


def nodes_of_all(own: OwnPilot, peers: Iterable[PeerPilot], idle: int) -> int:
    """All nodes that are idle or held."""
    return own.holds + own.leaves + idle + sum(len(pilot.holders) for pilot in peers)


def own_part(own: OwnPilot, peers: Iterable[PeerPilot], nodes: int) -> int | None:
    """How many of all ``nodes`` this pilot may hold while others want theirs; None if no other pilot wants or holds any.

    A pilot that does not say what it wants (an older one) has what it holds.
    """
    others = [(pilot, len(pilot.holders) if pilot.wants is None else pilot.wants) for pilot in peers]
    if not any(wanted or pilot.holders for pilot, wanted in others):
        return None
    of_user: dict[str, int] = {own.user: own.wants}
    siblings = {"": own.wants}
    for pilot, wanted in others:
        of_user[pilot.user] = of_user.get(pilot.user, 0) + wanted
        if pilot.user == own.user:
            siblings[f"{pilot.pilot} {pilot.job}"] = wanted
    return equal_parts(equal_parts(nodes, of_user)[own.user], siblings)[""]
