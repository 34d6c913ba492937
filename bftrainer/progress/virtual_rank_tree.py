"""The binary tree along which the vectors of virtual ranks are added."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def virtual_ranks_of(count: int, rank: int, size: int) -> range:
    """Return the virtual ranks of a worker, of ``count`` in all: contiguous ones, at most one more
    than any other worker has.
    """
    least, rest = divmod(count, size)
    begin = least * rank + min(rank, rest)
    return range(begin, begin + least + (rank < rest))


def subtrees(ranks: range) -> list[range]:
    """Return the largest subtrees of the binary tree that cover contiguous virtual ranks, from left
    to right: range(3, 8) has the subtrees 3, and 4 to 7.
    """
    trees: list[range] = []
    begin = ranks.start
    while begin < ranks.stop:
        length = 1
        while begin % (2 * length) == 0 and begin + 2 * length <= ranks.stop:
            length *= 2
        trees.append(range(begin, begin + length))
        begin += length
    return trees


class TreeSum:
    """Sums of vectors along the binary tree; only the largest subtrees so far are held.

    Vectors come from left to right. Each is owned by this object: sums are made in place.
    """

    def __init__(self) -> None:
        self._trees: list[tuple[range, torch.Tensor]] = []

    def add(self, ranks: range, vector: torch.Tensor) -> None:
        """Add the sum of the vectors of a subtree."""
        while self._trees:
            left_ranks, left_sum = self._trees[-1]
            both = range(left_ranks.start, ranks.stop)
            if len(left_ranks) != len(ranks) or both.start % len(both):
                break
            self._trees.pop()
            ranks, vector = both, left_sum.add_(vector)
        self._trees.append((ranks, vector))

    def sums(self) -> list[torch.Tensor]:
        """Return the sums of the subtrees, from left to right."""
        return [vector for _, vector in self._trees]
