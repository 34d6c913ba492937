"""From what a scheduler shows at each poll to changes of the pool, without the nodes that are idle between two jobs.

A node between the end of one job and the start of the next is idle in just one record (paper 2.1): it is offered once it
was idle in two consecutive observations. It leaves at the first observation in which it is not idle. An observation that
failed shows nothing and changes nothing: unknown is neither idle nor busy.
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.domain.events import PoolChanged
from bftrainer.domain.state import Nodes


@dataclass(frozen=True, slots=True)
class DebounceState:
    """``offered`` nodes are in the pool; ``fresh`` ones were idle in the last observation only."""

    offered: Nodes = frozenset()
    fresh: Nodes = frozenset()


def debounce(seen: DebounceState, idle: Nodes | None) -> tuple[DebounceState, PoolChanged | None]:
    """One more observation: ``idle`` are the idle nodes it showed, or None if it failed."""
    if idle is None:
        return seen, None
    joined = (seen.fresh & idle) - seen.offered
    left = seen.offered - idle
    after = DebounceState(offered=(seen.offered - left) | joined, fresh=idle - seen.offered - joined)
    return after, PoolChanged(joined, left) if joined or left else None
