"""The demand of trainers that have left nodes unused. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemandCap:
    """The number of nodes of a class that a set of trainers uses, because they left more nodes
    unused although they could use them.

    (A curve that falls, or a rescale that does not pay: the policy knows better than the sum of
    ``max_nodes``.) They had ``tried`` nodes then, idle ones included that were out of reach. With
    more, a trainer may run that needs more than were left; with fewer than ``nodes``, what pays is
    another question. ``trainers``: their names, and what was learned of them. ``demand``: as many
    as they could use then; a trainer that waits before it is tried again could use none.
    """

    node_class: str
    trainers: frozenset[str]
    nodes: int
    tried: int
    demand: int

    def counts(self, trainers: frozenset[str], demand: int, held: int) -> bool:
        """Whether the cap still counts: same trainers, no larger demand, at least as many nodes."""
        return trainers == self.trainers and demand <= self.demand and held >= self.nodes
