"""What policies that require lengths know of a trainer."""

from __future__ import annotations

from bftrainer.decide.domain.state import Active
from bftrainer.errors import InvalidValueError


def remaining(active: Active, policy: str) -> float:
    """Return the samples that a trainer still has to process, for policies that require lengths.

    Raises :class:`InvalidValueError`, which names the ``policy``, where they are unknown.
    """
    left = active.remaining_samples
    if left is None:
        raise InvalidValueError(
            f"trainer {active.trainer.id}: policy {policy} requires samples_total"
        )
    return left
