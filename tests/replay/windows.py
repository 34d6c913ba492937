"""Small logs of idle nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bftrainer.domain.events import PoolChanged
from bftrainer_replay.logs.model import LogWindow, PoolEvent


def window(
    end_s: float, initial: Iterable[str], *flips: tuple[float, Iterable[str]], nodes: int = 8, **more: Any
) -> LogWindow:
    """From time 0 on. At each instant, of the nodes that it names, those that were not idle join and the others leave."""
    pool, events = frozenset(initial), []
    for at_s, names in flips:
        changed = frozenset(names)
        events.append(PoolEvent(at_s, PoolChanged(changed - pool, changed & pool)))
        pool ^= changed
    return LogWindow(0.0, end_s, frozenset(initial), tuple(events), nodes, "by hand", **more)
