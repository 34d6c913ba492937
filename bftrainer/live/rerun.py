"""A live pilot's journal, decided again: the same events must give the same decisions.

``exact`` must match count for count. A MILP's answer is taken from the journal (several optima exist, and time limits do not
repeat), but it passes the check again and its value is recomputed, and it may not be worth more than the exact optimum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from bftrainer.allocation.check import VALUE_TOLERANCE, checked
from bftrainer.allocation.exact import Exact
from bftrainer.core.coordinator import adopt, decide, observe
from bftrainer.domain.ports import Policy
from bftrainer.domain.problem import Answer, Problem
from bftrainer.domain.state import State
from bftrainer.errors import RejectedAnswerError
from bftrainer.live.decision_maker import policy_of
from bftrainer.persistence.journal import JournalEntry, RecordingAllocator, Settings, entries, state_before
from bftrainer.persistence.store import Store


@dataclass(frozen=True, slots=True)
class JournalVerdict:
    """One decision of the journal: its number, by which solver, and what differs (empty: nothing)."""

    number: int
    solver: str
    differs: str


@dataclass(slots=True)
class Recorded:
    """An allocator that gives the journal's answers again, after checking them against the problem it is asked."""

    answers: list[Answer] = field(default_factory=list)
    name: str = "journal"

    def solve(self, problem: Problem) -> Answer:
        """The next recorded answer; raises :class:`RejectedAnswerError` where it does not hold."""
        if not self.answers:
            raise RejectedAnswerError("the policy asks a solver more often than it did live")
        answer = checked(problem, self.answers.pop(0))
        best = Exact().solve(problem)
        if answer.solver == Exact().name and answer.counts != best.counts:
            raise RejectedAnswerError(f"exact gave {answer.counts}, and now gives {best.counts}")
        if answer.objective_value > best.objective_value * (1 + VALUE_TOLERANCE) + VALUE_TOLERANCE:
            raise RejectedAnswerError(
                f"{answer.solver} claims {answer.objective_value}, the optimum is {best.objective_value}"
            )
        return answer


def observed(store: Store, shortly_before_s: float = -math.inf) -> Iterator[tuple[JournalEntry, State]]:
    """Decisions of a journal, in order, with the state that each was made on: its event has happened.

    From the first one on; or from some time before a moment, which is quick however long the journal is.
    """

    @lru_cache
    def admit(settings: Settings) -> Policy:
        return policy_of(settings, RecordingAllocator(Recorded()))

    number, state = state_before(store, shortly_before_s, admit)
    for entry in entries(store, number, admit):
        if state is None:
            state = State(entry.settings.max_parallel)
        before = observe(replace(state, max_parallel=entry.settings.max_parallel), entry.event)
        yield entry, before
        state = adopt(before, entry.plan)


def decide_again(store: Store) -> Iterator[JournalVerdict]:
    """Every decision of a journal, in order, from the empty state on."""
    policies: dict[Settings, tuple[Recorded, Policy]] = {}
    for entry, before in observed(store):
        if entry.settings not in policies:
            recorded = Recorded()
            policies[entry.settings] = recorded, policy_of(entry.settings, RecordingAllocator(recorded))
        recorded, policy = policies[entry.settings]
        recorded.answers = list(entry.answers)
        yield JournalVerdict(
            entry.number, entry.answers[-1].solver if entry.answers else "none", _compare(entry, before, policy)
        )


def _compare(entry: JournalEntry, before: State, policy: Policy) -> str:
    try:
        plan = decide(before, policy, entry.event)
    except RejectedAnswerError as error:
        return str(error)
    if plan.decision.counts != entry.plan.decision.counts:
        return f"decided {entry.plan.decision.counts}, and now {plan.decision.counts}"
    if plan.nodes != entry.plan.nodes:
        return "the same counts on other nodes"
    if plan.memory != entry.plan.memory:
        return "the policy remembers something else"
    return ""
