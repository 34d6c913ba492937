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


def lifetime_s(pool: Nodes, window_ends: Sequence[tuple[str, float]], now_s: float) -> float:
    """Return the seconds until the last backfill window of the pool ends: until no node of it is
    expected to be idle any more.

    Infinite while the end of any node is unknown, or the pool is empty. ``window_ends`` has (node,
    time in s) for each node of the pool with a known end; ``now_s`` is the present time.
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
    """Return the node sets of the trainers without growth that cannot pay off before the windows of
    its nodes end.

    ``held`` are the present nodes of the trainers, and ``placed`` those that were decided.
    ``left_s`` has the seconds left of windows with known ends, by node. A trainer that was to
    shrink for growth that is dropped keeps its nodes. Old and new set of each trainer stay nested
    (Eqn 6), and all sizes legal.
    """
    after = [
        _without_short_windows(trainer, before, planned, left_s)
        for trainer, before, planned in zip(trainers, held, placed, strict=True)
    ]
    dropped: Nodes = frozenset().union(
        *(planned - kept for planned, kept in zip(placed, after, strict=True))
    )
    for j, (trainer, before) in enumerate(zip(trainers, held, strict=True)):
        released = before - after[j]
        # All nodes that this trainer was to give up were meant for growth that is dropped, so
        # nobody needs them.
        if released and released <= dropped and trainer.is_legal(len(before)):
            after[j] = before
            dropped -= released
    return tuple(after)


def _without_short_windows(
    trainer: Trainer, held: Nodes, placed: Nodes, left_s: Mapping[str, float]
) -> Nodes:
    """Return the ``placed`` nodes of one trainer without new ones whose windows end too soon to pay
    off.

    Of the new nodes with a known end, the k that last longest are kept, with the largest k that
    pays off. ``held`` are its present nodes, ``left_s`` the seconds left of each known window.
    """
    ending = sorted((n for n in placed - held if n in left_s), key=lambda n: (-left_s[n], n))
    if not ending:
        return placed
    # What the trainer has without any of these nodes; if that is no legal size, the nearest one
    # that is.
    lasting = placed.difference(ending)
    fallback = lasting
    if not trainer.is_legal(len(lasting)):
        fallback = _largest_legal_set(trainer, held, lasting)
    for k in range(len(ending), 0, -1):
        candidate = lasting | frozenset(ending[:k])
        first_end_s = left_s[ending[k - 1]]
        if trainer.is_legal(len(candidate)) and _pays_off(
            trainer, len(held), len(fallback), len(candidate), first_end_s
        ):
            return candidate
    return fallback


def _pays_off(trainer: Trainer, held: int, fallback: int, n: int, left_s: float) -> bool:
    """Whether growth from ``held`` to ``n`` nodes makes more samples within ``left_s`` seconds than
    ``fallback`` nodes do: the module's inequality, with ``fallback`` as w.
    """
    rate = rates(trainer)
    trained_s = left_s - trainer.growth_s - trainer.scale_down_s
    fallback_s = left_s - (trainer.growth_s if fallback > held else 0.0)
    return rate[n] * trained_s > rate[fallback] * max(fallback_s, 0.0)


def _largest_legal_set(trainer: Trainer, held: Nodes, lasting: Nodes) -> Nodes:
    """Return the largest set of legal size between the present nodes ``held`` and their superset
    ``lasting``.

    If there is none, it is the largest subset of ``held`` with a legal size (0 is one).
    """
    more = in_name_order(lasting - held)
    for n in range(len(more), -1, -1):
        if trainer.is_legal(len(held) + n):
            return held | frozenset(more[:n])
    names = in_name_order(held)
    return next(frozenset(names[:n]) for n in range(len(names), -1, -1) if trainer.is_legal(n))
