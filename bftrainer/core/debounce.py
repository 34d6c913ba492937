"""Turns the idle nodes of each poll into changes of the pool, ignoring nodes that are idle only between two jobs.

A node between the end of one job and the start of the next appears idle in a single observation (paper, section 2.1), so a
node is offered only after it was idle in two consecutive observations. It leaves at the first observation in which it is not
idle. A failed observation changes nothing, because it does not show whether a node is idle or busy.
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.domain.events import PoolChanged
from bftrainer.domain.state import Nodes


@dataclass(frozen=True, slots=True)
class DebounceState:
    """``offered`` nodes are in the pool; ``fresh`` nodes were idle only in the last observation."""

    offered: Nodes = frozenset()
    fresh: Nodes = frozenset()


def debounce(seen: DebounceState, idle: Nodes | None) -> tuple[DebounceState, PoolChanged | None]:
    """Apply one observation: ``idle`` are its idle nodes, or None if it failed."""
    if idle is None:
        return seen, None
    joined = (seen.fresh & idle) - seen.offered
    left = seen.offered - idle
    after = DebounceState(offered=(seen.offered - left) | joined, fresh=idle - seen.offered - joined)
    return after, PoolChanged(joined, left) if joined or left else None
