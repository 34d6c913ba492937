"""Legal sizes of a trainer: all of them, the largest that fits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from bftrainer.decide.domain.model import Trainer


@lru_cache(maxsize=8192)
def sizes_of(
    trainer: Trainer, powers_of_two: bool = False, cap: int | None = None
) -> tuple[int, ...]:
    """Return the legal node counts of a trainer above 0, increasing: with ``powers_of_two`` only
    the powers of two, with ``cap`` none above it.
    """
    counts: Sequence[int] = range(trainer.min_nodes, trainer.max_nodes + 1)
    if trainer.sizes is not None:
        counts = trainer.sizes
    if powers_of_two:
        counts = [n for n in counts if n & (n - 1) == 0]  # a power of two has one bit
    return tuple(n for n in counts if n > 0 and (cap is None or n <= cap))


def largest_of(sizes: tuple[int, ...], nodes: int) -> int:
    """The largest of ``sizes`` within ``nodes``; 0 if there is none."""
    return max((n for n in sizes if n <= nodes), default=0)


def largest_legal(trainer: Trainer, nodes: int) -> int:
    """The largest legal size of a trainer within ``nodes``; 0 if even its smallest is too large."""
    if trainer.sizes is not None:
        return largest_of(trainer.sizes, nodes)
    return min(nodes, trainer.max_nodes) if nodes >= trainer.min_nodes else 0
