"""Sets of nodes. The live pilot has names; a simulated cluster has tens of thousands of nodes that
differ only by their number, and a pilot looks at them a million times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, Self


class NodeSet(Protocol):
    """What the rule needs of a set of nodes. Two sets are of the same kind, or one is
    :data:`NO_NODES`.
    """

    def __and__(self, other: Self, /) -> Self: ...
    def __or__(self, other: Self, /) -> Self: ...
    def __sub__(self, other: Self, /) -> Self: ...
    def __le__(self, other: Self, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def __hash__(self) -> int: ...
    def union(self, *others: Self) -> Self: ...


NO_NODES: NodeSet = frozenset[str]()


class NumberedNodes:
    """A set of nodes that have numbers, as the bits of ``mask``."""

    __slots__ = ("mask",)

    def __init__(self, mask: int) -> None:
        self.mask = mask

    @classmethod
    def first_of_all(cls, count: int) -> NumberedNodes:
        """Return the nodes 0 to ``count`` - 1."""
        return cls((1 << count) - 1)

    def __and__(self, other: NodeSet) -> NumberedNodes:
        return NumberedNodes(self.mask & _mask_of(other))

    def __or__(self, other: NodeSet) -> NumberedNodes:
        return NumberedNodes(self.mask | _mask_of(other))

    def __sub__(self, other: NodeSet) -> NumberedNodes:
        return NumberedNodes(self.mask & ~_mask_of(other))

    __rand__, __ror__ = __and__, __or__

    def __rsub__(self, other: NodeSet) -> NumberedNodes:
        return NumberedNodes(_mask_of(other) & ~self.mask)

    def __le__(self, other: NodeSet) -> bool:
        return not self.mask & ~_mask_of(other)

    def __ge__(self, other: NodeSet) -> bool:
        return not _mask_of(other) & ~self.mask

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberedNodes):
            return self.mask == other.mask
        return other == NO_NODES and not self.mask

    def __hash__(self) -> int:
        return hash(self.mask)

    def __bool__(self) -> bool:
        return self.mask != 0

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __iter__(self) -> Iterator[str]:
        """Return the numbers, in order."""
        mask = self.mask
        while mask:
            lowest = mask & -mask
            yield str(lowest.bit_length() - 1)
            mask ^= lowest

    def __repr__(self) -> str:
        return f"NumberedNodes({', '.join(self)})"

    def union(self, *others: NodeSet) -> NumberedNodes:
        """Return the nodes of this set and of all others."""
        mask = self.mask
        for other in others:
            mask |= _mask_of(other)
        return NumberedNodes(mask)

    def first(self, count: int) -> NumberedNodes:
        """Return the ``count`` nodes of the lowest numbers, or all if there are no more."""
        if count >= len(self):
            return self
        low, high = 0, self.mask.bit_length()
        while low < high:
            middle = (low + high) // 2
            if (self.mask & ((1 << middle) - 1)).bit_count() >= count:
                high = middle
            else:
                low = middle + 1
        return NumberedNodes(self.mask & ((1 << low) - 1))


def _mask_of(nodes: NodeSet) -> int:
    if isinstance(nodes, NumberedNodes):
        return nodes.mask
    assert not nodes, "nodes with names and nodes with numbers"
    return 0


def first_nodes(nodes: NodeSet, count: int) -> NodeSet:
    """Return the first ``count`` nodes in the order of their names, the same ones in every pilot;
    all if there are no more.
    """
    if count <= 0:
        return NO_NODES
    if isinstance(nodes, NumberedNodes):
        return nodes.first(count)
    if count >= len(nodes):
        return nodes
    return frozenset(sorted(nodes)[:count])


def union_of(sets: Iterable[NodeSet]) -> NodeSet:
    """Return the nodes of all sets."""
    first, *others = [nodes for nodes in sets if nodes] or [NO_NODES]
    return first.union(*others) if others else first
