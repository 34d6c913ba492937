"""Known window ends: growth that cannot pay off before the windows of its nodes end is dropped from
a placement.

Growing from w to n nodes costs the stall R_up now and, when the window ends, the stall R_dw of the
forced shrink. With the first end L seconds from now, growth pays off if

    O(n) * (L - R_up - R_dw)  >  O(w) * (L - R_w)

where w is the count without the nodes that end: the nodes held now (R_w = 0), or more if the
trainer grows anyway (R_w = R_up).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bftrainer.decide.allocation.placement import Nodes, in_name_order
from bftrainer.decide.domain.model import Trainer, rates


def lasts_s(pool: Nodes, window_ends: Sequence[tuple[str, float]], now_s: float) -> float:
    """Return the seconds until the last known window end of the pool; infinite while a node has
    none.
    """
    if not pool or len(window_ends) < len(pool):
        return math.inf
    return max(max(at_s for _, at_s in window_ends) - now_s, 0.0)


def drop_unprofitable_growth(
    trainers: Sequence[Trainer],
    held: Sequence[Nodes],
    placed: Sequence[Nodes],
    left_s: Mapping[str, float],
) -> tuple[Nodes, ...]:
    """Return the placement without growth that cannot pay off before the windows of its nodes end.

    ``left_s`` has the seconds left of windows with known ends. A trainer that was to shrink for
    growth that is dropped keeps its nodes. Sets stay nested and legal.
    """
    after = [
        _cut(trainer, before, planned, left_s)
        for trainer, before, planned in zip(trainers, held, placed, strict=True)
    ]
    dropped: Nodes = frozenset().union(
        *(planned - kept for planned, kept in zip(placed, after, strict=True))
    )
    for j, (trainer, before) in enumerate(zip(trainers, held, strict=True)):
        given = before - after[j]
        if given and given <= dropped and trainer.is_legal(len(before)):
            after[j] = before
            dropped -= given
    return tuple(after)


def _cut(trainer: Trainer, held: Nodes, placed: Nodes, left_s: Mapping[str, float]) -> Nodes:
    """Return the placed nodes of one trainer without new ones whose windows end too soon to pay
    off.

    Of the new nodes with a known end, the k that last longest are kept, with the largest k that
    pays.
    """
    ending = sorted((n for n in placed - held if n in left_s), key=lambda n: (-left_s[n], n))
    if not ending:
        return placed
    sure = placed.difference(ending)
    if not trainer.is_legal(len(sure)):
        sure = _legal(trainer, held, sure)
    for k in range(len(ending), 0, -1):
        new = (placed - frozenset(ending)) | frozenset(ending[:k])
        if trainer.is_legal(len(new)) and _pays(
            trainer, len(held), len(sure), len(new), left_s[ending[k - 1]]
        ):
            return new
    return sure


def _pays(trainer: Trainer, held: int, sure: int, n: int, left_s: float) -> bool:
    """Whether growth to ``n`` nodes pays off within ``left_s``, by the module's inequality with
    ``sure`` as w.
    """
    rate = rates(trainer)
    without = left_s - (trainer.growth_s if sure > held else 0.0)
    return rate[n] * (left_s - trainer.growth_s - trainer.scale_down_s) > rate[sure] * max(
        without, 0.0
    )


def _legal(trainer: Trainer, held: Nodes, sure: Nodes) -> Nodes:
    """Return the largest legal set between ``held`` and ``sure``.

    If there is none, it is the largest legal subset of ``held``.
    """
    more = in_name_order(sure - held)
    for n in range(len(more), -1, -1):
        if trainer.is_legal(len(held) + n):
            return held | frozenset(more[:n])
    kept = in_name_order(held)
    return next(frozenset(kept[:n]) for n in range(len(kept), -1, -1) if trainer.is_legal(n))
