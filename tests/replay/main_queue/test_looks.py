"""Which nodes a simulated pilot releases, and when its offers are void."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer.decide.yielding.node_sets import NumberedNodes
from bftrainer_replay.main_queue.holders import HeldNodes
from bftrainer_replay.main_queue.jobs import MainJobs
from bftrainer_replay.main_queue.looks import QueueView, Yields, YieldsBlindly
from bftrainer_replay.main_queue.ways import rules_of

JOBS = MainJobs((0.0, 0.0), (10.0, 10.0), (10.0, 10.0), (2, 3), 16)
TWO, BOTH = (0,), (0, 1)


def nodes(first: int, count: int) -> NumberedNodes:
    """So many nodes from a number on."""
    return NumberedNodes(((1 << count) - 1) << first)


def view(
    now_s: float,
    pending: tuple[int, ...],
    idle: int = 0,
    leaving: int = 0,
    held: int = 0,
    *,
    submitted: int = 1,
    starts: tuple[int, ...] = (),
) -> QueueView:
    """What the pilot sees of nodes that are idle, leaving and held, in the order of their
    numbers; the others are busy.
    """
    holders = HeldNodes()
    if held:
        holders.start(0.0, 600.0, nodes(idle + leaving, held))
    return QueueView(
        now_s, pending, nodes(0, idle), nodes(idle, leaving), holders, submitted, starts, 0
    )


def test_a_void_offer_is_made_again_after_a_main_job_has_ended() -> None:
    """It is void after a backfill cycle. Then two nodes of a main job become idle."""
    looks = Yields(JOBS, rules_of("yield"))
    assert looks.decide(view(1.0, TWO, 2)).blocks
    assert looks.decide(view(3.0, TWO, 2)).blocks
    assert not looks.decide(view(33.0, TWO, 2)).blocks
    assert not looks.decide(view(35.0, TWO, 0, held=2)).blocks
    assert not looks.decide(view(37.0, TWO, 2, held=2)).blocks, "not yet rested"
    assert looks.decide(view(39.0, TWO, 2, held=2)).blocks


def test_what_is_missing_is_released_in_order_of_priority() -> None:
    looks = Yields(JOBS, rules_of("yield"))
    assert not looks.decide(view(1.0, BOTH, 1, 1, 2)).released, "the second job fits no more"
    more = looks.decide(view(3.0, BOTH, 1, 1, 6))
    assert len(more.released) == 3


@given(st.integers(0, 8), st.integers(0, 8))
def test_no_more_is_released_than_is_held(idle: int, held: int) -> None:
    seen = view(1.0, TWO, idle, held=held)
    decision = Yields(JOBS, rules_of("yield")).decide(seen)
    assert decision.released <= seen.held.nodes
    assert decision.blocks is (idle + held >= 2)
    if decision.blocks:
        assert len(decision.released) == max(2 - idle, 0)


@pytest.mark.parametrize("held", [1, 4, 7])
def test_a_blind_pilot_doubles_what_it_releases(held: int) -> None:
    looks = YieldsBlindly(rules_of("blind"))
    looks.decide(view(0.0, TWO, held=held, submitted=0))
    released = list[int]()
    for second in range(1, 5):
        seen = view(float(second), TWO, held=held - sum(released))
        released.append(len(looks.decide(seen).released))
    assert released == [min(step, max(held - step + 1, 0)) for step in (1, 2, 4, 8)]
    assert not looks.decide(view(6.0, (), starts=(0,))).blocks
