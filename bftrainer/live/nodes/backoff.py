"""Back-off from nodes: those that were preempted soon after they were taken, those that the scheduler refused."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.domain.times import PilotS
from bftrainer.live.derived import Table

MAX_BACK_OFF_S = 3600.0


@dataclass(frozen=True, slots=True)
class BackOff:
    """One node's: no request before ``until_s``; it was preempted early so many ``times`` in a row."""

    node: str
    until_s: PilotS
    times: int


class NodeBackoff:
    """Back-off by node."""

    def __init__(self) -> None:
        self._nodes: Table[BackOff] = Table()

    def preempted(self, node: str, held_s: float, base_s: float, now_s: PilotS) -> None:
        """The scheduler took a node back after ``held_s``: each early preemption in a row doubles the back-off.

        ``base_s`` is the length of the first one, and how long a node must be held to be in order again.
        """
        if held_s >= base_s:
            if node in self._nodes:
                del self._nodes[node]
            return
        times = self._times(node)
        self._nodes[node] = BackOff(node, PilotS(now_s + min(base_s * 2**times, MAX_BACK_OFF_S)), times + 1)

    def until(self, node: str, until_s: PilotS) -> None:
        """No request for the node before ``until_s``."""
        self._nodes[node] = BackOff(node, until_s, self._times(node))

    def nodes(self) -> tuple[BackOff, ...]:
        return self._nodes.values()

    def _times(self, node: str) -> int:
        known = self._nodes.get(node)
        return 0 if known is None else known.times
