"""What a policy must know of a trainer. Checked at submission, where a trainer can still be rejected with a reason."""

from __future__ import annotations

from enum import Enum

from bftrainer.domain.model import Trainer
from bftrainer.domain.ports import Policy
from bftrainer.domain.state import Active
from bftrainer.errors import InvalidValueError


class Need(Enum):
    """A policy lists its needs in an attribute ``needs``; without it, every trainer will do."""

    LENGTH = "the total number of samples (samples_total)"
    LOSSES = "the value of the evaluation function in progress reports (reports_loss)"


def refusal(policy: Policy, trainer: Trainer) -> str | None:
    """Why this policy cannot serve this trainer; None if it can. Asked live at submission, in a replay before the start."""
    for need in sorted(getattr(policy, "needs", frozenset()), key=lambda need: need.name):
        if (need is Need.LENGTH and trainer.samples_total is None) or (
            need is Need.LOSSES and not trainer.reports_loss
        ):
            return f"trainer {trainer.id}: policy {policy.name} requires {need.value}"
    return None


def check_needs(policy: Policy, trainer: Trainer) -> None:
    """Raise :class:`InvalidValueError` if the policy cannot serve the trainer."""
    if (reason := refusal(policy, trainer)) is not None:
        raise InvalidValueError(reason)


def is_rigid(policy: Policy) -> bool:
    """Whether its trainers are ordinary jobs: the loss of a node kills them, and they resume from their last checkpoint."""
    return bool(getattr(policy, "rigid", False))


def remaining(active: Active, policy: str) -> float:
    """Remaining samples, for policies with ``Need.LENGTH``. Raises :class:`InvalidValueError` where they are unknown."""
    left = active.remaining_samples
    if left is None:
        raise InvalidValueError(f"trainer {active.trainer.id}: policy {policy} requires samples_total")
    return left
