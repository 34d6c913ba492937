"""The budget of calls: a bucket with properties that hold for every history, and what it lets
through.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer_clusters.holding.call_budget import Bucket, CallBudget, CallKind
from bftrainer_clusters.holding.submission_history import HOUR_S, SubmissionHistory

SIZES = st.floats(1.0, 1000.0)
RATES = st.floats(0.01, 100.0)
STEPS = st.lists(st.tuples(st.floats(0.0, 300.0), st.integers(1, 50)), max_size=40)


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def __call__(self) -> float:
        return self.at_s


@given(SIZES, RATES, STEPS)
def test_who_waits_as_told_never_makes_more_calls_than_size_and_refill(
    size: float, per_s: float, steps: list[tuple[float, int]]
) -> None:
    bucket, now_s, made = Bucket.full(size, per_s, 0.0), 0.0, 0.0
    for pause_s, calls in steps:
        if calls > size:
            continue
        now_s += pause_s
        now_s += bucket.wait_s(calls, 0.0, now_s)
        bucket, made = bucket.take(calls, now_s), made + calls
        assert bucket.level >= -1e-6
        assert made <= size + per_s * now_s + 1e-6


@given(SIZES, RATES, STEPS, st.floats(0.0, 1.0))
def test_the_wait_is_long_enough_and_not_longer(
    size: float, per_s: float, steps: list[tuple[float, int]], kept: float
) -> None:
    bucket, now_s = Bucket.full(size, per_s, 0.0), 0.0
    for pause_s, calls in steps:
        now_s += pause_s
        bucket = bucket.take(calls, now_s)
        wait_s = bucket.wait_s(1, kept * size, now_s)
        assert math.isfinite(wait_s)
        assert bucket.wait_s(1, kept * size, now_s + wait_s * 1.001 + 1e-6) == 0.0
        if wait_s > 1e-3:
            assert bucket.wait_s(1, kept * size, now_s + wait_s * 0.99 - 1e-6) > 0.0


@given(SIZES, RATES, STEPS, SIZES, RATES)
def test_another_limit_keeps_what_was_used(
    size: float, per_s: float, steps: list[tuple[float, int]], other: float, other_per_s: float
) -> None:
    bucket, now_s = Bucket.full(size, per_s, 0.0), 0.0
    for pause_s, calls in steps:
        now_s += pause_s
        bucket = bucket.take(calls, now_s)
    changed = bucket.limited(other, other_per_s, now_s)
    assert changed.level <= other
    assert changed.at(now_s + 1e6).level == pytest.approx(other)
    assert bucket.at(now_s - 5.0).level <= bucket.level + 1e-9, (
        "a clock that goes back refills nothing"
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(list(CallKind)), st.integers(1, 12), st.floats(0.0, 60.0)),
        max_size=60,
    )
)
def test_a_release_never_waits_and_a_more_important_kind_never_waits_longer(
    history: list[tuple[CallKind, int, float]],
) -> None:
    clock = Hand()
    budget = CallBudget(600.0, clock)
    budget.limit(40.0, 4.0 / 60.0)
    for kind, calls, pause_s in history:
        clock.at_s += pause_s
        budget.spend(kind, calls)
        assert budget.wait_s(CallKind.RELEASE, 100) == 0.0
        assert budget.wait_s(CallKind.TIDY, 2) <= budget.wait_s(CallKind.LIST, 2) + 1e-9


def test_looks_and_submissions_share_a_site_of_four_calls_a_minute() -> None:
    """Looks alone must not use all of the refill, nor submissions: each goes on, at its own
    pace.
    """
    clock = Hand()
    budget = CallBudget(600.0, clock)
    budget.limit(40.0, 4.0 / 60.0)
    made: dict[CallKind, int] = dict.fromkeys(CallKind, 0)
    calls = {CallKind.LOOK: 6, CallKind.LIST: 2, CallKind.SUBMIT: 5}
    for second in range(7200):
        clock.at_s = float(second)
        for kind, each in calls.items():
            if budget.wait_s(kind, each) == 0.0:
                budget.spend(kind, each)
                made[kind] += 1
    assert sum(made[kind] * each for kind, each in calls.items()) <= 40 + 4 * 120
    assert made[CallKind.LOOK] > 20, "one in six minutes"
    assert made[CallKind.LIST] > 20
    assert made[CallKind.SUBMIT] > 20


def test_without_a_limit_of_the_site_a_pilot_at_rest_is_never_held_up() -> None:
    clock = Hand()
    budget = CallBudget(600.0, clock)
    for second in range(0, 600, 10):
        clock.at_s = float(second)
        assert budget.wait_s(CallKind.LOOK, 5) == 0.0
        budget.spend(CallKind.LOOK, 5)
        assert budget.wait_s(CallKind.LIST, 2) == 0.0
        budget.spend(CallKind.LIST, 2)


def test_a_refusal_empties_the_bucket_and_others_calls_count() -> None:
    clock = Hand()
    budget = CallBudget(600.0, clock)
    budget.limit(40.0, 0.1)
    assert budget.is_limited
    assert budget.refused() == pytest.approx((1 + 10) / 0.1)
    clock.at_s = 1000.0
    assert budget.wait_s(CallKind.SUBMIT, 5) == 0.0
    budget.charge(30.0)
    assert budget.wait_s(CallKind.SUBMIT, 5) == pytest.approx((5 + 15 - 10) / 0.1)
    budget.limit(math.inf, math.inf)
    assert not budget.is_limited
    assert budget.per_minute == 600.0


def test_calls_of_others_leave_no_debt() -> None:
    """Minutes of workers' steps are counted at once: polls go on as the bucket refills, not when
    all of it is repaid.
    """
    clock = Hand()
    budget = CallBudget(600.0, clock)
    budget.charge(10_000.0)
    assert budget.wait_s(CallKind.LOOK, 5.0) == pytest.approx((5 + 25) / 10)
    budget.spend(CallKind.RELEASE, 50.0)
    budget.charge(10.0)
    assert budget.wait_s(CallKind.LOOK, 5.0) == pytest.approx((5 + 25 + 50) / 10)


def test_a_budget_too_small_for_a_look_still_looks() -> None:
    clock = Hand()
    budget = CallBudget(4.0, clock)
    budget.limit(3.0, 0.01)
    looks = 0
    for second in range(3600):
        clock.at_s = float(second)
        if budget.wait_s(CallKind.LOOK, 6) == 0.0:
            budget.spend(CallKind.LOOK, 6)
            looks += 1
    assert looks >= 5


@given(st.lists(st.floats(0.0, 900.0), max_size=60), st.integers(1, 10))
def test_no_hour_has_more_submissions_than_the_cap(pauses: list[float], most: int) -> None:
    history, now_s = SubmissionHistory(), 0.0
    times: list[float] = []
    for pause_s in pauses:
        now_s += pause_s
        wait_s = history.cap_wait_s(most, 0, now_s)
        assert history.cap_wait_s(None, 0, now_s) == 0.0
        if wait_s == 0.0:
            history = history.sent(1, now_s)
            times.append(now_s)
        else:
            assert 0.0 < wait_s <= HOUR_S
    for first in times:
        assert sum(first <= at_s < first + HOUR_S for at_s in times) <= most


def test_a_cheap_call_does_not_keep_a_look_waiting_as_long_as_a_look_does() -> None:
    """A pilot that looks at the counters every second would otherwise never see the cluster while
    its user's own commands use the budget.
    """
    hand = Hand()
    budget = CallBudget(600.0, hand)  # 10 a second, 100 at once; looks may use 5 a second
    budget.charge(60.0)
    budget.spend(CallKind.LOOK, 1)
    assert budget.wait_s(CallKind.LOOK, 5) == pytest.approx(0.2)
    hand.at_s += 0.2
    assert budget.wait_s(CallKind.LOOK, 5) == 0.0
    budget.spend(CallKind.LOOK, 5)
    assert budget.wait_s(CallKind.LOOK, 5) == pytest.approx(1.0)
