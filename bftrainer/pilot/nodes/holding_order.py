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
    """Return (name, partitions) of the idle nodes that no holder of ours has: a holder that is
    pending may never start. And of parts beside which GPUs are idle and no others are in use:
    without this pilot, their nodes would be idle.
    """
    ready = [h for h in kept if h.is_ready]
    held = {h.node for h in ready if not h.fragment.is_part}
    parts = [
        h
        for h in ready
        if h.fragment.is_part and h.ready_s is not None and h.ready_s < order.looked_s
    ]
    alone = [h for h in parts if order.in_use.get(h.node, math.inf) <= h.size]
    return (
        *((node, partitions) for node, partitions in order.idle if node not in held),
        *((h.name, order.partitions.get(h.node, frozenset())) for h in alone),
    )


def without_parts(order: OrderFacts, kept: Iterable[HeldFragment]) -> Partitions:
    """Return the partitions of which no part may be requested, since a node there is idle and not
    held.
    """
    return frozenset[str]().union(*(partitions for _, partitions in unheld(order, kept)))


def looked(before: UnheldNodes, order: OrderFacts, kept: Iterable[HeldFragment]) -> UnheldNodes:
    """Return the counts of looks after one more look; the same look counts once."""
    counts, adds = dict(before.looks), order.looked_s != before.looked_s
    looks = ((node, counts.get(node, 0) + adds) for node, _ in unheld(order, kept))
    return UnheldNodes(tuple(looks), order.looked_s)


def parts_to_end(
    order: OrderFacts, seen: UnheldNodes, kept: Iterable[HeldFragment], used: Nodes
) -> list[str]:
    """Return the parts that have to end since a node of their partitions stays idle: unused ones
    first, a look later the others. A part that alone keeps its node from being idle ends with the
    first.
    """
    late = _idle_partitions(order, seen, LOOKS)
    later = _idle_partitions(order, seen, LOOKS + 1)
    alone = {name for name, looks in seen.looks if looks >= LOOKS}
    ending = []
    for held in kept:
        if not held.fragment.is_part:
            continue
        partitions = order.partitions.get(held.node, frozenset())
        overdue = later if held.name in used else late
        if held.name in alone or not partitions.isdisjoint(overdue):
            ending.append(held.name)
    return ending


def _idle_partitions(order: OrderFacts, seen: UnheldNodes, least_looks: int) -> frozenset[str]:
    """Return the partitions of nodes that were idle and not held in ``least_looks`` looks or
    more.
    """
    partitions = dict(order.idle)
    return frozenset[str]().union(
        *(
            partitions[node]
            for node, looks in seen.looks
            if looks >= least_looks and node in partitions
        )
    )


def must_stay(order: OrderFacts, kept: Iterable[HeldFragment]) -> frozenset[str]:
    """Return the whole nodes that are kept although no trainer uses them, because parts of their
    partitions are held.
    """
    kept = tuple(kept)
    nowhere = frozenset[str]()
    beside = nowhere.union(
        *(order.partitions.get(h.node, nowhere) for h in kept if h.fragment.is_part)
    )
    return frozenset(
        h.name
        for h in kept
        if not h.fragment.is_part and not beside.isdisjoint(order.partitions.get(h.node, nowhere))
    )
