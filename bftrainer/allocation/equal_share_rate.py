"""How fast a trainer would be with an equal share of the pool: the yardstick of the objective ``relative-speed``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from bftrainer.domain.model import Trainer
from bftrainer.domain.sizes import sizes_of


def equal_share(trainers: Sequence[Trainer], pool_size: int) -> float:
    """Nodes per trainer; what a trainer cannot use because of its largest size is shared by the others."""
    left, waiting = float(pool_size), len(trainers)
    for largest in sorted(trainer.max_nodes for trainer in trainers):
        if largest * waiting >= left:
            return left / waiting
        left, waiting = left - largest, waiting - 1
    return float(pool_size)


def equal_share_rate(trainer: Trainer, share: float) -> float:
    """Samples per second of a trainer that has ``share`` nodes on average: the upper concave envelope of O_j, from (0, 0).

    A share between two sizes, or below the smallest, is reached in turns of larger and smaller sizes. Therefore a single bad
    point of a curve, such as one node that thrashes, does not make the other points look fast: n nodes are never worth more
    than max(1, n / share) times the share.
    """
    nodes, per_s = _corners(trainer)
    i = bisect_right(nodes, share)
    if i == len(nodes):
        return per_s[-1]
    return per_s[i - 1] + (per_s[i] - per_s[i - 1]) * (share - nodes[i - 1]) / (nodes[i] - nodes[i - 1])


def _points(trainer: Trainer) -> tuple[int, ...]:
    """The sizes among which the envelope's corners are: the listed ones, or the curve's breakpoints within the bounds."""
    if trainer.sizes is not None:
        return sizes_of(trainer)
    low, high = trainer.min_nodes, trainer.max_nodes
    return tuple(sorted({low, high, *(n for n in trainer.curve.nodes if low < n < high)}))


@lru_cache(maxsize=8192)
def _corners(trainer: Trainer) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The corners of the envelope, rising from (0, 0)."""
    nodes, per_s = [0], [0.0]
    for n in _points(trainer):
        rate = trainer.curve.at(n)
        if rate <= per_s[-1]:
            continue
        while len(nodes) > 1 and _below(nodes[-2], per_s[-2], nodes[-1], per_s[-1], n, rate):
            nodes.pop()
            per_s.pop()
        nodes.append(n)
        per_s.append(rate)
    return tuple(nodes), tuple(per_s)


def _below(n0: int, rate0: float, n1: int, rate1: float, n2: int, rate2: float) -> bool:
    """Whether the middle point is on or below the line between the others."""
    return (rate1 - rate0) * (n2 - n0) <= (rate2 - rate0) * (n1 - n0)
