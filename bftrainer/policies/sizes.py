"""Legal sizes as policies need them: what is left after a loss, the next one up, half."""

from __future__ import annotations

from functools import lru_cache

from bftrainer.domain.model import Trainer
from bftrainer.domain.state import Active
from bftrainer.errors import InvalidValueError
from bftrainer.policies.equal_share import largest_legal


@lru_cache(maxsize=8192)
def sizes_of(trainer: Trainer, powers_of_two: bool = False, cap: int | None = None) -> tuple[int, ...]:
    """Its legal counts above 0, rising; only powers of two, and none above ``cap``, where asked."""
    counts = trainer.sizes if trainer.sizes is not None else range(trainer.min_nodes, trainer.max_nodes + 1)
    return tuple(n for n in counts if n > 0 and (cap is None or n <= cap) and not (powers_of_two and n & (n - 1)))


def largest_of(sizes: tuple[int, ...], nodes: int) -> int:
    """The largest of ``sizes`` within ``nodes``, or 0."""
    return max((n for n in sizes if n <= nodes), default=0)


def standing(active: Active) -> int:
    """The nodes it can go on with: what it holds, cut to a legal size where a loss left it at none."""
    return largest_legal(active.trainer, len(active.nodes))


def requested(trainer: Trainer) -> int:
    """What its user would ask an ordinary queue for; its largest size where nobody said, 0 where it has none."""
    return trainer.requested_nodes or max(sizes_of(trainer), default=0)


def remaining(active: Active, policy: str) -> float:
    """Samples left; a trainer of unknown length should have been refused at the gate (Need.LENGTH)."""
    left = active.remaining_samples
    if left is None:
        raise InvalidValueError(f"trainer {active.trainer.id}: policy {policy} needs its samples_total")
    return left
