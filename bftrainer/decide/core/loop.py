"""The decision loop, the same for the live pilot and for replay. A World gives the next event and
carries out rescales.
"""

from __future__ import annotations

from bftrainer.decide.allocation.placement import NameOrder
from bftrainer.decide.core.coordinator import QueuedIds, adopt, decide, observe, rescales
from bftrainer.decide.domain.ports import Journal, Policy, World
from bftrainer.decide.domain.state import State


def run(world: World, state: State, policy: Policy, journal: Journal) -> State:
    """Answer events until the world has no more; return the last state.

    The world is the live cluster or a replayed log; ``journal`` records every decision. A
    preemption never waits for the policy: trainers give up nodes that left before anything is
    decided. A plan is in the journal before it is carried out.
    """
    queued, name_order = QueuedIds(), NameOrder()
    while (event := world.next_event(state)) is not None:
        observed = observe(state, event, queued)
        world.apply(rescales(state, observed, forced=True))
        plan = decide(observed, policy, event, name_order)
        journal.record(event, observed, plan)
        state = adopt(observed, plan)
        world.apply(rescales(observed, state))
    return state
