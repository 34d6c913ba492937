"""What a pilot shows the other pilots: the nodes that it has, and those that it wants."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

Key = tuple[str, str]
"""A pilot: its user and its name."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pilot shows the others about the nodes that its trainers could use.

    ``is_short``: it lacks nodes and finds none idle. ``least``: its smallest trainer's minimum.
    """

    wants: int
    is_short: bool = False
    least: int = 1


@dataclass(frozen=True, slots=True)
class Sharer:
    """A pilot in the split.

    ``wants``: nodes that its trainers could use; None if it does not say (it keeps what it holds).
    ``holds``: nodes that it has.
    ``is_short``: it finds no idle node.
    ``nodes``: those of this pilot's nodes that its host list allows; None allows any.
    ``asks``: it has a pending holder.
    ``least``: the smallest number of nodes that its trainers can use.
    ``weight``: of the user, 0 or more.
    """

    user: str
    pilot: str
    wants: int | None
    holds: int = 0
    is_short: bool = False
    nodes: frozenset[str] | None = None
    asks: bool = False
    least: int = 1
    weight: int = 1

    @property
    def key(self) -> Key:
        return self.user, self.pilot

    @property
    def demand(self) -> int:
        """The number of nodes that the pilot wants; one that does not say wants what it holds."""
        return self.holds if self.wants is None else self.wants

    def usable(self, idle: Collection[str]) -> Collection[str]:
        """Return the idle nodes that the pilot's host list allows."""
        return idle if self.nodes is None else self.nodes.intersection(idle)

    def takeable_count(self, idle: Collection[str]) -> int:
        """Count the idle nodes that the pilot could take; 0 if it says that it finds none."""
        return 0 if self.is_short else len(self.usable(idle))
