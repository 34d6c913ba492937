"""When the next look is: pure, with properties for any order of hints, ends and schedule."""

from __future__ import annotations

import math
from bisect import bisect_left

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bftrainer.live.nodes.poll_schedule import BURST, REPEATS_S, TRUSTED_AFTER, PollOutcome, PollRules, PollSchedule

RULES = PollRules(poll_s=10.0, calm_s=30.0, per_minute=20.0)


def trusted() -> PollSchedule:
    schedule = PollSchedule(0.0)
    for number in range(TRUSTED_AFTER):
        schedule = schedule.polled(10.0 * number, PollOutcome.ANNOUNCED, RULES)
    return schedule


def test_without_hints_looks_are_poll_s_apart() -> None:
    schedule = PollSchedule(0.0)
    for number in range(20):
        assert schedule.due_s(RULES) == pytest.approx(10.0 * number)
        schedule = schedule.polled(10.0 * number, PollOutcome.UNANNOUNCED if number % 3 else PollOutcome.NOTHING, RULES)


def test_a_hint_brings_the_look_forward_and_a_look_that_finds_nothing_is_repeated() -> None:
    schedule = PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, RULES).hinted(2.0)
    for wait_s in REPEATS_S:
        assert schedule.due_s(RULES) == pytest.approx(2.0 + wait_s)
        schedule = schedule.polled(schedule.due_s(RULES), PollOutcome.NOTHING, RULES)
    assert schedule.due_s(RULES) == schedule.begun_s + 10.0


def test_a_look_that_finds_what_was_announced_is_not_repeated() -> None:
    schedule = PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, RULES).hinted(2.0)
    assert schedule.outcome(found_new=True) is PollOutcome.ANNOUNCED
    assert schedule.polled(2.3, PollOutcome.ANNOUNCED, RULES).due_s(RULES) == pytest.approx(12.3)


def test_a_second_hint_shortly_before_the_look_is_answered_by_a_look_of_its_own() -> None:
    schedule = PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, RULES).hinted(2.0).hinted(2.1)
    assert schedule.due_s(RULES) == pytest.approx(2.15)
    assert schedule.polled(2.15, PollOutcome.ANNOUNCED, RULES).due_s(RULES) == pytest.approx(2.25)


def test_where_hints_announce_the_changes_unhinted_looks_are_rarer_until_one_does_not() -> None:
    schedule = trusted()
    assert schedule.is_calm
    assert schedule.due_s(RULES) == schedule.begun_s + 30.0
    assert schedule.outcome(found_new=False) is PollOutcome.NOTHING
    schedule = schedule.polled(schedule.due_s(RULES), PollOutcome.NOTHING, RULES)
    assert schedule.is_calm, "no change is no missing hint"
    assert schedule.outcome(found_new=True) is PollOutcome.UNANNOUNCED
    schedule = schedule.polled(schedule.due_s(RULES), PollOutcome.UNANNOUNCED, RULES)
    assert schedule.due_s(RULES) == schedule.begun_s + 10.0


def test_while_the_scheduler_does_not_answer_hints_do_not_bring_looks_forward() -> None:
    schedule = trusted().polled(40.0, PollOutcome.FAILED, RULES, 2.0)
    assert schedule.due_s(RULES) == 60.0
    assert schedule.hinted(41.0).due_s(RULES) == 60.0


def test_a_hinted_look_waits_for_the_budget_of_calls() -> None:
    schedule = PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, RULES).hinted(1.0).postponed(7.0)
    assert schedule.due_s(RULES) == 7.0


def test_a_known_end_is_looked_at_and_announces_nothing() -> None:
    schedule = PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, RULES).expecting(4.0)
    assert schedule.due_s(RULES) == 4.0
    assert schedule.expecting(6.0) is schedule
    assert schedule.outcome(found_new=True) is PollOutcome.UNANNOUNCED


def test_without_an_allowance_hints_do_nothing() -> None:
    rules = PollRules(10.0, 30.0, 0.0)
    assert PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, rules).hinted(1.0).due_s(rules) == 10.0


steps = st.lists(
    st.tuples(
        st.sampled_from(["hint", "end", "look", "look"]),
        st.floats(0.0, 5.0),
        st.sampled_from(list(PollOutcome)),
        st.floats(0.9, 1.1),
    ),
    max_size=120,
)
all_rules = st.builds(PollRules, st.floats(1.0, 20.0), st.floats(0.1, 60.0), st.floats(1.0, 120.0))


@given(steps, all_rules)
@example([("hint", 0.01, PollOutcome.NOTHING, 1.0)] * 120, RULES)
def test_never_more_looks_than_allowed_and_never_later_than_without_hints(
    given_steps: list[tuple[str, float, PollOutcome, float]], rules: PollRules
) -> None:
    """PollSchedule are made as soon as they are due; whatever comes, comes between them."""
    schedule, now_s = PollSchedule(0.0), 0.0
    early: list[float] = []
    for what, wait_s, news, stretch in given_steps:
        now_s += wait_s
        while (due_s := schedule.due_s(rules)) <= now_s:
            assert due_s <= max(schedule.unhinted_s, schedule.not_before_s)
            assert (
                due_s - schedule.begun_s <= max(rules.poll_s, rules.calm_s) * 1.1 + 1e-9
                or schedule.begun_s == -math.inf
            )
            if due_s < schedule.unhinted_s:
                early.append(due_s)
            schedule = schedule.polled(due_s, news, rules, stretch)
            assert schedule.due_s(rules) > due_s, "time goes on"
        if what == "hint":
            schedule = schedule.hinted(now_s)
        elif what == "end":
            schedule = schedule.expecting(now_s + wait_s)
    for first, at_s in enumerate(early):
        for span_s in (1.0, 10.0, 60.0):
            there = bisect_left(early, at_s + span_s) - first
            assert there <= BURST + span_s * rules.per_minute / 60.0 + 1e-6
