"""Which fragments trainers were given, and which they occupy. Derived from the trainers' states; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bftrainer.domain.state import Nodes
from bftrainer.domain.times import PilotS
from bftrainer.live.derived import Derived
from bftrainer.live.trainers.managed import ManagedTrainer
from bftrainer.live.trainers.steps import holds


@dataclass(frozen=True, slots=True)
class Union:
    """The union of sets. ``disjoint``: no two of them have a member in common."""

    nodes: Nodes = frozenset()
    disjoint: bool = True


def _union(sets: tuple[Nodes, ...]) -> Union:
    nodes = frozenset().union(*sets)
    return Union(nodes, len(nodes) == sum(map(len, sets)))


def _outside(nodes: Nodes, pool: Nodes) -> Nodes:
    return nodes - pool


class Occupancy:
    """Which fragments trainers were given, and which they occupy."""

    def __init__(self, trainers: Mapping[str, ManagedTrainer]) -> None:
        self._trainers = trainers
        self._held, self._desired, self._used = Derived(_union), Derived(_union), Derived(_union)
        self._outside = Derived(_outside)

    def holdings(self, now_s: PilotS) -> tuple[Nodes, ...]:
        """The fragments on which each trainer has processes."""
        every = (it.state for it in self._trainers.values())
        return tuple([it.ordered if it.view.alive and not it.leaving else holds(it, now_s) for it in every])

    def held(self, now_s: PilotS) -> Union:
        """Fragments on which trainers have processes."""
        return self._held(self.holdings(now_s))

    def desired(self) -> Nodes:
        """Fragments that the core gave to trainers."""
        return self._desired(tuple([it.state.desired for it in self._trainers.values()])).nodes

    def classes(self) -> tuple[str | None, ...]:
        """The class of each trainer's nodes; None while it has none."""
        every = (it.state for it in self._trainers.values())
        return tuple([it.desired_class if it.desired else None for it in every])

    def used(self, now_s: PilotS) -> Nodes:
        """Fragments that were given to trainers, or that trainers occupy."""
        return self._used((self.desired(), self.held(now_s).nodes)).nodes

    def keep_within(self, pool: Nodes) -> None:
        """Take from all trainers what is no longer in the pool."""
        if gone := self._outside(self.desired(), pool):
            for state in (it.state for it in self._trainers.values()):
                if not state.desired.isdisjoint(gone):
                    state.lost |= state.desired & gone
                    state.desired -= gone
