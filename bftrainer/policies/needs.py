"""What a policy must know of a trainer: asked at the gate, where a trainer can still be refused with the reason."""

from __future__ import annotations

from enum import Enum

from bftrainer.domain.model import Trainer
from bftrainer.domain.ports import Policy
from bftrainer.errors import InvalidValueError


class Need(Enum):
    """A policy lists its needs in an attribute ``needs``; without one it needs nothing beyond the trainer itself."""

    LENGTH = "how many samples it has in all (samples_total)"
    LOSSES = "the value of its evaluation function in its progress reports (reports_loss)"


def refusal(policy: Policy, trainer: Trainer) -> str | None:
    """Why this policy cannot serve this trainer; None if it can. Live: at submission. Replay: before it starts."""
    for need in sorted(getattr(policy, "needs", frozenset()), key=lambda need: need.name):
        if (need is Need.LENGTH and trainer.samples_total is None) or (
            need is Need.LOSSES and not trainer.reports_loss
        ):
            return f"trainer {trainer.id}: policy {policy.name} needs {need.value}"
    return None


def check_needs(policy: Policy, trainer: Trainer) -> None:
    """Raise :class:`InvalidValueError` with the refusal."""
    if (reason := refusal(policy, trainer)) is not None:
        raise InvalidValueError(reason)


def is_rigid(policy: Policy) -> bool:
    """Whether its trainers are ordinary jobs, which a lost node kills: they go on from their last checkpoint."""
    return bool(getattr(policy, "rigid", False))
