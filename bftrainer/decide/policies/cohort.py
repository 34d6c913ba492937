"""Cohort: for rescales that cost a minute and more. Free nodes are given by cohort, and no running
trainer gives one up.

Nodes that joined together tend to leave together, so the nodes of one job that ended are divided
over as few trainers as pays off, where one preemption stalls few of them. At every event, until
nothing moves:

1. Each free cohort, the oldest first, is split over the trainers such that the sum of their worths
   rises most.
2. Then the trainer that gains most gets the union of at least two of the oldest free cohorts.

The worth of a trainer is what it is expected to do within the horizon, less the stall that is left
and, as it nears its end, the start of its successor
(:mod:`~bftrainer.decide.policies.cohort_worth`). Nodes are given only if that raises the sum.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from bftrainer.decide.allocation.objectives import Objective
from bftrainer.decide.domain.events import Event, PoolChanged
from bftrainer.decide.domain.needs import Need
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.sizes import sizes_of
from bftrainer.decide.domain.state import Decision, Nodes, State
from bftrainer.decide.policies.cohort_split import Division
from bftrainer.decide.policies.cohort_worth import CohortModel
from bftrainer.decide.policies.settings import PolicySettings

_MIN_WAIT_S = 1.0
"""The shortest time until the policy decides again without an event: the age of new nodes is 0, and
``youngest_s`` may be 0 as well.
"""


@dataclass(frozen=True, slots=True)
class Cohorts:
    """The memory: (time at which they joined, nodes of the pool), the oldest first."""

    joined: tuple[tuple[float, Nodes], ...] = ()


@dataclass(frozen=True, slots=True)
class Cohort:
    """The policy ``cohort``."""

    objective: Objective
    model: CohortModel = field(default_factory=CohortModel)
    name: str = "cohort"

    @property
    def needs(self) -> frozenset[Need]:
        """The facts that the objective needs."""
        return self.objective.needs

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Return the counts and nodes of this event: free nodes are given by cohort (nodes that
        joined together), and running trainers keep theirs.

        A trainer that has an illegal size after a loss drops to the largest legal one. The memory
        holds when the nodes of the pool joined.
        """
        previous = state.memory if isinstance(state.memory, Cohorts) else Cohorts()
        memory = Cohorts(self._updated_cohorts(previous.joined, state, event))
        nodes = self._nodes_after(state, memory)
        counts = tuple(map(len, nodes))
        changed = tuple(
            (admitted.trainer.id, new_nodes)
            for admitted, new_nodes in zip(state.active, nodes, strict=True)
            if new_nodes is not admitted.nodes  # an unchanged set is the same object
        )
        return Decision(counts, self._wake_s(state, memory, counts), nodes=changed), memory

    def _updated_cohorts(
        self, previous: tuple[tuple[float, Nodes], ...], state: State, event: Event
    ) -> tuple[tuple[float, Nodes], ...]:
        """Return the cohorts of the pool (nodes that joined together) after an event: (time at
        which they joined, nodes), the oldest first.

        ``previous`` are those before the event, ``state`` is the state after it. Nodes in no known
        cohort count as joined now, or with the last cohort if that is recent. They joined earlier
        only if another wrapper hid the event from this policy.
        """
        pool = state.pool
        for change in event.changes:
            if isinstance(change, PoolChanged):
                pool = pool - change.joined  # a name that was in the pool before joins again
        cohorts = [(at_s, rest) for at_s, nodes in previous if (rest := nodes & pool)]
        new = state.pool.difference(*(nodes for _, nodes in cohorts))
        if new and cohorts and state.at_s - cohorts[-1][0] <= self.model.together_s:
            at_s, nodes = cohorts.pop()
            cohorts.append((at_s, nodes | new))
        elif new:
            cohorts.append((state.at_s, new))
        return tuple(cohorts)

    def _nodes_after(self, state: State, memory: Cohorts) -> list[Nodes]:
        """Return the nodes of every trainer after this event, in the order of ``State.active``.

        The set of a trainer that keeps its nodes is the same object.
        """
        held = [admitted.nodes for admitted in state.active]
        are_legal = all(admitted.trainer.is_legal(len(admitted.nodes)) for admitted in state.active)
        has_free_nodes = len(state.pool) > sum(map(len, held))
        # No trainer, or nothing to give and nobody to move.
        if not held or (are_legal and not has_free_nodes):
            return held
        division = Division(self.model, self.objective.of(state), state, memory.joined)
        # Free nodes may make an illegal size legal; if they do not, the trainer drops to a legal
        # size, and others may use the nodes that it gives up.
        division.give_free_nodes()
        if division.drop_illegal_sizes():
            division.give_free_nodes()
        return division.nodes()

    def _wake_s(self, state: State, memory: Cohorts, counts: tuple[int, ...]) -> float | None:
        """Return when to decide again without an event; None if only events matter.

        ``counts`` are the new sizes. A time is needed where nothing trains though a trainer would
        fit the pool. Nodes are worth more when they are older, because old cohorts tend to stay: a
        start that does not pay off now may do so later, without any event.
        """
        if not state.active or any(counts):
            return None
        pool_size = len(state.pool)
        # A trainer without any legal size does not fit whatever the pool.
        smallest = min(
            min(sizes_of(admitted.trainer), default=pool_size + 1) for admitted in state.active
        )
        if smallest > pool_size:
            return None
        oldest_joined_s, _ = memory.joined[0]
        oldest_age_s = state.at_s - oldest_joined_s
        # The worth of nodes changes slowly with their age: wait until the oldest are twice as old.
        return state.at_s + max(oldest_age_s, self.model.youngest_s, _MIN_WAIT_S)


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    options = settings.option_values("cohort", **asdict(CohortModel()))
    return Cohort(settings.objective, CohortModel(**options))
