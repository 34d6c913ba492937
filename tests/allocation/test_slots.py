"""Slots: the decision counts them like nodes; the placement puts each trainer on few parts of
nodes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from support import oracle_per_node

from bftrainer.decide.allocation.placement import Nodes, check_placement, place
from bftrainer.slots import Grain, Slot, slot_of


def slots(*sizes: int) -> list[list[str]]:
    """Parts of these sizes, one a node."""
    return [
        [Slot(f"n{i}", str(70 + i), index).name for index in range(size)]
        for i, size in enumerate(sizes)
    ]


def test_names_of_slots() -> None:
    slot = Slot("n3", "4711", 2)
    assert (slot.name, slot.fragment, slot.id) == ("n3#4711.g2", "n3#4711", "4711.g2")
    assert slot_of(slot.name) == slot
    assert slot_of("n3#4711.g2") is slot_of("n3#4711.g" + "2")
    assert slot_of("n3#4711.n3.g0") == Slot("n3", "4711.n3", 0)


@pytest.mark.parametrize("name", ["n3", "n3#4711", "n3#4711.n3", "g3#4711.g3", "n3#5-1.25-0"])
def test_a_whole_node_is_a_slot_of_its_own(name: str) -> None:
    slot = slot_of(name)
    assert (slot.gpu, slot.name, slot.fragment) == (None, name, name)
    assert slot.node == name.partition("#")[0]


def test_the_grain_of_a_pool_is_the_finest_of_its_slots() -> None:
    assert Grain.of(["n3", "n3#4711", "g3#4711.g3"]) is Grain.NODE
    assert Grain.of(["n3", "n3#4711.g0"]) is Grain.GPU
    assert Grain.NODE.finer(Grain.GPU) is Grain.GPU.finer(Grain.NODE) is Grain.GPU
    assert Grain.NODE.finer(Grain.NODE) is Grain.NODE


@pytest.mark.parametrize(
    ("sizes", "held", "counts", "parts"),
    [
        ((3, 8, 4), (0, 0), (4, 3), (1, 1)),  # both fill a part: nobody breaks the one of 8
        ((4, 4, 8), (0, 0), (8, 8), (1, 2)),
        ((2, 6, 3), (0,), (8,), (2,)),  # the largest that it fills, then the one that has the rest
        ((5, 5), (0, 2), (5, 5), (1, 1)),  # beside its own first
    ],
)
def test_trainers_take_few_parts(
    sizes: tuple[int, ...], held: tuple[int, ...], counts: tuple[int, ...], parts: tuple[int, ...]
) -> None:
    pool = [slot for part in slots(*sizes) for slot in part]
    before = [frozenset(pool[:count]) for count in held]
    placed = place(frozenset(pool), before, counts, grain=Grain.GPU)
    assert tuple(map(parts_of, placed)) == parts


def test_a_shrinking_trainer_leaves_the_part_where_it_has_the_fewest() -> None:
    first, second = slots(2, 6)
    pool = frozenset(first + second)
    assert place(pool, [frozenset(first + second[:5])], [5], grain=Grain.GPU) == (
        frozenset(second[:5]),
    )


def test_the_end_of_a_window_comes_before_the_number_of_parts() -> None:
    first, second = slots(4, 2)
    ends = dict.fromkeys(first, 60.0)
    (placed,) = place(frozenset(first + second), [frozenset()], [3], ends, grain=Grain.GPU)
    assert placed == frozenset(second + first[:1])
    assert place(frozenset(first + second), [placed], [2], ends, grain=Grain.GPU) == (
        frozenset(second),
    )


def parts_of(nodes: Nodes) -> int:
    return len({slot_of(name).fragment for name in nodes})


def situation(rng: random.Random) -> tuple[list[list[str]], list[Nodes], list[int]]:
    """Up to 6 nodes with parts of 1 to 8 slots, 4 trainers that hold some, and the counts that they
    are to have.
    """
    parts = slots(*(rng.randint(1, 8) for _ in range(rng.randint(1, 6))))
    every = [slot for part in parts for slot in part]
    trainers = rng.randint(1, 4)
    owners = [rng.choice((-1, -1, rng.randrange(trainers))) for _ in parts]
    held = [
        frozenset(
            s
            for o, part in zip(owners, parts, strict=True)
            if o == j
            for s in part[: rng.randint(1, 8)]
        )
        for j in range(trainers)
    ]
    free, counts = len(every), []
    for _ in held:
        counts.append(rng.randint(0, free))
        free -= counts[-1]
    rng.shuffle(counts)
    return parts, held, counts


def fewest_parts(
    parts: Sequence[Sequence[str]], held: Sequence[Nodes], counts: Sequence[int]
) -> int:
    """The smallest sum of m_j of any nested placement, by HiGHS: x_jp slots, y_jp whether there are
    any.
    """
    model, used = oracle_per_node.Oracle(), []
    x_all: list[list[int]] = []
    for before, count in zip(held, counts, strict=True):
        x = [model.add(float(len(part)), integer=True) for part in parts]
        for v, part in zip(x, parts, strict=True):
            has = len(before & set(part))
            if count >= len(before):
                model.at_most(-has, [(v, -1.0)])
            if count <= len(before):
                model.at_most(has, [(v, 1.0)])
            y = model.add(1.0, integer=True, cost=-1.0)
            model.at_most(0.0, [(v, 1.0), (y, -float(len(part)))])
            used.append(y)
        model.equal(count, [(v, 1.0) for v in x])
        x_all.append(x)
    for p, part in enumerate(parts):
        model.at_most(len(part), [(x[p], 1.0) for x in x_all])
    ending = oracle_per_node.solved(model, x_all, 1.0, 60.0)
    assert ending.proven
    return round(-ending.objective)


def test_the_parts_of_500_placements_are_nearly_as_few_as_possible() -> None:
    ratios = []
    for seed in range(500):
        parts, held, counts = situation(random.Random(seed))
        pool = frozenset(slot for part in parts for slot in part)
        placed = place(pool, held, counts, grain=Grain.GPU)
        check_placement(pool, held, counts, placed)
        best, found = fewest_parts(parts, held, counts), sum(map(parts_of, placed))
        assert found >= best, seed
        ratios.append(found / best if best else 1.0)
    assert sum(ratios) / len(ratios) <= 1.1
