"""An objective and a policy that fail, as a user's own may."""

from __future__ import annotations

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.settings import PolicySettings

fails = [False]


def objective(trainer: Trainer, n: int) -> float:
    if trainer.id.startswith("poison"):
        return 1.0 / 0.0
    return float(n)


class _Sometimes:
    name = "sometimes"

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        if fails[0]:
            raise KeyError("nothing of the kind")
        return Decision(
            tuple(min(len(state.pool), 2) if j == 0 else 0 for j in range(len(state.active)))
        ), None


class _Forgetful(_Sometimes):
    """Its memory is not frozen: it cannot be journaled."""

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        return super().decide(state, event)[0], {"n": [len(state.active)]}


def sometimes(settings: PolicySettings) -> _Sometimes:
    return _Sometimes()


def forgetful(settings: PolicySettings) -> _Forgetful:
    return _Forgetful()
