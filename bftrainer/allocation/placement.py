"""From counts to node names: every planned rescale is nested (Eqn 6), and a trainer's nodes lie together.

A node leaves with its neighbours (a job takes a rack, not a sample), so trainers that hold neighbours are hit less often.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from types import MappingProxyType

from bftrainer.errors import RejectedAnswerError

Nodes = frozenset[str]
NEVER: Mapping[str, float] = MappingProxyType({})
_DIGITS = re.compile(r"\d+")
_WIDTH = 20


def place(
    pool: Nodes, held: Sequence[Nodes], counts: Sequence[int], ends: Mapping[str, float] = NEVER
) -> tuple[Nodes, ...]:
    """New node sets, one per trainer: a superset of the old one where it grows, a subset where it shrinks.

    Shrinking trainers let go of their last nodes in name order; growing ones take the free nodes in name order, the
    first trainer first. Nodes whose backfill windows end (``ends``, in s) are let go first and taken last, the earliest end
    before others. Cost: O(free log free), free being the nodes that change hands.
    """
    placed = list(held)
    for j, (nodes, count) in enumerate(zip(held, counts, strict=True)):
        if count < len(nodes):
            placed[j] = frozenset(_lasting_first(in_name_order(nodes), ends)[:count])
    growing = [j for j, (nodes, count) in enumerate(zip(held, counts, strict=True)) if count > len(nodes)]
    if growing:
        free = iter(_lasting_first(in_name_order(pool.difference(*placed)), ends))
        for j in growing:
            placed[j] = held[j].union(islice(free, counts[j] - len(held[j])))
    return tuple(placed)


def check_placement(pool: Nodes, held: Sequence[Nodes], counts: Sequence[int], placed: Sequence[Nodes]) -> None:
    """Refuse a placement that breaks Eqn 5 (one trainer a node, pool nodes only) or Eqn 6 (nested sets)."""
    for old, count, new in zip(held, counts, placed, strict=True):
        if len(new) != count:
            raise RejectedAnswerError(f"placed {len(new)} nodes where {count} were decided")
        if not (new <= old or new >= old):
            raise RejectedAnswerError(
                f"a rescale moves a trainer from {sorted(old - new)[0]} to {sorted(new - old)[0]}"
            )
    union: Nodes = frozenset().union(*placed)
    if len(union) != sum(counts):
        raise RejectedAnswerError("a node was given to two trainers")
    if not union <= pool:
        raise RejectedAnswerError(f"node {sorted(union - pool)[0]} is not in the pool")


def _lasting_first(nodes: list[str], ends: Mapping[str, float]) -> list[str]:
    return sorted(nodes, key=lambda node: -ends.get(node, math.inf)) if ends else nodes


def in_name_order(nodes: Iterable[str]) -> list[str]:
    """Node names as people count them: n2 before n10."""
    return sorted(nodes, key=_name_key)


@lru_cache(maxsize=65536)
def _name_key(name: str) -> str:
    """Numbers as long as the longest, so that text compares as they do; the name itself where they are equal (01, 1)."""
    return _DIGITS.sub(lambda digits: digits[0].zfill(_WIDTH), name) + "\0" + name
