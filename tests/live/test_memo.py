"""Memoized values are those of the present arguments, whatever was asked for before, and are
computed no more than needed.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bftrainer.pilot.memo import Memoized, Table

SETS = st.frozensets(st.integers(0, 5))


@given(st.lists(st.tuples(SETS, SETS), max_size=30))
def test_it_is_always_the_functions_value(
    calls: list[tuple[frozenset[int], frozenset[int]]],
) -> None:
    computed: list[object] = []

    def union(a: frozenset[int], b: frozenset[int]) -> frozenset[int]:
        computed.append((a, b))
        return a | b

    derived = Memoized(union)
    changes = 0
    for i, (a, b) in enumerate(calls):
        assert derived(a, b) == a | b
        assert derived(frozenset(sorted(a)), b) is derived(a, b), (
            "equal arguments, not the same object, are enough"
        )
        changes += i == 0 or calls[i - 1] != (a, b)
    assert len(computed) == changes


def test_an_equal_value_is_the_same_object() -> None:
    sizes = Memoized(lambda names: frozenset(map(len, names)))
    first = sizes(("a", "bb"))
    assert sizes(("c", "dd")) is first
    assert sizes(("c",)) is not first


def test_none_is_a_value_like_others() -> None:
    calls: list[int] = []
    derived = Memoized(lambda n: calls.append(n))
    assert (derived(1), derived(1), derived(2)) == (None, None, None)
    assert calls == [1, 2]


class AnyTable(RuleBasedStateMachine):
    """A table is a dictionary whose snapshots never change, and are never old."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Table[int] = Table()
        self.plain: dict[str, int] = {}
        self.snapshots: list[tuple[tuple[int, ...], list[int]]] = []

    @rule(name=st.sampled_from("abc"), value=st.integers(0, 3))
    def put(self, name: str, value: int) -> None:
        self.table[name] = self.plain[name] = value

    @rule(name=st.sampled_from("abc"))
    def remove(self, name: str) -> None:
        if name in self.table:
            del self.table[name], self.plain[name]

    @rule()
    def snapshot(self) -> None:
        self.snapshots.append((self.table.snapshot(), list(self.plain.values())))
        assert self.table.snapshot() is self.table.snapshot()

    @invariant()
    def it_is_the_dictionary(self) -> None:
        assert list(self.table) == list(self.plain)
        assert list(self.table.snapshot()) == list(self.plain.values())
        assert len(self.table) == len(self.plain)
        assert all(self.table.get(name) == self.plain.get(name) for name in "abcd")
        assert all(list(kept) == then for kept, then in self.snapshots)


TestAnyTable = AnyTable.TestCase
