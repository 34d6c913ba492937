"""A pool of independent workers in a replay: each node works from S after it joined until it leaves, whatever the others do."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from bftrainer.domain.state import Nodes
from bftrainer_replay.simulation.progress import ReplayedTrainer


@dataclass(slots=True)
class ReplayedPool(ReplayedTrainer):
    """Its length does not end it: the work of a pool lasts. A preempted worker loses nothing but the task that it had.

    ``working``: node to the time from which it works; ``starting``: the same of nodes that do not work yet, in this order.
    """

    working: dict[str, float] = field(default_factory=dict)
    starting: deque[tuple[float, str]] = field(default_factory=deque)
    begun_s: float = 0.0
    """The sum of the times in ``working``."""

    def samples_at(self, at_s: float) -> float:
        while self.starting and self.starting[0][0] <= at_s:
            ready_s, node = self.starting.popleft()
            self.working[node] = ready_s
            self.begun_s += ready_s
        return self.samples + self._rates[1] * (len(self.working) * at_s - self.begun_s)

    def settle(self, at_s: float) -> None:
        self.node_s += self.nodes * (at_s - self.since_s)
        self.since_s = at_s

    def lose_nodes(self, left: Nodes, at_s: float) -> None:
        self.settle(at_s)
        self.preemptions += 1
        self._become(self.held - left, at_s)

    def rescale(self, after: Nodes, at_s: float) -> None:
        self.settle(at_s)
        self.rescales += 1
        if self.started_s is None:
            self.started_s = at_s
        self._become(after, at_s)

    def _become(self, after: Nodes, at_s: float) -> None:
        self.samples_at(at_s)  # who works by now
        for node in self.held - after:
            if (since_s := self.working.pop(node, None)) is not None:
                self.samples += self._rates[1] * (at_s - since_s)
                self.begun_s -= since_s
        if gone := self.held - after:
            self.starting = deque(it for it in self.starting if it[1] not in gone)
        self.starting.extend((at_s + self.trainer.growth_s, node) for node in sorted(after - self.held))
        self.held, self.nodes = after, len(after)
