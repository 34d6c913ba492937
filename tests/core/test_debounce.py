"""Debounce: a node idle in one record only is between two jobs (paper 2.1)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.core.debounce import DebounceState, debounce
from bftrainer.domain.events import PoolChanged

NODES = ("a", "b", "c")


CONFIRM_S = 1.0


def watch(*observations: str | None) -> list[PoolChanged | None]:
    """One letter a node, a poll each second; None is a poll that failed."""
    seen, changes = DebounceState(), []
    for at_s, idle in enumerate(observations):
        seen, change = debounce(seen, None if idle is None else frozenset(idle), float(at_s), CONFIRM_S)
        changes.append(change)
    return changes


def joined(nodes: str) -> PoolChanged:
    return PoolChanged(joined=frozenset(nodes))


def left(nodes: str) -> PoolChanged:
    return PoolChanged(left=frozenset(nodes))


def test_a_node_joins_at_its_second_record() -> None:
    assert watch("a", "ab", "ab") == [None, joined("a"), joined("b")]


def test_one_record_idles_never_join() -> None:
    assert watch("a", "", "a", "", "b", "") == [None] * 6


def test_a_node_leaves_at_once_and_must_be_seen_twice_again() -> None:
    assert watch("a", "a", "", "a", "a") == [None, joined("a"), left("a"), None, joined("a")]


def test_a_failed_poll_changes_nothing_and_counts_as_none() -> None:
    assert watch("a", None, "a", None, "a", "") == [None, None, joined("a"), None, None, left("a")]


def test_two_looks_that_are_too_close_are_one() -> None:
    seen = DebounceState()
    for at_s, pool in ((0.0, ""), (0.4, ""), (0.9, ""), (1.1, "a"), (1.2, "a")):
        seen, _ = debounce(seen, frozenset("a"), at_s, CONFIRM_S)
        assert seen.offered == frozenset(pool)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 3.0), st.none() | st.sets(st.sampled_from(NODES)))),
    st.sampled_from([0.0, 0.5, 2.0]),
)
def test_against_a_node_by_node_reading(observations: list[tuple[float, set[str] | None]], confirm_s: float) -> None:
    seen, now_s = DebounceState(), 0.0
    shown: list[tuple[float, set[str]]] = []
    pool: set[str] = set()
    for wait_s, idle in observations:
        now_s += wait_s
        if idle is not None:
            shown.append((now_s, idle))
        seen, change = debounce(seen, None if idle is None else frozenset(idle), now_s, confirm_s)
        if change is not None:
            pool = (pool - change.left) | change.joined
        expected = set()
        for node in NODES:
            run: list[float] = []
            for at_s, there in reversed(shown):
                if node not in there:
                    break
                run.append(at_s)
            if run and run[0] - run[-1] >= confirm_s:
                expected.add(node)
        assert pool == seen.offered == expected
