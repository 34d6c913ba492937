"""From counts to names: nested sets (Eqn 6), name order, and a check that refuses everything
else.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.decide.allocation import placement
from bftrainer.decide.allocation.placement import NameOrder, check_placement, in_name_order, place
from bftrainer.errors import RejectedAnswerError


def names(*numbers: int) -> frozenset[str]:
    return frozenset(f"n{i}" for i in numbers)


def test_people_count_n2_before_n10() -> None:
    assert in_name_order(["n10", "n2", "a9", "n2x", "n02"]) == ["a9", "n02", "n2", "n2x", "n10"]


@settings(max_examples=100, deadline=None)
@given(
    st.sets(st.integers(0, 300), min_size=200),
    st.lists(st.tuples(st.sets(st.integers(0, 300), max_size=9), st.booleans()), max_size=8),
)
def test_the_order_that_follows_a_pool_is_the_order_from_scratch(
    start: set[int], moves: list[tuple[set[int], bool]]
) -> None:
    order, pool = NameOrder(), names(*start)
    for nodes, joins in [(set[int](), True), *moves]:
        pool = pool | names(*nodes) if joins else pool - names(*nodes)
        assert order.names_of(pool) == in_name_order(pool)
    assert order.names_of(names(2, 1)) == ["n1", "n2"]


def test_growing_trainers_take_adjacent_nodes_in_trainer_order() -> None:
    placed = place(names(*range(1, 13)), [names(), names(5), names()], [3, 3, 2])
    assert placed == (names(1, 2, 3), names(4, 5, 6), names(7, 8))


def test_shrinking_trainers_let_go_of_their_last_nodes_and_others_get_them() -> None:
    placed = place(names(1, 2, 9, 10, 11), [names(2, 9, 10, 11), names(1)], [2, 3])
    assert placed == (names(2, 9), names(1, 10, 11))


def test_who_keeps_its_count_keeps_its_nodes() -> None:
    held = names(3, 8)
    assert place(names(1, 2, 3, 8), [held, names()], [2, 1])[0] is held


@given(st.integers(1, 400), st.integers(0, 400), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_the_nodes_taken_do_not_depend_on_how_much_of_the_pool_is_free(
    size: int, first: int, count: int
) -> None:
    """A large pool is sorted once and its order is kept; a small one is sorted without the nodes
    that are held.
    """
    pool = names(*range(size))
    held = names(*range(first, min(first + 30, size)))
    placed = place(pool, [held, frozenset()], [len(held), min(count, size - len(held))])
    assert placed[1] == frozenset(in_name_order(pool - held)[: min(count, size - len(held))])


@st.composite
def situations(draw: st.DrawFn) -> tuple[frozenset[str], list[frozenset[str]], list[int]]:
    pool = [f"n{i}" for i in range(draw(st.integers(0, 20)))]
    owners = [draw(st.integers(-1, 3)) for _ in pool]
    held = [
        frozenset(n for n, owner in zip(pool, owners, strict=True) if owner == j) for j in range(4)
    ]
    free, counts = len(pool), []
    for _ in held:
        counts.append(draw(st.integers(0, free)))
        free -= counts[-1]
    return frozenset(pool), held, counts


@settings(deadline=None)
@given(situations())
def test_every_placement_passes_the_check(
    situation: tuple[frozenset[str], list[frozenset[str]], list[int]],
) -> None:
    pool, held, counts = situation
    placed = place(pool, held, counts)
    check_placement(pool, held, counts, placed)
    assert [len(nodes) for nodes in placed] == counts
    assert all(new <= old or new >= old for old, new in zip(held, placed, strict=True))


@settings(deadline=None)
@given(situations(), st.randoms(use_true_random=False))
def test_set_order_decides_nothing(
    situation: tuple[frozenset[str], list[frozenset[str]], list[int]], rng: object
) -> None:
    pool, held, counts = situation
    shuffled = list(pool)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    again = [frozenset(n for n in shuffled if n in nodes) for nodes in held]
    assert place(frozenset(shuffled), again, counts) == place(pool, held, counts)


@pytest.mark.parametrize(
    ("placed", "complaint"),
    [
        ([names(1), names(2, 3)], "placed 1 node, but 2 were decided"),
        ([names(2, 3), names(4, 5)], "moves a trainer from n1 to n2"),
        ([names(1, 2), names(2, 3)], "allocated to two trainers"),
        ([names(1, 9), names(3, 4)], "n9 is not in the pool"),
    ],
)
def test_the_check_refuses(placed: list[frozenset[str]], complaint: str) -> None:
    with pytest.raises(RejectedAnswerError, match=complaint):
        check_placement(names(1, 2, 3, 4, 5), [names(1), names(3)], [2, 2], placed)


def test_names_of_the_largest_machine_are_taken_apart_once() -> None:
    """Fugaku has 158,976 nodes. A cache with fewer places computes every key again at each sort."""
    machine = [f"nid{number:06d}" for number in range(158_976)]
    in_name_order(machine)
    misses = placement._node_keys.cache_info().misses
    assert in_name_order(reversed(machine)) == machine
    assert placement._node_keys.cache_info().misses == misses


def test_fragments_take_no_place_from_nodes() -> None:
    """A pilot never sees a fragment again, so that its names have a cache of their own."""
    in_name_order(["n1", "n2"])
    size = placement._node_keys.cache_info().currsize
    assert in_name_order(["n10#7", "n2#9"]) == ["n2#9", "n10#7"]
    assert placement._node_keys.cache_info().currsize == size
