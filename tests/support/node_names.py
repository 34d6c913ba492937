"""Sets of nodes a, b, c, ... by their size."""

from __future__ import annotations

from bftrainer.decide.domain.state import Nodes


def first(n: int) -> Nodes:
    """The first ``n`` nodes."""
    return frozenset("abcdefgh"[:n])


def last(nodes: Nodes, n: int) -> Nodes:
    """The last ``n`` of these nodes."""
    return frozenset(sorted(nodes)[-n:])
