"""Ways to divide a pool: requested sizes, shares by weight, first fit in an order."""

from __future__ import annotations

from collections.abc import Sequence

from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.sizes import largest_legal, sizes_of
from bftrainer.decide.domain.state import State


def requested(trainer: Trainer) -> int:
    """Return the size that a trainer requests: ``requested_nodes``, or else its largest size; 0 if
    there is none.
    """
    return trainer.requested_nodes or max(sizes_of(trainer), default=0)


def first_fit(state: State, order: list[int]) -> tuple[int, ...]:
    """Return the nodes of each trainer: its requested size, given in this order, or 0.

    A trainer that does not fit the nodes still free gets none; later ones may fit.
    """
    free, counts = len(state.pool), [0] * len(state.active)
    for j in order:
        size = requested(state.active[j].trainer)
        if size <= free:
            counts[j], free = size, free - size
    return tuple(counts)


def by_weight(trainers: Sequence[Trainer], weights: Sequence[float], nodes: int) -> tuple[int, ...]:
    """Return ``nodes`` divided in proportion to ``weights`` into legal counts, one per trainer.

    Rounding is by the largest-remainder method: a trainer whose share exceeds its largest size gets
    that size, and the others share the rest. Nodes left by rounding go one by one to the largest
    remainder; ties go to the larger weight, then to the earlier trainer. Nodes left by illegal
    sizes go first to trainers whose smallest size exceeds their share, then to all others, the
    largest weight first.
    """
    shares = _within_largest(trainers, weights, nodes)
    order = sorted(range(len(trainers)), key=lambda j: (-(shares[j] % 1.0), -weights[j], j))
    whole = [int(share) for share in shares]
    for j in order[: max(min(round(sum(shares)), nodes) - sum(whole), 0)]:
        whole[j] += 1
    counts = [largest_legal(trainer, n) for trainer, n in zip(trainers, whole, strict=True)]
    left_over = nodes - sum(counts)
    by_rank = sorted(range(len(trainers)), key=lambda j: (-weights[j], j))
    # First those that rounding down to a legal size left without any node: they get their smallest
    # size (or, with a list of sizes, the largest that fits). Then everybody.
    for waiting in (True, False):
        for j in by_rank:
            if not waiting or counts[j] == 0:
                limit = counts[j] + left_over
                if waiting:
                    limit = min(
                        limit, trainers[j].min_nodes if trainers[j].sizes is None else limit
                    )
                more = largest_legal(trainers[j], limit)
                left_over -= more - counts[j]
                counts[j] = more
    return tuple(counts)


def _within_largest(
    trainers: Sequence[Trainer], weights: Sequence[float], nodes: int
) -> list[float]:
    """Return each trainer's share of ``nodes`` in proportion to its weight, as real numbers.

    No share is above the trainer's largest size: who reaches it gets exactly that, and what is left
    is divided among the others again, until nobody reaches it.
    """
    shares = [0.0] * len(trainers)
    undecided = [j for j in range(len(trainers)) if weights[j] > 0]
    left = float(nodes)
    while undecided and left > 0:
        nodes_per_weight = left / sum(weights[j] for j in undecided)
        full = [j for j in undecided if weights[j] * nodes_per_weight >= trainers[j].max_nodes]
        if not full:
            for j in undecided:
                shares[j] = weights[j] * nodes_per_weight
            break
        for j in full:
            shares[j] = float(trainers[j].max_nodes)
            left -= trainers[j].max_nodes
        undecided = [j for j in undecided if j not in full]
    return shares
