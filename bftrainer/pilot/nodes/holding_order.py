"""The order in which GPUs are held and released, so that main-queue jobs land where they would land
without a pilot. Pure.

Slurm preempts nothing while anything else is idle. With a part held and an idle node left, a main
job of one GPU takes the idle node, and a later job of a whole node waits (22.05.8 and 26.05.5). So
whole idle nodes are held first. No part of a partition is requested while an idle node of that
partition is not held, for whatever reason: it is excluded, backed off, left for power saving, above
a limit, or its holder has not started. Release goes in the reverse order: a node that becomes idle
and is not held within two looks ends the parts of its partitions, unused ones first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bftrainer.decide.domain.state import Nodes
from bftrainer.pilot.nodes.held_fragments import HeldFragment

LOOKS = 2
Partitions = frozenset[str]


@dataclass(frozen=True, slots=True)
class OrderFacts:
    """A look at ``looked_s``: the ``idle`` nodes with GPUs, each with its partitions, and the
    partitions of all nodes.

    ``in_use``: of nodes beside whose jobs a holder could have GPUs, those that jobs have, our
    holders among them.
    """

    idle: tuple[tuple[str, Partitions], ...] = ()
    in_use: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    partitions: Mapping[str, Partitions] = field(default_factory=lambda: MappingProxyType({}))
    looked_s: float = 0.0


@dataclass(frozen=True, slots=True)
class UnheldNodes:
    """In how many looks in a row, up to the one at ``looked_s``, nodes were idle and not held, or
    only by a part.
    """

    looks: tuple[tuple[str, int], ...] = ()
    looked_s: float = 0.0


def unheld(order: OrderFacts, kept: Iterable[HeldFragment]) -> tuple[tuple[str, Partitions], ...]:
    """Return (name, partitions) of what is idle, or would be idle without this pilot, and is not
    held as a whole node. ``kept``: the fragments that the decision does not give back.

    - Idle nodes without a holder of ours that is ready: a pending holder may never start.
    - Parts (by the name of the fragment) beside which GPUs are idle and no others are in use.
      Parts that became ready after the look are not counted: the look may not show them in use.
    """
    ready = [held_fragment for held_fragment in kept if held_fragment.is_ready]
    held_nodes = {
        held_fragment.node for held_fragment in ready if not held_fragment.fragment.is_part
    }
    parts = [
        held_fragment
        for held_fragment in ready
        if held_fragment.fragment.is_part
        and held_fragment.ready_s is not None
        and held_fragment.ready_s < order.looked_s
    ]
    # Of the node's GPUs, none are in use but those of the part.
    alone = [part for part in parts if order.in_use.get(part.node, math.inf) <= part.size]
    return (
        *((node, partitions) for node, partitions in order.idle if node not in held_nodes),
        *((h.name, order.partitions.get(h.node, frozenset())) for h in alone),
    )


def barred_partitions(order: OrderFacts, kept: Iterable[HeldFragment]) -> Partitions:
    """Return the partitions of which no part may be requested, since a node there is idle and not
    held.
    """
    return frozenset[str]().union(*(partitions for _, partitions in unheld(order, kept)))


def after_look(before: UnheldNodes, order: OrderFacts, kept: Iterable[HeldFragment]) -> UnheldNodes:
    """Return the counts of looks after the look ``order``; the same look counts once. A node that
    is not idle any more, or is held, loses its count.
    """
    counts = dict(before.looks)
    increment = 0 if order.looked_s == before.looked_s else 1
    looks = ((node, counts.get(node, 0) + increment) for node, _ in unheld(order, kept))
    return UnheldNodes(tuple(looks), order.looked_s)


def parts_to_end(
    order: OrderFacts, idle_looks: UnheldNodes, kept: Iterable[HeldFragment], used: Nodes
) -> list[str]:
    """Return the parts that have to end since a node of their partitions stays idle: those that no
    trainer uses after :data:`LOOKS` looks, the ``used`` ones a look later. A part that alone keeps
    its node from being idle ends after :data:`LOOKS` looks in any case.
    """
    idle_partitions = _idle_partitions(order, idle_looks, LOOKS)
    long_idle_partitions = _idle_partitions(order, idle_looks, LOOKS + 1)
    alone = {name for name, looks in idle_looks.looks if looks >= LOOKS}
    ending = []
    for held in kept:
        if not held.fragment.is_part:
            continue
        partitions = order.partitions.get(held.node, frozenset())
        overdue = long_idle_partitions if held.name in used else idle_partitions
        if held.name in alone or not partitions.isdisjoint(overdue):
            ending.append(held.name)
    return ending


def _idle_partitions(
    order: OrderFacts, idle_looks: UnheldNodes, least_looks: int
) -> frozenset[str]:
    """Return the partitions of nodes that were idle and not held in ``least_looks`` looks or
    more.
    """
    partitions = dict(order.idle)
    return frozenset[str]().union(
        *(
            partitions[node]
            for node, looks in idle_looks.looks
            if looks >= least_looks and node in partitions
        )
    )


def needed_by_parts(order: OrderFacts, kept: Iterable[HeldFragment]) -> frozenset[str]:
    """Return the whole nodes that must be kept, although no trainer may use them, because parts of
    nodes in the same partitions are held.
    """
    kept = tuple(kept)
    nowhere: Partitions = frozenset()
    part_partitions = nowhere.union(
        *(
            order.partitions.get(held_fragment.node, nowhere)
            for held_fragment in kept
            if held_fragment.fragment.is_part
        )
    )
    return frozenset(
        held_fragment.name
        for held_fragment in kept
        if not held_fragment.fragment.is_part
        and not part_partitions.isdisjoint(order.partitions.get(held_fragment.node, nowhere))
    )
