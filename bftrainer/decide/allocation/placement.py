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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice
from operator import is_
from types import MappingProxyType

from bftrainer.counted import counted
from bftrainer.errors import RejectedAnswerError
from bftrainer.fragment_names import is_fragment_name
from bftrainer.slots import Grain, slot_of

Nodes = frozenset[str]
NEVER: Mapping[str, float] = MappingProxyType({})
_DIGITS = re.compile(r"\d+")
_WIDTH = 20
_RESORT_PART = 8
"""A pool is sorted again if more than one in this many of its nodes has changed, or is free."""


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

    ``held`` are the old sets, within ``pool``, and ``counts`` the new sizes. A set that is as large
    as its count is returned as the same object.

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
            # Each sort is stable: the criterion of the last one comes first.
            keeping_order = in_name_order(nodes)
            if divides_nodes:
                keeping_order = _last_released_first(keeping_order)
            keeping_order = _lasting_first(keeping_order, ends)
            if starting and starting[j]:
                keeping_order.sort(key=starting[j].__contains__)
            placed[j] = frozenset(keeping_order[:count])
    # Shrinking trainers came first: growing ones may take the nodes that they give up.
    growing = [
        j for j, (nodes, count) in enumerate(zip(held, counts, strict=True)) if count > len(nodes)
    ]
    if growing and divides_nodes:
        _grow_by_slots(pool, placed, counts, growing, ends)
    elif growing:
        free = _in_taking_order(pool, placed, ends, order or NameOrder())
        for j in growing:
            # free is one iterator: each trainer takes the nodes that follow those of the one
            # before.
            placed[j] = held[j].union(islice(free, counts[j] - len(held[j])))
    return tuple(placed)


