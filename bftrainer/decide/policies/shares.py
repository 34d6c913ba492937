"""Equal shares of a pool."""

from __future__ import annotations

from collections.abc import Sequence

from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.sizes import largest_legal


def equal_shares(trainers: Sequence[Trainer], nodes: int) -> tuple[int, ...]:
    """Return equal counts within the bounds of each trainer.

    The rest goes to the trainers in order, up to N_j^max.
    """
    if not trainers:
        return ()
    quota = nodes // len(trainers)
    counts = [largest_legal(trainer, quota) for trainer in trainers]
    rest = nodes - sum(counts)
    for j, trainer in enumerate(trainers):
        more = largest_legal(trainer, counts[j] + rest)
        rest -= more - counts[j]
        counts[j] = more
    return tuple(counts)
