"""Several pilots on one site: whose hosts are whose, and how many nodes all of them may hold together. Pure but for the port.

Nobody coordinates pilots. Each shows what it claims where all can read it (the ``Neighbours`` port), and all follow the same
rules over what they read: a host list that overlaps another's is refused, and of the holders above the shared cap the latest
ones, by job id, are given back by whoever owns them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from bftrainer.config.pilot import NodesConfig
from bftrainer.domain.cluster import Hidden, Observation, PeerPilot
from bftrainer.domain.ports import PeerPilots
from bftrainer.errors import UserError
from bftrainer.live.nodes.fragments import HeldFragment, matches

_PATTERN = re.compile(r"[\w.*?-]*(\[\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*\][\w.*?-]*)*", re.ASCII)
_MOST_NAMES = 100_000


def overlap(hosts: tuple[str, ...], others: Iterable[PeerPilot], nodes: Iterable[str]) -> str:
    """Which of the cluster's ``nodes`` are in our host list and in another pilot's, and whose; empty if none is.

    A pilot without a list claims nothing: it shares whatever is idle, first come, first served.
    """
    ours = sorted(node for node in nodes if matches(node, hosts))
    for other in others:
        theirs = tuple(pattern for pattern in other.hosts if _is_readable(pattern))
        if both := [node for node in ours if matches(node, theirs)]:
            more = f" and {len(both) - 3} more" if len(both) > 3 else ""
            return (
                f"nodes.hosts: {', '.join(both[:3])}{more} also in the list of pilot {other.pilot} of {other.user} "
                f"(job {other.job}); expected lists that do not overlap, or that pilot ended"
            )
    return ""


@dataclass(slots=True)
class Sharing:
    """The shared cap, as of the last look at the others."""

    neighbours: PeerPilots | None = None
    others: tuple[PeerPilot, ...] = ()

    def look(self, nodes: NodesConfig, seen: Observation) -> str:
        """See who holds how many nodes, and whether a pilot that came later claims ours: what is to be said of that.

        Nobody is asked where there is neither a shared cap nor a host list. What cannot be seen is not nothing.
        """
        if self.neighbours is None or (nodes.site_max_nodes is None and not nodes.hosts):
            self.others = ()
            return ""
        if Hidden.JOBS in seen.hidden and nodes.site_max_nodes is not None:
            raise UserError(
                "nodes.site_max_nodes: the site hides other users' jobs (PrivateData), so other pilots' nodes cannot be "
                "counted; remove the key, or have the pilot run by an operator"
            )
        self.others = self.neighbours.look()
        return overlap(nodes.hosts, self.others, (node.name for node in seen.nodes))

    def most(self, nodes: NodesConfig) -> float:
        """How many nodes the others leave to us."""
        if nodes.site_max_nodes is None:
            return math.inf
        return max(nodes.site_max_nodes - sum(len(other.holders) for other in self.others), 0)

    def surplus(self, nodes: NodesConfig, held: Iterable[HeldFragment]) -> list[str]:
        """Our fragments above the cap. All pilots count in the same order, so only one of two that raced gives way."""
        if nodes.site_max_nodes is None:
            return []
        ours = [(_number(h.fragment.id), h.name) for h in held if h.given_back_s is None]
        theirs = [(_number(job), "") for other in self.others for job in other.holders]
        return [name for _, name in sorted([*ours, *theirs])[nodes.site_max_nodes :] if name]


def _number(job: str) -> int:
    return int(job) if job.isdecimal() else 0


def _is_readable(pattern: str) -> bool:
    """Whether another user's words are a host pattern, and not one that would fill the memory."""
    if not _PATTERN.fullmatch(pattern):
        return False
    names = 1
    for inside in re.findall(r"\[([^]]*)\]", pattern):
        ends = [part.split("-") for part in inside.split(",")]
        names *= max(sum(max(int(last[-1]) - int(last[0]) + 1, 0) for last in ends), 1)
    return names <= _MOST_NAMES
