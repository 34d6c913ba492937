"""When the next look is: pure, with properties for any order of hints, ends and looks."""

from __future__ import annotations

import math
from bisect import bisect_left

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bftrainer.live.nodes.looks import BURST, REPEATS_S, TRUSTED_AFTER, LookRules, Looks, News

RULES = LookRules(poll_s=10.0, calm_s=30.0, per_minute=20.0)


def trusted() -> Looks:
    looks = Looks(0.0)
    for number in range(TRUSTED_AFTER):
        looks = looks.looked(10.0 * number, News.ANNOUNCED, RULES)
    return looks


def test_without_hints_looks_are_poll_s_apart() -> None:
    looks = Looks(0.0)
    for number in range(20):
        assert looks.due_s(RULES) == pytest.approx(10.0 * number)
        looks = looks.looked(10.0 * number, News.UNANNOUNCED if number % 3 else News.NOTHING, RULES)


def test_a_hint_brings_the_look_forward_and_a_look_that_finds_nothing_is_repeated() -> None:
    looks = Looks(0.0).looked(0.0, News.NOTHING, RULES).hinted(2.0)
    for wait_s in REPEATS_S:
        assert looks.due_s(RULES) == pytest.approx(2.0 + wait_s)
        looks = looks.looked(looks.due_s(RULES), News.NOTHING, RULES)
    assert looks.due_s(RULES) == looks.begun_s + 10.0


def test_a_look_that_finds_what_was_announced_is_not_repeated() -> None:
    looks = Looks(0.0).looked(0.0, News.NOTHING, RULES).hinted(2.0)
    assert looks.news(found_new=True) is News.ANNOUNCED
    assert looks.looked(2.3, News.ANNOUNCED, RULES).due_s(RULES) == pytest.approx(12.3)


def test_a_second_hint_shortly_before_the_look_is_answered_by_a_look_of_its_own() -> None:
    looks = Looks(0.0).looked(0.0, News.NOTHING, RULES).hinted(2.0).hinted(2.1)
    assert looks.due_s(RULES) == pytest.approx(2.15)
    assert looks.looked(2.15, News.ANNOUNCED, RULES).due_s(RULES) == pytest.approx(2.25)


def test_where_hints_announce_the_changes_unhinted_looks_are_rarer_until_one_does_not() -> None:
    looks = trusted()
    assert looks.is_calm
    assert looks.due_s(RULES) == looks.begun_s + 30.0
    assert looks.news(found_new=False) is News.NOTHING
    looks = looks.looked(looks.due_s(RULES), News.NOTHING, RULES)
    assert looks.is_calm, "no change is no missing hint"
    assert looks.news(found_new=True) is News.UNANNOUNCED
    looks = looks.looked(looks.due_s(RULES), News.UNANNOUNCED, RULES)
    assert looks.due_s(RULES) == looks.begun_s + 10.0


def test_while_the_scheduler_does_not_answer_hints_do_not_bring_looks_forward() -> None:
    looks = trusted().looked(40.0, News.FAILED, RULES, 2.0)
    assert looks.due_s(RULES) == 60.0
    assert looks.hinted(41.0).due_s(RULES) == 60.0


def test_a_hinted_look_waits_for_the_budget_of_calls() -> None:
    looks = Looks(0.0).looked(0.0, News.NOTHING, RULES).hinted(1.0).postponed(7.0)
    assert looks.due_s(RULES) == 7.0


def test_a_known_end_is_looked_at_and_announces_nothing() -> None:
    looks = Looks(0.0).looked(0.0, News.NOTHING, RULES).expecting(4.0)
    assert looks.due_s(RULES) == 4.0
    assert looks.expecting(6.0) is looks
    assert looks.news(found_new=True) is News.UNANNOUNCED


def test_without_an_allowance_hints_do_nothing() -> None:
    rules = LookRules(10.0, 30.0, 0.0)
    assert Looks(0.0).looked(0.0, News.NOTHING, rules).hinted(1.0).due_s(rules) == 10.0


steps = st.lists(
    st.tuples(
        st.sampled_from(["hint", "end", "look", "look"]),
        st.floats(0.0, 5.0),
        st.sampled_from(list(News)),
        st.floats(0.9, 1.1),
    ),
    max_size=120,
)
all_rules = st.builds(LookRules, st.floats(1.0, 20.0), st.floats(0.1, 60.0), st.floats(1.0, 120.0))


@given(steps, all_rules)
@example([("hint", 0.01, News.NOTHING, 1.0)] * 120, RULES)
def test_never_more_looks_than_allowed_and_never_later_than_without_hints(
    given_steps: list[tuple[str, float, News, float]], rules: LookRules
) -> None:
    """Looks are made as soon as they are due; whatever comes, comes between them."""
    looks, now_s = Looks(0.0), 0.0
    early: list[float] = []
    for what, wait_s, news, stretch in given_steps:
        now_s += wait_s
        while (due_s := looks.due_s(rules)) <= now_s:
            assert due_s <= max(looks.unhinted_s, looks.not_before_s)
            assert due_s - looks.begun_s <= max(rules.poll_s, rules.calm_s) * 1.1 + 1e-9 or looks.begun_s == -math.inf
            if due_s < looks.unhinted_s:
                early.append(due_s)
            looks = looks.looked(due_s, news, rules, stretch)
            assert looks.due_s(rules) > due_s, "time goes on"
        if what == "hint":
            looks = looks.hinted(now_s)
        elif what == "end":
            looks = looks.expecting(now_s + wait_s)
    for first, at_s in enumerate(early):
        for span_s in (1.0, 10.0, 60.0):
            there = bisect_left(early, at_s + span_s) - first
            assert there <= BURST + span_s * rules.per_minute / 60.0 + 1e-6
