"""Debounce: a node idle in one record only is between two jobs (paper 2.1)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.core.debounce import DebounceState, debounce
from bftrainer.domain.events import PoolChanged

NODES = ("a", "b", "c")


def watch(*observations: str | None) -> list[PoolChanged | None]:
    """One letter a node; None is a poll that failed."""
    seen, changes = DebounceState(), []
    for idle in observations:
        seen, change = debounce(seen, None if idle is None else frozenset(idle))
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


@settings(deadline=None)
@given(st.lists(st.none() | st.sets(st.sampled_from(NODES))))
def test_against_a_node_by_node_reading(observations: list[set[str] | None]) -> None:
    seen = DebounceState()
    shown = [o for o in observations if o is not None]
    pool: set[str] = set()
    for idle in observations:
        seen, change = debounce(seen, None if idle is None else frozenset(idle))
        if change is not None:
            pool = (pool - change.left) | change.joined
    expected = set()
    for node in NODES:
        records = [node in idle for idle in shown]
        if len(records) >= 2 and records[-1] and records[-2]:
            expected.add(node)
    assert pool == seen.offered == expected
