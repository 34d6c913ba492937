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
    """Which nodes are idle, and since when.

    ``offered`` nodes are in the pool; ``fresh`` nodes have been idle in every observation since the
    time given, but not for long.
    """

    offered: Nodes = frozenset()
    fresh: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


def debounce(
    state: DebounceState, idle: Nodes | None, at_s: float, confirm_s: float
) -> tuple[DebounceState, PoolChanged | None]:
    """Apply one observation of the scheduler at ``at_s``; return the new state, and the change of
    the pool that the observation confirms (None: no change).

    ``idle`` are the idle nodes of the observation, or None if it failed. A node joins once it was
    idle in all observations of ``confirm_s`` seconds; it leaves at the first in which it is not
    idle.
    """
    # A failed observation does not show which nodes are idle.
    if idle is None:
        return state, None
    idle_since = {node: state.fresh.get(node, at_s) for node in idle - state.offered}
    joined = Nodes(node for node, since_s in idle_since.items() if at_s - since_s >= confirm_s)
    left = state.offered - idle
    fresh = {node: since_s for node, since_s in idle_since.items() if node not in joined}
    new_state = DebounceState((state.offered - left) | joined, MappingProxyType(fresh))
    change = PoolChanged(joined, left) if joined or left else None
    return new_state, change