def check_placement(
    pool: Nodes, held: Sequence[Nodes], counts: Sequence[int], placed: Sequence[Nodes]
) -> None:
    """Check that each node has one trainer and is in the pool (Eqn 5), and that the old and the new
    set of each trainer are nested (Eqn 6), so that no trainer moves.

    Raises :class:`RejectedAnswerError`. ``held`` are the old sets, ``counts`` the sizes that were
    decided, and ``placed`` the new sets. The old sets satisfy both equations already: where all of
    ``placed`` are the same objects, only the counts are checked.
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
    """Add to ``placed`` the slots (single GPUs of nodes) that growing trainers still need to reach
    ``counts``; ``growing`` are their indices.

    ``ends`` are known window ends: when main jobs are expected on a node. All slots whose window
    ends last are handed out before any that ends earlier.
    """
    taken: Nodes = frozenset().union(*placed)
    lasting = _lasting_first(in_name_order(pool - taken), ends)
    # One group per window end, the latest first; slots without a known end come first of all.
    for _, free in groupby(lasting, key=lambda slot: ends.get(slot, math.inf)):
        needs = {j: counts[j] - len(placed[j]) for j in growing}
        present = {j: placed[j] for j in growing}
        for j, slots in _chosen_slots(free, needs, present).items():
            placed[j] = placed[j].union(slots)


def _part_of(slot: str) -> str:
    """Return the part that a slot belongs to: the held GPUs of one node."""
    return slot_of(slot).fragment


def _last_released_first(held: Sequence[str]) -> list[str]:
    """Return the slots of one trainer in the order in which it keeps them: those that it releases
    first come last.

    These are the slots on nodes where it has the fewest, so that it ends up on fewer nodes.
    """
    slot_count = Counter(map(_part_of, held))
    return sorted(held, key=lambda slot: -slot_count[_part_of(slot)])


def _chosen_slots(
    free: Iterable[str], needs: Mapping[int, int], present: Mapping[int, Iterable[str]]
) -> dict[int, list[str]]:
    """Return which of the ``free`` slots each growing trainer takes, by its index.

    ``needs`` has the number of further slots of each trainer, ``present`` the slots that it has,
    none of which is free. A trainer gets fewer if not enough are free. A part is the free slots on
    one node.

    All trainers take slots beside their own first. Then each takes the largest part that it fills,
    as long as there is one, and the smallest part that has its rest (best fit): for one trainer,
    the fewest parts possible. The order of ``free`` decides ties. Cost: O(f log f) for f free
    slots.
    """
    parts: dict[str, list[str]] = {}
    for slot in free:
        parts.setdefault(_part_of(slot), []).append(slot)
    chosen: dict[int, list[str]] = {j: [] for j in needs}

    def choose_from(part: str, j: int) -> None:
        """Move slots of a part to trainer ``j``: all that it still needs, or the whole part."""
        count = needs[j] - len(chosen[j])
        chosen[j] += parts[part][:count]
        parts[part] = parts[part][count:]

    for j in needs:
        beside = {_part_of(slot) for slot in present[j]} & parts.keys()
        for part in sorted(beside, key=lambda part: (len(parts[part]), part)):
            choose_from(part, j)
    by_size = sorted((part for part in parts if parts[part]), key=lambda part: len(parts[part]))
    sizes = [len(parts[part]) for part in by_size]
    for j in needs:
        while by_size and len(chosen[j]) < needs[j]:
            # The smallest part that covers the rest; where none does, the first of the largest.
            index = bisect_left(sizes, needs[j] - len(chosen[j]))
            if index == len(sizes):
                index = bisect_left(sizes, sizes[-1])
            part = by_size.pop(index)
            del sizes[index]
            choose_from(part, j)
            # What is left of the part goes back to its place in the sorted lists.
            if slots_left := len(parts[part]):
                index = bisect_left(sizes, slots_left)
                by_size.insert(index, part)
                sizes.insert(index, slots_left)
    return chosen


def _in_taking_order(
    pool: Nodes, placed: Sequence[Nodes], ends: Mapping[str, float], order: NameOrder
) -> Iterator[str]:
    """Return the free nodes of the pool in the order in which growing trainers take them: the
    latest window end first, then by name.

    ``placed`` are the nodes that trainers keep. If many are free, they are filtered from ``order``,
    which keeps the names sorted, instead of being sorted at every event.
    """
    taken: Nodes = frozenset().union(*placed)
    # order has names only, no window ends; and few free nodes are sorted faster than a large pool
    # is filtered.
    if ends or _RESORT_PART * (len(pool) - len(taken)) < len(pool):
        return iter(_lasting_first(in_name_order(pool - taken), ends))
    return (node for node in order.names_of(pool) if node not in taken)


class NameOrder:
    """Keeps the last pool in name order, so that a large pool is not sorted at every event.

    The order of the next pool follows from the nodes that joined and left.
    """

    def __init__(self) -> None:
        self._pool: Nodes = frozenset()
        self._names: list[str] = []  # those of _pool, in name order

    def names_of(self, pool: Nodes) -> Sequence[str]:
        """Return the pool in name order, as :func:`in_name_order` does."""
        previous, names = self._pool, self._names
        if pool is previous:
            return names
        left, joined = previous - pool, pool - previous
        # Inserting many names one by one would take longer than sorting all.
        if _RESORT_PART * (len(left) + len(joined)) > len(pool):
            names = in_name_order(pool)
        else:
            names = names.copy()  # a caller may still iterate over the old list
            for name in left:
                key_of = _key_cache(name)
                del names[bisect_left(names, key_of(name), key=key_of)]
            for name in joined:
                insort(names, name, key=_key_cache(name))
        self._pool, self._names = pool, names
        return names


def _lasting_first(nodes: list[str], ends: Mapping[str, float]) -> list[str]:
    """Return the nodes with the latest window end first, else in the given order; the same list
    without ``ends``. A node without a known end counts as the latest.
    """
    return sorted(nodes, key=lambda node: -ends.get(node, math.inf)) if ends else nodes


def in_name_order(nodes: Iterable[str]) -> list[str]:
    """Node names in numeric order: n2 before n10."""
    names = list(nodes)
    if names:
        names.sort(key=_key_cache(names[0]))
    return names


def _name_key(name: str) -> str:
    """Return the sort key of a node name: with zero-padded numbers, so that text sorts like numbers
    ("n2" before "n10").

    The name itself is at its end, since 01 and 1 would be equal.
    """
    return _DIGITS.sub(lambda digits: digits[0].zfill(_WIDTH), name) + "\0" + name


# The nodes of a log return, all of them: a cache that holds fewer than the cluster has is of no
# use. A pilot never sees a fragment again once it has left.
_node_keys = lru_cache(maxsize=1 << 18)(_name_key)
_fragment_keys = lru_cache(maxsize=1 << 16)(_name_key)


def _key_cache(name: str) -> Callable[[str], str]:
    """Return the cache of :func:`_name_key` for names like this one. Both give the same keys."""
    return _fragment_keys if is_fragment_name(name) else _node_keys
