"""When the nodes of a simulated pilot are offered, and when an offer is void."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer_replay.main_queue.jobs import MainJobs
from bftrainer_replay.main_queue.looks import LookDecision, QueueView, Yields, YieldsBlindly
from bftrainer_replay.main_queue.ways import rules_of

JOBS = MainJobs((0.0, 0.0), (10.0, 10.0), (10.0, 10.0), (2, 3), 8)


def view(now_s: float, idle: int, held: int = 0, changes: int = 0, **more: int) -> QueueView:
    """What the pilot sees while the job of two nodes waits."""
    counts = {"leaving": 0, "submitted": 1, "started": 0, **more}
    pending = () if counts["started"] else (0,)
    return QueueView(now_s, pending, idle, held=held, ended=changes, **counts)


def test_a_void_offer_stays_void_while_the_job_does_not_fit() -> None:
    """It is void after a backfill cycle. Something changes, and the job does not fit for a moment;
    it is offered nodes again when it has rested for 5 s.
    """
    looks = Yields(JOBS, rules_of("yield"))
    assert looks.decide(view(1.0, 2)) == looks.decide(view(3.0, 2)) == LookDecision(0, True, True)
    assert not looks.decide(view(31.0, 2)).blocks
    assert not looks.decide(view(33.0, 1, changes=1)).blocks
    assert not looks.decide(view(35.0, 2, changes=1)).blocks
    assert looks.decide(view(37.0, 2, changes=1)).blocks


def test_what_is_missing_is_released_in_order_of_priority() -> None:
    looks = Yields(JOBS, rules_of("yield"))
    both = QueueView(1.0, (0, 1), 1, 1, 2, 2, 0, 0)
    assert looks.decide(both).release_count == 0  # the second job fits no more
    more = QueueView(3.0, (0, 1), 1, 1, 6, 2, 0, 0)
    assert looks.decide(more).release_count == 3


@given(st.integers(0, 8), st.integers(0, 8))
def test_no_more_is_released_than_is_held(idle: int, held: int) -> None:
    decision = Yields(JOBS, rules_of("yield")).decide(view(1.0, idle, held))
    assert decision.release_count <= held
    assert decision.blocks is (idle + held >= 2)
    if decision.blocks:
        assert decision.release_count == max(2 - idle, 0)


@pytest.mark.parametrize("held", [1, 4, 7])
def test_a_blind_pilot_doubles_what_it_releases(held: int) -> None:
    looks = YieldsBlindly(rules_of("blind"))
    looks.decide(view(0.0, 0, held, submitted=0))
    released = []
    for second in range(1, 5):
        released.append(looks.decide(view(float(second), 0, held - sum(released))).release_count)
    assert released == [min(step, max(held - step + 1, 0)) for step in (1, 2, 4, 8)]
    assert not looks.decide(view(6.0, 0, 0, started=1)).blocks
