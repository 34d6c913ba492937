"""The demand of trainers that have left nodes unused. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemandCap:
    """The observation that a set of trainers left nodes of a class unused, although they could use
    them: it caps their demand.

    The policy left them unused because a curve falls, or a rescale does not pay: it knows better
    than the sum of ``max_nodes``. The ``trainers`` (their names, and what was learned of them) use
    ``nodes`` nodes. They had ``tried`` nodes then, idle ones included that were out of reach; with
    more, a trainer may run that needs more than were left. With fewer than ``nodes``, what pays is
    another question. ``demand`` is the number that they could use then; a trainer that waits before
    it is tried again could use none.
    """

    node_class: str
    trainers: frozenset[str]
    nodes: int
    tried: int
    demand: int

    def is_valid(self, trainers: frozenset[str], demand: int, held: int) -> bool:
        """Whether the cap still counts: same ``trainers``, no larger ``demand``, and ``held`` nodes
        are at least as many as those that they used.
        """
        return trainers == self.trainers and demand <= self.demand and held >= self.nodes
