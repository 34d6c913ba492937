"""Rules that end trainers early: ASHA's against its definition, and the text of both."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer.domain.stopping import ASHA, Limit, parse_rule
from bftrainer.errors import InvalidValueError

VALUES = st.lists(st.floats(-10, 10), min_size=1, max_size=40)
FACTORS = st.integers(2, 5)


@given(VALUES, FACTORS, st.booleans())
def test_of_all_that_have_come_to_a_rung_the_best_part_and_at_least_the_best_one_goes_on(
    values: list[float], factor: int, maximize: bool
) -> None:
    rule = ASHA("loss", 1, 10, factor, maximize)
    for n in range(1, len(values) + 1):
        *others, value = values[:n]
        rank = 1 + sorted(values[:n], reverse=maximize).index(value)
        assert rule.ends(value, others) == (rank > max(1, n // factor))


@given(VALUES, FACTORS, st.floats(-10, 10), st.floats(0, 5))
def test_who_would_go_on_with_a_worse_value_goes_on_with_a_better_one_whatever_order_the_others_came_in(
    others: list[float], factor: int, value: float, better: float
) -> None:
    rule = ASHA("loss", 1, 10, factor)
    assert rule.ends(value - better, others) <= rule.ends(value, others)
    assert rule.ends(value, others) == rule.ends(value, others[::-1])


@given(st.integers(1, 10**6), st.integers(2, 10**4), FACTORS)
def test_rungs_grow_by_the_factor_and_stay_below_the_most(first: int, times: int, factor: int) -> None:
    rule = ASHA("loss", first, first * times, factor)
    assert rule.rungs == tuple(first * factor**k for k in range(20) if first * factor**k < first * times)
    assert parse_rule(str(rule)) == rule


def test_the_rungs_of_the_paper_s_example() -> None:
    """Figure 1 of Li et al. 2018: r = 1, R = 9, eta = 3; the last rung is the end of the training."""
    assert ASHA("loss", 1, 9, 3).rungs == (1, 3)


def test_rules_as_text() -> None:
    assert parse_rule("loss>2@1000") == Limit("loss", True, 2.0, 1000.0)
    assert parse_rule(" val/accuracy < .5 @ 2e4 ") == Limit("val/accuracy", False, 0.5, 20000.0)
    assert parse_rule("asha(max accuracy, 100, 2700)") == ASHA("accuracy", 100, 2700, 3, maximize=True)
    assert [Limit("loss", True, 2.0, 1.0).ends(value, ()) for value in (1.0, 2.0, 2.1, math.inf)] == [0, 0, 1, 1]
    for wrong in (
        "loss>2",
        "loss>two@1000",
        "asha(loss, 1, 9)",
        "asha(min loss, 9, 1)",
        "asha(min loss, 1, 9, 1)",
        "x" * 10**6,
    ):
        with pytest.raises(InvalidValueError, match="expected"):
            parse_rule(wrong)
