"""Recomputes the decisions in a live pilot's journal: the same events must give the same decisions.

The counts of ``exact`` must be the same. A MILP solver's answer is taken from the journal, because
there may be several optima and time limits are not reproducible. It is validated again, its value
is recomputed, and the value must not exceed the exact optimum.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from bftrainer.decide.allocation.check import VALUE_TOLERANCE, checked
from bftrainer.decide.allocation.check_decision import check_counts
from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.placement import check_placement
from bftrainer.decide.allocation.recording import RecordingAllocator
from bftrainer.decide.core.coordinator import adopt, decide, observe
from bftrainer.decide.core.fill import trainings
from bftrainer.decide.core.node_classes import parts
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.problem import Answer, Problem
from bftrainer.decide.domain.state import State
from bftrainer.decide.policies.keeping import present_counts
from bftrainer.errors import BFTrainerError, InvalidValueError, RejectedAnswerError
from bftrainer.pilot.decision_maker import policy_of
from bftrainer.pilot.persistence.journal import JournalEntry, Settings, entries, state_before
from bftrainer.pilot.persistence.store import Store
from bftrainer.system.printable import printable


@dataclass(frozen=True, slots=True)
class JournalVerdict:
    """One decision in the journal: its number, its solver, and what differs (empty: nothing)."""

    number: int
    solver: str
    differs: str


@dataclass(slots=True)
class RecordedAnswers:
    """An allocator that returns the journal's recorded answers, after validating each against the
    problem.
    """

    answers: list[Answer] = field(default_factory=list)
    name: str = "journal"

    def solve(self, problem: Problem) -> Answer:
        """Return the next answer of the journal, if it is valid for this problem.

        Raises :class:`RejectedAnswerError` if it is not, if it is not what the exact solver gives
        now although it is said to be, or if it claims more than the optimum.
        """
        answer = checked(problem, self.next_answer())
        best = Exact().solve(problem)
        if answer.solver == Exact().name and answer.counts != best.counts:
            raise RejectedAnswerError(
                f"exact gave {answer.counts} live, but gives {best.counts} now"
            )
        if answer.objective_value > best.objective_value * (1 + VALUE_TOLERANCE) + VALUE_TOLERANCE:
            raise RejectedAnswerError(
                f"{answer.solver} claims {answer.objective_value}, but the optimum is "
                f"{best.objective_value}"
            )
        return answer

    def next_answer(self) -> Answer:
        """Return the next recorded answer, unchecked. Raises :class:`RejectedAnswerError` if there
        is none.
        """
        if not self.answers:
            raise RejectedAnswerError("the policy calls a solver more often than it did live")
        return self.answers.pop(0)


def recorded_policy(
    settings: Settings, allocator: RecordingAllocator, may_import: Collection[str]
) -> Policy:
    """Return the policy of the ``settings`` in a row of the journal, which asks ``allocator`` for
    the recorded answers.

    The journal may come from elsewhere: a ``module:function`` that a row names is imported only if
    it is in ``may_import``. Raises :class:`InvalidValueError` otherwise.
    """
    for kind, name in (
        # Parameters of a policy follow a "?".
        ("policy", settings.policy.partition("?")[0]),
        ("objective", settings.objective),
    ):
        if ":" in name and name not in may_import:
            raise InvalidValueError(
                f"the journal was written with the {kind} {name!r:.120}, which is code outside "
                "of bftrainer; if you trust it, "
                f"allow it with --import {name:.120}"
            )
    return policy_of(settings, allocator)


def decisions_with_states(
    store: Store, shortly_before_s: float = -math.inf, may_import: Collection[str] = ()
) -> Iterator[tuple[JournalEntry, State]]:
    """Yield the decisions in a journal, in order, each with the state that it was made on (its
    event already applied).

    Starts with the first decision or, if ``shortly_before_s`` is given, at a snapshot from some
    time before it, which is fast even if the journal is long. ``may_import``: policies and
    objectives of other packages that rows may name. Raises :class:`InvalidValueError` for rows that
    do not fit together, as in a damaged journal.
    """

    # Building the policy admits the classes of its memory, which are in the rows.
    @lru_cache
    def admit(settings: Settings) -> Policy:
        return recorded_policy(settings, RecordingAllocator(RecordedAnswers()), may_import)

    number, state = state_before(store, shortly_before_s, admit)
    for entry in entries(store, number, admit):
        if state is None:
            state = State(entry.settings.max_parallel)
        try:
            before = observe(replace(state, max_parallel=entry.settings.max_parallel), entry.event)
        except CORE_ERRORS as error:
            raise damage_error(entry, error) from error
        yield entry, before
        try:
            state = adopt(before, entry.plan)
        except CORE_ERRORS as error:
            raise damage_error(entry, error) from error


CORE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    StopIteration,
    TypeError,
    ValueError,
)
"""The errors of the core for an event or a plan that no pilot has written: each value is valid,
together they are not.
"""


def damage_error(entry: JournalEntry, error: Exception) -> InvalidValueError:
    """Return the error for a row of the journal that made the core raise ``error``."""
    cause = printable(f"{type(error).__name__}: {error}")
    return InvalidValueError(
        f"decision {entry.number} of the journal does not follow from the ones before "
        f"({cause:.200})"
    )


def decide_again(store: Store, may_import: Collection[str] = ()) -> Iterator[JournalVerdict]:
    """Make every decision in a journal again, starting from the empty state; yield for each, in
    order, what differs (:class:`JournalVerdict`).

    ``may_import``: policies and objectives of other packages (``module:function``) that rows may
    name.
    """
    policies: dict[Settings, tuple[RecordedAnswers, Policy]] = {}
    for entry, before in decisions_with_states(store, may_import=may_import):
        if entry.settings not in policies:
            recorded = RecordedAnswers()
            allocator = RecordingAllocator(recorded)
            policies[entry.settings] = (
                recorded,
                recorded_policy(entry.settings, allocator, may_import),
            )
        recorded, policy = policies[entry.settings]
        recorded.answers = list(entry.answers)
        yield JournalVerdict(
            entry.number,
            entry.answers[-1].solver if entry.answers else "none",
            _comparison_with_rerun(entry, before, policy),
        )


def _comparison_with_rerun(entry: JournalEntry, before: State, policy: Policy) -> str:
    """Make the decision of a journal ``entry`` again, on the state ``before`` it, and return how
    the result differs from the journal; empty if it does not.

    An error of bftrainer's own is raised.
    """
    try:
        if entry.plan.decision.kept:
            return _compare_kept(entry, before)
        plan = decide(before, policy, entry.event)
    except RejectedAnswerError as error:
        return str(error)
    except CORE_ERRORS as error:
        if isinstance(error, BFTrainerError):
            raise
        return f"the policy fails now: {printable(f'{type(error).__name__}: {error}'):.200}"
    if plan.decision.counts != entry.plan.decision.counts:
        return (
            f"the live decision was {entry.plan.decision.counts}, but now it is "
            f"{plan.decision.counts}"
        )
    if plan.nodes != entry.plan.nodes:
        return "the counts are the same, but the nodes differ"
    if plan.memory != entry.plan.memory:
        return "the policy's memory differs"
    return ""


def _compare_kept(entry: JournalEntry, before: State) -> str:
    """Return what is wrong with a decision that kept all sizes because the policy raised an error;
    empty if nothing is.

    The error may not come again, so the policy is not asked: the decision must be legal and, where
    all nodes are of one class, have the counts from before. Of several classes, those without an
    error may have changed.
    """
    # Pools that fill are left out: no policy decides on them.
    assignments = zip(before.active, entry.plan.nodes, strict=True)
    nodes = tuple(nodes for a, nodes in assignments if not a.trainer.fill)
    counts = tuple(map(len, nodes))
    state = trainings(before)
    present = present_counts(state)
    try:
        check_counts([admitted.trainer for admitted in state.active], len(state.pool), counts)
        check_placement(state.pool, [admitted.nodes for admitted in state.active], counts, nodes)
    except RejectedAnswerError as error:
        return str(error)
    if len(parts(state)) == 1 and counts != present:
        return f"the live decision kept {counts}, but the counts before were {present}"
    return ""
