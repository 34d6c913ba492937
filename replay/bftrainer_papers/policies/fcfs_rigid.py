"""First come first served with fixed sizes, a control: Summit's killable queue (paper 2.2).

Each trainer runs at its requested size or not at all. One that loses a node is killed, requeues at
the end of the queue and resumes from its last checkpoint. A trainer that does not fit is skipped
until it does.
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer_papers.policies.shares import first_fit, requested


@dataclass(frozen=True, slots=True)
class FcfsRigid:
    """Running trainers keep their nodes; free nodes go to the queue in order."""

    name: str = "fcfs-rigid"
    rigid: bool = True

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Keep running trainers and start the waiting ones in order; the memory is the queue.

        The queue has the ids of all trainers. A trainer with fewer nodes than it requested has lost
        some: it is killed and goes to the end. A trainer that is new stands behind those known
        before.
        """
        previous_queue = state.memory if isinstance(state.memory, tuple) else ()
        node_count = {admitted.trainer.id: len(admitted.nodes) for admitted in state.active}
        size = {admitted.trainer.id: requested(admitted.trainer) for admitted in state.active}
        killed = {name for name, n in node_count.items() if 0 < n < size[name]}
        places = {name: place for place, name in enumerate(previous_queue)}
        arrived = [admitted.trainer.id for admitted in state.active]
        queue = sorted(arrived, key=lambda name: (name in killed, places.get(name, len(places))))
        running = [name for name in queue if node_count[name] >= size[name]]
        index = {name: j for j, name in enumerate(arrived)}
        order = [*running, *(name for name in queue if node_count[name] < size[name])]
        return Decision(first_fit(state, [index[name] for name in order])), tuple(queue)


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    settings.option_values("fcfs-rigid")
    return FcfsRigid()
