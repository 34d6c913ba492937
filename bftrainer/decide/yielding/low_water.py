"""The low-water mark: how many nodes were idle or held at every look of the last while. Pure.

A reserve that sizes itself. Where nodes come and go, some of them stay idle for the next main job;
on a quiet night none does.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LowWater:
    """The low-water mark of one class of nodes.

    ``looks``: (time, nodes), both rising, of the looks that are, or may yet become, the lowest of
    the last while. A look with as many nodes as a later one, or more, cannot.
    """

    looks: tuple[tuple[float, int], ...] = ()

    def after_look(self, nodes: int, at_s: float, window_s: float) -> LowWater:
        """Return the mark after a look at ``at_s`` at which ``nodes`` nodes were idle or held;
        looks older than ``window_s`` no longer count.
        """
        rising = [look for look in self.looks if look[0] >= at_s - window_s and look[1] < nodes]
        return LowWater((*rising, (at_s, nodes)))

    @property
    def nodes(self) -> int | None:
        """The mark; None before the first look."""
        return self.looks[0][1] if self.looks else None
