"""Gathering: nodes that join within a moment of one another move a running trainer once, not once
each.

A large job that ends frees its nodes over a second or so, and every rescale stalls a trainer for
many. From the first node that joins, running trainers keep their sizes for ``gather_s``; then one
decision is made for all that came. The wait never grows: later arrivals do not extend it. It ends
early where nothing else is about to join (``Event.all_joined``). What needs no running trainer does
not wait: a trainer that waits starts on free nodes. A loss never waits: an event in which nodes
leave is decided in full, and ends the wait.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bftrainer.decide.allocation.check_decision import still_named
from bftrainer.decide.domain.events import Event, PoolChanged
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.wrapped import Wrapped


@dataclass(frozen=True, slots=True)
class GatheringArrivals:
    """The memory while arrivals are gathered, until ``until_s``; ``inner`` is the memory of the
    policy.
    """

    until_s: float
    inner: object = None


@dataclass(frozen=True, slots=True)
class Gathered(Wrapped):
    """The policy ``policy``, with nodes that join within ``gather_s`` of the first taken into
    account together.
    """

    gather_s: float

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Return the decision of the policy; while arrivals are gathered, running trainers keep
        their sizes.

        Nodes that join within ``gather_s`` of the first one are gathered, so that a running trainer
        is moved once for all of them. In that case the memory of the policy stays as it was, since
        its decision was not carried out: at the end, it is asked again with it.
        """
        memory = state.memory
        inner = memory.inner if isinstance(memory, GatheringArrivals) else memory
        until_s = self._until_s(state, event)
        decision, new_inner = self.policy.decide(replace(state, memory=inner), event)
        if until_s is None:
            return decision, new_inner
        counts = _without_moves(state, decision.counts)
        if counts == decision.counts:  # it moves no running trainer
            return decision, new_inner
        # At the end of the wait the policy is asked again, or earlier if it asks for that itself.
        wake_at_s = until_s
        if decision.wake_at_s is not None:
            wake_at_s = min(until_s, decision.wake_at_s)
        gathered = Decision(counts, wake_at_s, nodes=still_named(state, decision, counts))
        return gathered, GatheringArrivals(until_s, inner)

    def _until_s(self, state: State, event: Event) -> float | None:
        """Return until when running trainers keep their sizes; None if they may be moved now.

        ``state.memory`` says whether arrivals are gathered already; ``event`` may begin that, or
        end it early.
        """
        pool_changes = [change for change in event.changes if isinstance(change, PoolChanged)]
        # Nothing else is about to join, or a loss has to be answered at once.
        if event.all_joined or any(change.left for change in pool_changes):
            return None
        if isinstance(state.memory, GatheringArrivals):
            return state.memory.until_s if state.at_s < state.memory.until_s else None
        if any(change.joined for change in pool_changes):
            return state.at_s + self.gather_s
        return None


def _without_moves(state: State, counts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the counts without a change of any running trainer.

    Trainers without nodes get their count if so many nodes are free, in order of admission. After a
    loss that left a trainer an illegal size, the ``counts`` are returned as they are: that trainer
    must be moved.
    """
    sizes = [len(active.nodes) for active in state.active]
    if not all(active.trainer.is_legal(n) for active, n in zip(state.active, sizes, strict=True)):
        return counts
    free = len(state.pool) - sum(sizes)
    for j, count in enumerate(counts):
        if not sizes[j] and count <= free:
            sizes[j] = count
            free -= count
    return tuple(sizes)
