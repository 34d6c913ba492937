"""A policy that cannot fail: an error keeps the present counts, and names the trainers that cause
it.

An error is an exception of the policy, its objective or its solver, or counts or named nodes that
break a rule. A live pilot decides through this wrapper, since a policy that raises must not end all
training; a replay does not, since there the error is what the user wants to see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bftrainer.decide.allocation.check_decision import check_decision
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.sizes import largest_legal
from bftrainer.decide.domain.state import Active, Decision, State
from bftrainer.decide.policies.wrapped import Wrapped
from bftrainer.errors import BFTrainerError

RETRY_S = 60.0
"""Time after which a policy that failed is asked again.

A license server or a full disk may recover without an event.
"""
_MAX_SUSPECTS = 100


def present_counts(state: State) -> tuple[int, ...]:
    """Return the sizes that trainers have now; after a loss that left an illegal size, the largest
    legal one within the nodes that are left.
    """
    return tuple(largest_legal(active.trainer, len(active.nodes)) for active in state.active)


@dataclass(frozen=True, slots=True)
class Keeping(Wrapped):
    """The policy ``policy``; where it fails, the decision is to keep the present counts.

    A trainer is to blame if the policy fails with it alone, and does not fail with all others.
    ``check_memory`` raises for a memory that cannot be journaled.
    """

    check_memory: Callable[[object], object] = lambda _: None

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Return the decision and the memory of the policy. If it raises, the decision is to keep
        the present counts, with the old memory, and to try again after ``RETRY_S``.

        The decision has the error then (``kept``), and the trainers that cause it (``blamed``).
        """
        try:
            return self._checked_decision(state, event)
        except Exception as error:
            decision = Decision(
                present_counts(state),
                wake_at_s=state.at_s + RETRY_S,
                kept=_one_line(error),
                blamed=self._trainers_to_blame(state, event),
            )
            return decision, state.memory

    def _checked_decision(self, state: State, event: Event) -> tuple[Decision, object]:
        """Return the decision and the memory of the policy. Raises whatever the policy raises, and
        for a decision or a memory that breaks a rule.
        """
        decision, memory = self.policy.decide(state, event)
        check_decision(state, decision)
        self.check_memory(memory)
        return decision, memory

    def _trainers_to_blame(self, state: State, event: Event) -> tuple[str, ...]:
        """Return the ids of the trainers with which the policy fails; none if the fault may be the
        policy's own.

        Each of the first ``_MAX_SUSPECTS`` trainers is tried alone, then all others together. If
        the policy fails with these too, or if there are no others, the trainers may not be the
        cause.
        """
        suspects = [
            admitted
            for admitted in state.active[:_MAX_SUSPECTS]
            if self._policy_fails_with(state, event, (admitted,))
        ]
        others = tuple(admitted for admitted in state.active if admitted not in suspects)
        if not suspects or not others or self._policy_fails_with(state, event, others):
            return ()  # the policy's own fault, as far as can be told
        return tuple(suspect.trainer.id for suspect in suspects)

    def _policy_fails_with(self, state: State, event: Event, active: tuple[Active, ...]) -> bool:
        """Whether the policy fails if only the trainers ``active`` are admitted."""
        try:
            self._checked_decision(replace(state, active=active), event)
        except Exception:
            return True
        return False


def _one_line(error: Exception) -> str:
    """Return an error as one line, with its class if it was not raised on purpose: that tells more
    than its text.
    """
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, BFTrainerError) else f"{type(error).__name__}: {text}"
