"""A pilot whose calls are limited: looks that are far apart are no outage, and many nodes are
requested in batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.live_house import House, house, spec

from bftrainer.cluster.model import PendingJob
from bftrainer.counted import counted
from bftrainer.pilot.nodes.node_requests import MANY, TELL_EVERY_S, RequestProgress


def test_looks_that_a_budget_keeps_apart_are_no_outage(tmp_path: Path) -> None:
    """stale_after_s is 20: a pilot that took the wait for silence would release its nodes."""
    home = house(tmp_path / "state")
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    home.cluster.looks_every_s = 90.0
    home.at(300, lambda: setattr(home.cluster, "down", True))
    home.at(305, lambda: setattr(home.cluster, "down", False))
    home.pilot(400)
    assert len(home.cluster.acquired) == 1
    assert home.cluster.released == set() or len(home.cluster.released) == 1, "at the end"
    said = home.notes()
    assert sum("polls are less frequent: the next look in" in note for note in said) == 1
    assert not any("does not answer" in note for note in said)


def test_a_scheduler_that_then_falls_silent_is_noticed(tmp_path: Path) -> None:
    home = house(tmp_path / "state")
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    home.cluster.looks_every_s = 40.0
    home.at(100, lambda: setattr(home.cluster, "down", True))
    pools: list[tuple[float, int]] = []
    home.after_tick = lambda: pools.append((home.clock.elapsed_s(), len(home.nodes.pool)))
    home.pilot(220)
    assert all(n == 1 for t, n in pools if 60 < t < 100)
    assert all(n == 0 for t, n in pools if 190 < t < 220)


def test_many_nodes_are_requested_in_batches_with_their_progress_told(tmp_path: Path) -> None:
    home = house(tmp_path / "state", nodes={"max_pending": 10})
    home.cluster.give(*(f"n{number:03d}" for number in range(60)))
    home.submit(spec("a", max_nodes=60))
    home.pilot(25)
    told = [note for note in home.notes() if "holding 60 nodes: " in note]
    assert "holding 60 nodes: 10 requested, 0 held" in told[0]
    assert "holding 60 nodes: 60 requested" in told[-1]
    assert "it took" in told[-1]
    assert 2 <= len(told) <= 8


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 64), st.floats(0.1, 30.0)), max_size=50)
)
def test_what_is_told_of_a_burst_adds_up(rounds: list[tuple[int, int, float]]) -> None:
    burst, now_s, told_s, since = RequestProgress(), 0.0, -1e9, 0
    for wanted, can, pause_s in rounds:
        now_s += pause_s
        requested = min(wanted, can)
        had_begun = burst.start_s is not None
        since = since + requested if had_begun else requested
        burst, words = burst.after(wanted, requested, 0, now_s)
        if words:
            assert f" {since} requested" in words
            assert f"holding {counted(since + wanted - requested, 'node')}" in words
            if burst.start_s is not None and had_begun:
                assert now_s - told_s >= TELL_EVERY_S
            told_s = now_s
        assert (burst.start_s is not None) <= (wanted > requested)


@pytest.mark.parametrize(("wanted", "requested"), [(MANY, 1), (500, 500), (0, 0)])
def test_a_few_nodes_or_one_batch_are_not_worth_a_word(wanted: int, requested: int) -> None:
    assert RequestProgress().after(wanted, requested, 0, 1.0) == (RequestProgress(), "")


# --- While main jobs wait, a node that becomes idle is looked at again a second later: between two
# jobs it is not requested


def waiting(path: Path) -> House:
    it = house(path / "s", times={"poll_s": 10.0, "stale_after_s": 60.0})
    it.cluster.busy = {"n1", "n2"}
    it.cluster.pending = [PendingJob("7", "u", ("main",), 3)]
    it.submit(spec("a"))
    return it


def looks_and_request(it: House) -> list[float]:
    """When the pilot looked after a node had become idle, and when it requested the node."""
    observe, acquire = it.cluster.observe, it.cluster.acquire
    times: list[float] = []

    def seen() -> object:
        times.append(it.clock.elapsed_s())
        return observe()

    def asked(claims: Any) -> object:
        times.append(it.clock.elapsed_s())
        return acquire(claims)

    it.at(
        40.0,
        lambda: (
            it.cluster.give("n1"),
            setattr(it.cluster, "observe", seen),
            setattr(it.cluster, "acquire", asked),
        ),
    )
    it.pilot(65.0)
    return times


def test_the_look_that_confirms_comes_after_a_second(tmp_path: Path) -> None:
    first_s, second_s, asked_s = looks_and_request(waiting(tmp_path))[:3]
    assert 1.0 <= second_s - first_s < 1.5
    assert asked_s == second_s, "requested at once"


def test_where_no_main_job_waits_one_look_is_enough(tmp_path: Path) -> None:
    it = waiting(tmp_path)
    it.cluster.pending = []
    first_s, asked_s = looks_and_request(it)[:2]
    assert asked_s == first_s


def test_a_node_between_two_jobs_is_not_requested(tmp_path: Path) -> None:
    it = waiting(tmp_path)
    observe = it.cluster.observe

    def between() -> object:
        """Idle in one look, and taken by the next job right after it."""
        it.cluster.give("n1")
        seen = observe()
        it.cluster.take("n1")
        it.cluster.observe = observe  # type: ignore[method-assign]
        return seen

    it.at(25.0, lambda: setattr(it.cluster, "observe", between))
    it.pilot(60.0)
    assert it.cluster.claims == []


def test_the_holder_is_told_which_nodes_have_no_job(tmp_path: Path) -> None:
    it = waiting(tmp_path)
    it.cluster.refuses = {"n1"}
    it.at(25.0, lambda: it.cluster.give("n1"))
    it.pilot(20.0)
    assert it.cluster.without_a_job == frozenset()
    it.pilot(60.0)
    assert it.cluster.without_a_job == {"n1"}
