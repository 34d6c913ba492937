"""A policy with a stopwatch around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Decision, State


@dataclass(slots=True)
class TimedPolicy:
    """A policy that can be replaced at a reload, with the duration of its last decision.

    ``stopwatch_s`` returns seconds from an arbitrary origin, such as ``time.perf_counter``.
    """

    policy: Policy
    stopwatch_s: Callable[[], float]
    took_s: float = 0.0

    @property
    def name(self) -> str:
        return self.policy.name

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Return the decision and the memory of the policy, and note the duration."""
        start_s = self.stopwatch_s()
        answer = self.policy.decide(state, event)
        self.took_s = self.stopwatch_s() - start_s
        return answer
