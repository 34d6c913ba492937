"""Equal shares of a pool."""

from __future__ import annotations

from collections.abc import Sequence

from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.sizes import largest_legal


def equal_shares(trainers: Sequence[Trainer], nodes: int) -> tuple[int, ...]:
    """Return the counts of trainers that share ``nodes`` nodes equally, within the bounds of each,
    in their order.

    Each gets the largest legal size within its share; the rest goes to the trainers in order, up to
    N_j^max.
    """
    if not trainers:
        return ()
    share = nodes // len(trainers)
    counts = [largest_legal(trainer, share) for trainer in trainers]
    rest = nodes - sum(counts)
    for j, trainer in enumerate(trainers):
        larger = largest_legal(trainer, counts[j] + rest)
        rest -= larger - counts[j]
        counts[j] = larger
    return tuple(counts)
