"""From counts to node names: every planned rescale is nested (Eqn 6), and a trainer gets adjacent
nodes.

Eqn 6 allows no migration: a trainer that grows keeps its nodes, one that shrinks gets no new ones.
Its forms in Eqns 7 to 10 are for a solver; here old and new set are nested by construction.
Adjacent nodes tend to leave together (jobs take whole racks), so trainers on adjacent nodes are
preempted less often.

Where several slots (GPUs) are on one node, the second criterion is the sum of m_j, the number of
parts that each trainer is on: GPUs of one node exchange gradients faster. A part is the slots of
one holder on one node.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice
from operator import is_
from types import MappingProxyType

from bftrainer.counted import counted
from bftrainer.errors import RejectedAnswerError
from bftrainer.slots import Grain, slot_of

Nodes = frozenset[str]
NEVER: Mapping[str, float] = MappingProxyType({})
_DIGITS = re.compile(r"\d+")
_WIDTH = 20
_FEW = 8


def place(
    pool: Nodes,
    held: Sequence[Nodes],
    counts: Sequence[int],
    ends: Mapping[str, float] = NEVER,
    starting: Sequence[Nodes] = (),
    order: NameOrder | None = None,
    grain: Grain = Grain.NODE,
) -> tuple[Nodes, ...]:
    """Return new node sets, one per trainer: a superset of the old one where it grows, a subset
    where it shrinks.

    Shrinking trainers release the nodes that do not train yet (``starting``, one set per trainer),
    then their last nodes in name order; growing ones take the free nodes in name order, the first
    trainer first. Nodes with a known window end (``ends``, node -> time in s) are released first
    and taken last, the earliest end before others. Where the ``grain`` of the pool is a GPU, parts
    of nodes come before name order. Cost: O(f log f) for f free nodes; if they are many, O(nodes
    held) plus what changed in the pool since the last call with this ``order``.
    """
    placed = list(held)
    divides_nodes = grain.divides_nodes
    for j, (nodes, count) in enumerate(zip(held, counts, strict=True)):
        if count < len(nodes):
            kept = in_name_order(nodes)
            if divides_nodes:
                kept = _last_released_first(kept)
            kept = _lasting_first(kept, ends)
            if starting and starting[j]:
                kept.sort(key=starting[j].__contains__)
            placed[j] = frozenset(kept[:count])
    growing = [
        j for j, (nodes, count) in enumerate(zip(held, counts, strict=True)) if count > len(nodes)
    ]
    if growing and divides_nodes:
        _grow_by_slots(pool, placed, counts, growing, ends)
    elif growing:
        free = _in_taking_order(pool, placed, ends, order or NameOrder())
        for j in growing:
            placed[j] = held[j].union(islice(free, counts[j] - len(held[j])))
    return tuple(placed)


def check_placement(
    pool: Nodes, held: Sequence[Nodes], counts: Sequence[int], placed: Sequence[Nodes]
) -> None:
    """Check that each node has one trainer and is in the pool (Eqn 5), and that old and new sets
    are nested (Eqn 6).

    Raises :class:`RejectedAnswerError`. ``held`` satisfies both already: where no set is new, only
    the counts are checked.
    """
    for old, count, new in zip(held, counts, placed, strict=True):
        if len(new) != count:
            raise RejectedAnswerError(
                f"placed {counted(len(new), 'node')}, but {count} were decided"
            )
        if new is not old and not (new <= old or new >= old):
            raise RejectedAnswerError(
                f"a rescale moves a trainer from {sorted(old - new)[0]} to {sorted(new - old)[0]}"
            )
    if all(map(is_, placed, held)):
        return
    union: Nodes = frozenset().union(*placed)
    if len(union) != sum(counts):
        raise RejectedAnswerError("a node was allocated to two trainers")
    if not union <= pool:
        raise RejectedAnswerError(f"node {sorted(union - pool)[0]} is not in the pool")


def _grow_by_slots(
    pool: Nodes,
    placed: list[Nodes],
    counts: Sequence[int],
    growing: Sequence[int],
    ends: Mapping[str, float],
) -> None:
    """Add to ``placed`` the slots (GPUs of nodes) that the ``growing`` trainers still need.

    All slots whose window ends last are handed out before any that ends earlier.
    """
    taken: Nodes = frozenset().union(*placed)
    lasting = _lasting_first(in_name_order(pool - taken), ends)
    for _, free in groupby(lasting, key=lambda slot: ends.get(slot, math.inf)):
        wanted = {j: counts[j] - len(placed[j]) for j in growing}
        for j, slots in _take(free, wanted, {j: placed[j] for j in growing}).items():
            placed[j] = placed[j].union(slots)


def _part_of(slot: str) -> str:
    """Return the part that a slot belongs to: the held GPUs of one node."""
    return slot_of(slot).fragment


def _last_released_first(held: Sequence[str]) -> list[str]:
    """Sort a trainer's slots so that those it releases first come last: on the part where it has
    the fewest.
    """
    count = Counter(map(_part_of, held))
    return sorted(held, key=lambda slot: -count[_part_of(slot)])


def _take(
    free: Iterable[str], wanted: Mapping[int, int], own: Mapping[int, Iterable[str]]
) -> dict[int, list[str]]:
    """Choose slots of the ``free`` ones for each growing trainer (by number).

    ``wanted`` has the number of slots that each needs, ``own`` those that it has; no free slot is
    among them. All trainers take slots beside their own first. Then each takes the largest part
    that it fills, as long as there is one, and the smallest part that has its rest (best fit): for
    one trainer, the fewest parts possible. The order of ``free`` decides ties. Cost: O(f log f) for
    f free slots.
    """
    parts: dict[str, list[str]] = {}
    for slot in free:
        parts.setdefault(_part_of(slot), []).append(slot)
    taken: dict[int, list[str]] = {j: [] for j in wanted}

    def from_part(j: int, part: str) -> None:
        count = wanted[j] - len(taken[j])
        taken[j] += parts[part][:count]
        parts[part] = parts[part][count:]

    for j in wanted:
        beside = {_part_of(slot) for slot in own[j]} & parts.keys()
        for part in sorted(beside, key=lambda part: (len(parts[part]), part)):
            from_part(j, part)
    by_size = sorted((part for part in parts if parts[part]), key=lambda part: len(parts[part]))
    sizes = [len(parts[part]) for part in by_size]
    for j in wanted:
        while by_size and len(taken[j]) < wanted[j]:
            covers = bisect_left(sizes, wanted[j] - len(taken[j]))
            place = covers if covers < len(sizes) else bisect_left(sizes, sizes[-1])
            part = by_size.pop(place)
            del sizes[place]
            from_part(j, part)
            if rest := len(parts[part]):
                place = bisect_left(sizes, rest)
                by_size.insert(place, part)
                sizes.insert(place, rest)
    return taken


def _in_taking_order(
    pool: Nodes, placed: Sequence[Nodes], ends: Mapping[str, float], order: NameOrder
) -> Iterator[str]:
    """Return the free nodes in the order in which growing trainers take them.

    If many are free, they are filtered from ``order`` instead of being sorted at every event.
    """
    taken: Nodes = frozenset().union(*placed)
    if ends or _FEW * (len(pool) - len(taken)) < len(pool):
        return iter(_lasting_first(in_name_order(pool - taken), ends))
    return (node for node in order.of(pool) if node not in taken)


class NameOrder:
    """Keeps the last pool in name order, so that a large pool is not sorted at every event.

    The order of the next pool follows from the nodes that joined and left.
    """

    def __init__(self) -> None:
        self._last: tuple[Nodes, list[str]] = (frozenset(), [])

    def of(self, pool: Nodes) -> Sequence[str]:
        """Return the pool in name order, as :func:`in_name_order` does."""
        before, names = self._last
        if pool is before:
            return names
        left, joined = before - pool, pool - before
        if _FEW * (len(left) + len(joined)) > len(pool):
            names = in_name_order(pool)
        else:
            names = names.copy()
            for name in left:
                del names[bisect_left(names, _name_key(name), key=_name_key)]
            for name in joined:
                insort(names, name, key=_name_key)
        self._last = (pool, names)
        return names


def _lasting_first(nodes: list[str], ends: Mapping[str, float]) -> list[str]:
    return sorted(nodes, key=lambda node: -ends.get(node, math.inf)) if ends else nodes


def in_name_order(nodes: Iterable[str]) -> list[str]:
    """Node names in numeric order: n2 before n10."""
    return sorted(nodes, key=_name_key)


@lru_cache(maxsize=65536)
def _name_key(name: str) -> str:
    """Return the sort key of a node name: with zero-padded numbers, so that text sorts like numbers
    ("n2" before "n10").

    The name itself is at its end, since 01 and 1 would be equal.
    """
    return _DIGITS.sub(lambda digits: digits[0].zfill(_WIDTH), name) + "\0" + name
