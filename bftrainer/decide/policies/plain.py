"""Plain preemptible jobs, the baseline: every trainer is a job of fixed size, requeued with its age
when a node leaves.

Running jobs keep their nodes. Free nodes go to the oldest waiting job that fits, as ``sbatch
--requeue`` in a scavenger partition does. Nothing limits the number of jobs (P_jmax does not
apply).
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.sizes import largest_legal, sizes_of
from bftrainer.decide.domain.state import Active, Decision, State
from bftrainer.decide.policies.settings import PolicySettings


@dataclass(frozen=True, slots=True)
class Plain:
    """Runs trainers as jobs of ``nodes`` nodes, or of the nearest legal size below; by default, of
    a trainer's smallest size.

    ``start_s``: the seconds that a job takes to start, instead of the trainer's R_j^up; the world
    charges them.
    """

    nodes: int = 0
    start_s: float | None = None
    name: str = "plain"
    rigid: bool = True
    unlimited: bool = True

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Return the full size of each job that runs or can start now, and 0 for the others. There
        is no memory.

        Jobs start in order of submission, the order of ``state.active``, as far as nodes are free.
        A job that has lost a node stops, and waits for all of its nodes again.
        """
        sizes = [self._job_nodes(admitted) for admitted in state.active]
        counts = []
        for active, size in zip(state.active, sizes, strict=True):
            counts.append(size if len(active.nodes) == size else 0)
        free = len(state.pool) - sum(counts)
        for j, size in enumerate(sizes):
            if free <= 0:
                break
            if not counts[j] and size <= free:
                counts[j] = size
                free -= size
        return Decision(tuple(counts)), None

    def _job_nodes(self, admitted: Active) -> int:
        """Return the number of nodes of a job."""
        return largest_legal(admitted.trainer, self.nodes) or sizes_of(admitted.trainer)[0]


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``. Parameters: ``nodes``, ``start_s``."""
    # 0 and -1 stand for "not set".
    values = settings.option_values("plain", nodes=0.0, start_s=-1.0)
    return Plain(int(values["nodes"]), values["start_s"] if values["start_s"] >= 0 else None)
