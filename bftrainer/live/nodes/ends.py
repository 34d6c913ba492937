"""When fragments of the pool have to be given back: before the scheduler's plans, and before the time limits of holders. Pure.

A holder's time limit is in whole minutes, so it ends up to a minute before the window; and a site or a QOS may limit it to less
than any window. What the scheduler ends at the limit costs a trainer its work since the last commit, as a preemption does.
"""

from __future__ import annotations

from bftrainer.domain.state import Nodes
from bftrainer.live.nodes.fragments import HeldFragment

Ends = tuple[tuple[str, float], ...]
"""(fragment, seconds since 1970)."""

_NEAR_S = 3600.0
"""Ends of time limits that are further off matter to no decision; each event and its record would carry all of them."""


def planned_ends(pool: Nodes, held: tuple[HeldFragment, ...], ends: Ends, leave_before_s: float) -> Ends:
    """By (node, when its window ends). By then the node is idle again: the time that this takes (an Epilog) comes off."""
    if not ends:
        return ()
    of_node = dict(ends)
    found = ((h.name, of_node.get(h.node), leave_before_s + h.fragment.release_s) for h in held if h.name in pool)
    return tuple(sorted((name, end_s - before_s) for name, end_s, before_s in found if end_s is not None))


def limit_ends(pool: Nodes, held: tuple[HeldFragment, ...], before_s: float, now_s: float) -> Ends:
    """``before_s`` the time limits of holders, which are by the scheduler's clock."""
    found = ((h.name, h.fragment.ends_s) for h in held if h.name in pool)
    return tuple(
        (name, end_s - before_s) for name, end_s in found if end_s is not None and end_s - before_s < now_s + _NEAR_S
    )


def earliest(planned: Ends, limits: Ends) -> Ends:
    """The earlier one of each fragment."""
    if not planned or not limits:
        return planned or limits
    found = dict(planned)
    for name, end_s in limits:
        found[name] = min(end_s, found.get(name, end_s))
    return tuple(sorted(found.items()))
