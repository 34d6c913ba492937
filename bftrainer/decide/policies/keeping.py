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
"""A license server or a full disk may recover without an event."""
_MOST_TRIED = 100


def present_counts(state: State) -> tuple[int, ...]:
    """The sizes that trainers have now; after a loss, the largest legal ones within what is
    left.
    """
    return tuple(largest_legal(active.trainer, len(active.nodes)) for active in state.active)


@dataclass(frozen=True, slots=True)
class Keeping(Wrapped):
    """``policy``, or the present counts where it fails.

    A trainer with which it fails even alone is to blame, if it does not fail with the others.
    ``check_memory`` raises for a memory that cannot be journaled.
    """

    check_memory: Callable[[object], object] = lambda _: None

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """The decision of the policy; on an error one with ``kept`` set, the old memory, and a time
        to try again.
        """
        try:
            return self._checked(state, event)
        except Exception as error:
            blamed, wake_at_s = self._blamed(state, event), state.at_s + RETRY_S
            return Decision(
                present_counts(state), wake_at_s, kept=_described(error), blamed=blamed
            ), state.memory

    def _checked(self, state: State, event: Event) -> tuple[Decision, object]:
        decision, memory = self.policy.decide(state, event)
        check_decision(state, decision)
        self.check_memory(memory)
        return decision, memory

    def _blamed(self, state: State, event: Event) -> tuple[str, ...]:
        suspects = [a for a in state.active[:_MOST_TRIED] if self._fails(state, event, (a,))]
        others = tuple(a for a in state.active if a not in suspects)
        if not suspects or not others or self._fails(state, event, others):
            return ()  # the policy's own fault, as far as can be told
        return tuple(a.trainer.id for a in suspects)

    def _fails(self, state: State, event: Event, active: tuple[Active, ...]) -> bool:
        try:
            self._checked(replace(state, active=active), event)
        except Exception:
            return True
        return False


def _described(error: Exception) -> str:
    """One line; the class tells more than the text of an error that was not raised on purpose."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, BFTrainerError) else f"{type(error).__name__}: {text}"
