"""The node counts at which a trainer may train, and the hosts that a driver uses of those present.

The pilot orders legal sizes only, but nodes are lost without an order. Until the pilot has decided,
the driver itself keeps to the sizes. Pure; all launchers ask it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from bftrainer.counted import counted
from bftrainer.wires.messages import TrainerMessage

HostT = TypeVar("HostT")


@dataclass(frozen=True, slots=True)
class LegalSizes:
    """The node counts at which a trainer may train: every count from ``min_nodes`` to ``max_nodes``
    (None: no bound), or with ``listed`` these only.
    """

    min_nodes: int = 1
    max_nodes: int | None = None
    listed: tuple[int, ...] | None = None

    @classmethod
    def of(cls, trainer: TrainerMessage) -> LegalSizes:
        """Return the legal sizes of a trainer, by its message."""
        if trainer.sizes is None:
            return cls(trainer.min_nodes, trainer.max_nodes)
        listed = tuple(size for size in trainer.sizes if size > 0)
        return cls(trainer.min_nodes, trainer.max_nodes, listed)

    @property
    def has_gaps(self) -> bool:
        """Whether some count between the smallest and the largest legal size is not legal."""
        return self.listed is not None and len(self.listed) <= self.listed[-1] - self.listed[0]

    @property
    def smallest(self) -> int:
        """The smallest legal size."""
        return self.min_nodes if self.listed is None else self.listed[0]

    def largest_within(self, count: int) -> int:
        """Return the largest legal size of at most ``count`` nodes; 0 if there is none."""
        if self.listed is not None:
            return max((size for size in self.listed if size <= count), default=0)
        if count < self.min_nodes:
            return 0
        return count if self.max_nodes is None else min(count, self.max_nodes)

    def allow(self, count: int) -> bool:
        """Whether a group may train on ``count`` nodes."""
        return count > 0 and self.largest_within(count) == count

    def shortage(self, count: int) -> str:
        """Say that ``count`` nodes are too few, for a driver's reason: ``2 nodes, but min_nodes is
        3``.
        """
        nodes = counted(count, "node")
        if self.listed is None:
            return f"{nodes}, but min_nodes is {self.min_nodes}"
        return f"{nodes}, but sizes is {list(self.listed)}"


ANY_SIZE = LegalSizes()


def used_hosts(
    present: Sequence[HostT], sizes: LegalSizes, preferred: Sequence[Sequence[HostT]] = ()
) -> list[HostT]:
    """Return the hosts of ``present`` that a trainer uses, in their order there: as many as the
    largest legal size allows.

    If not all are used, ``preferred`` ranks them: hosts of its first collection come before those
    of the second, and so on, and hosts of none come last. A group gives up nodes that it does not
    train on yet before others.
    """
    size = sizes.largest_within(len(present))
    if size == len(present):
        return list(present)

    def preference(index: int) -> int:
        for level, hosts in enumerate(preferred):
            if present[index] in hosts:
                return level
        return len(preferred)

    by_preference = sorted(range(len(present)), key=preference)  # stable: earlier hosts first
    return [present[index] for index in sorted(by_preference[:size])]
