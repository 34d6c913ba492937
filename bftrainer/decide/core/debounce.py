"""Turns the idle nodes of each poll into changes of the pool, ignoring nodes that are idle only
between two jobs.

A node between the end of one job and the start of the next appears idle in a single observation
(paper, section 2.1), so a node is offered only after it was idle in all observations of
``confirm_s``. It leaves at the first observation in which it is not idle. A failed observation
changes nothing, because it does not show whether a node is idle or busy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bftrainer.decide.domain.events import PoolChanged
from bftrainer.decide.domain.state import Nodes


@dataclass(frozen=True, slots=True)
class DebounceState:
    """Which idle nodes have been seen, and for how long.

    ``offered`` nodes are in the pool; ``fresh`` nodes have been idle in every observation since a
    time, but not for long.
    """

    offered: Nodes = frozenset()
    fresh: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


def debounce(
    seen: DebounceState, idle: Nodes | None, at_s: float, confirm_s: float
) -> tuple[DebounceState, PoolChanged | None]:
    """Apply one observation of the scheduler at ``at_s``; return the new state, and the change of
    the pool that it confirms.

    ``idle`` are its idle nodes, or None if it failed.
    """
    if idle is None:
        return seen, None
    since = {node: seen.fresh.get(node, at_s) for node in idle - seen.offered}
    joined = Nodes(node for node, since_s in since.items() if at_s - since_s >= confirm_s)
    left = seen.offered - idle
    fresh = {node: since_s for node, since_s in since.items() if node not in joined}
    after = DebounceState((seen.offered - left) | joined, MappingProxyType(fresh))
    return after, PoolChanged(joined, left) if joined or left else None
