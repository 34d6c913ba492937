"""Which slots trainers take and release, where several slots (GPUs) are on one node: the second criterion of placement.

The decision fixes the counts. The slots are chosen so that the sum of m_j, the number of parts that each trainer is on, is
small: GPUs of one node exchange gradients faster. A part is the slots of one holder on one node.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

PartOf = Callable[[str], str]


def last_released_first(held: Sequence[str], part_of: PartOf) -> list[str]:
    """A trainer's slots: those on the part where it has the fewest come last."""
    count = Counter(map(part_of, held))
    return sorted(held, key=lambda slot: -count[part_of(slot)])


def take(
    free: Iterable[str], wanted: Mapping[int, int], own: Mapping[int, Iterable[str]], part_of: PartOf
) -> dict[int, list[str]]:
    """Slots for each growing trainer (by number) of the ``free`` ones, which are disjoint from those it has (``own``).

    All take slots beside their own. Then each takes the largest part that it fills, as long as there is one, and the
    smallest part that has its rest (best fit): for one trainer, the fewest parts possible. The order of ``free`` decides
    ties. Cost: O(f log f) for f free slots.
    """
    parts: dict[str, list[str]] = {}
    for slot in free:
        parts.setdefault(part_of(slot), []).append(slot)
    taken: dict[int, list[str]] = {j: [] for j in wanted}

    def from_part(j: int, part: str) -> None:
        count = wanted[j] - len(taken[j])
        taken[j] += parts[part][:count]
        parts[part] = parts[part][count:]

    for j in wanted:
        beside = {part_of(slot) for slot in own[j]} & parts.keys()
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
