"""Idle nodes that are left to the site's power saving. Pure.

A pilot that holds every idle node keeps all of them awake. So it leaves ``nodes.leave_for_power_saving`` nodes idle or powered
down: those that it left before, because a node is powered down only after it has been idle for a while (Slurm's SuspendTime).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def left_idle(idle: Sequence[str], asleep: Iterable[str], keep: int, left_before: Iterable[str]) -> tuple[str, ...]:
    """Which of the ``idle`` nodes, the most useful ones first, are not requested.

    ``asleep`` are those of them that are powered down; they are left before any other.
    """
    if keep <= 0:
        return ()
    sleeping, before = frozenset(asleep), frozenset(left_before)
    ranks = {name: rank for rank, name in enumerate(idle)}
    order = sorted(idle, key=lambda name: (name not in sleeping, name not in before, -ranks[name]))
    return tuple(sorted(order[:keep]))
