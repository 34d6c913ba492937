"""Rules of the domain: what is refused, with which words."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer.decide.domain.events import PoolChanged
from bftrainer.decide.domain.model import Curve, Trainer, rates
from bftrainer.decide.domain.problem import Problem, TrainerDemand
from bftrainer.decide.domain.stopping import ASHA, Limit, parse_rule
from bftrainer.errors import InvalidValueError

CURVE = Curve((1, 4, 8), (10.0, 40.0, 60.0))


def trainer(**changes: Any) -> Trainer:
    values: dict[str, Any] = {
        "id": "t",
        "curve": CURVE,
        "min_nodes": 1,
        "max_nodes": 8,
        "scale_up_s": 18.0,
        "scale_down_s": 12.0,
    }
    return Trainer(**(values | changes))


def test_a_curve_is_linear_between_its_points_and_0_at_0() -> None:
    assert [CURVE.at(n) for n in (0, 1, 2, 4, 6, 8)] == [0, 10, 20, 40, 50, 60]
    assert Curve((4,), (40.0,)).at(1) == 10
    with pytest.raises(InvalidValueError, match="ends at 8 nodes and has no value at 9"):
        CURVE.at(9)


@pytest.mark.parametrize(
    ("nodes", "values", "complaint"),
    [
        ((), (), "at least one point"),
        ((1, 2), (1.0,), "one value per node count, got 2 counts and 1 values"),
        ((0, 1), (0.0, 1.0), "start at 1 or above, got 0"),
        ((1, 4, 4), (1.0, 2.0, 3.0), "strictly increase, got 4 then 4"),
        ((1, 2), (1.0, math.nan), "finite and not negative, got nan at 2 nodes"),
        ((1, 2), (-1.0, 2.0), "finite and not negative, got -1.0 at 1 nodes"),
        ((1, 2), (1.0, math.inf), "got inf at 2 nodes"),
    ],
)
def test_a_curve_refuses(nodes: tuple[int, ...], values: tuple[float, ...], complaint: str) -> None:
    with pytest.raises(InvalidValueError, match=complaint):
        Curve(nodes, values)


def test_a_falling_curve_is_legal_and_says_where() -> None:
    assert Curve((1, 2, 4), (10.0, 9.0, 12.0)).falls_at() == (2,)
    assert CURVE.falls_at() == ()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"id": "two words"}, "not be empty or contain spaces"),
        ({"id": ""}, "not be empty"),
        ({"min_nodes": 0}, "at least 1, got 0"),
        ({"min_nodes": 6, "max_nodes": 5}, "min_nodes 6 is larger than max_nodes 5"),
        ({"max_nodes": 9}, "covers 1 to 8 nodes, expected at least min_nodes 1 to max_nodes 9"),
        (
            {"curve": Curve((2, 8), (1.0, 2.0))},
            "covers 2 to 8 nodes, expected at least min_nodes 1",
        ),
        ({"scale_up_s": math.nan}, "scale_up_s must be finite"),
        ({"scale_down_s": -1.0}, "scale_down_s must be finite and not negative"),
        ({"samples_total": 0.0}, "samples_total must be above 0"),
        ({"sizes": ()}, "at least one legal node count"),
        ({"sizes": (4, 2)}, "strictly increase, got 4 then 2"),
        ({"sizes": (2, 16)}, "0 or within .1, 8., got 16"),
    ],
)
def test_a_trainer_refuses(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidValueError, match=complaint):
        trainer(**changes)


def test_below_its_minimum_a_trainer_stands_still() -> None:
    assert rates(trainer(min_nodes=4)) == (0, 0, 0, 0, 40, 45, 50, 55, 60)


def test_a_trainer_may_always_wait() -> None:
    sized = trainer(sizes=(2, 4))
    assert [n for n in range(9) if sized.is_legal(n)] == [0, 2, 4]
    assert [n for n in range(10) if trainer(min_nodes=3).is_legal(n)] == [0, 3, 4, 5, 6, 7, 8]


def test_a_demand_takes_0_only_where_its_sizes_list_it() -> None:
    assert not TrainerDemand("t", CURVE, 1, 8, 0.0, 0.0, sizes=(2, 4)).is_legal(0)
    assert TrainerDemand("t", CURVE, 1, 8, 0.0, 0.0, sizes=(0, 4)).is_legal(0)


def test_a_problem_refuses_more_nodes_held_than_there_are() -> None:
    demand = TrainerDemand("t", CURVE, 1, 8, 0.0, 0.0, current=4)
    with pytest.raises(InvalidValueError, match="hold 8 nodes, more than the pool's 7"):
        Problem(7, 120.0, (demand, demand))
    with pytest.raises(InvalidValueError, match="holds 9 nodes, expected 0 to max_nodes 8"):
        TrainerDemand("t", CURVE, 1, 8, 0.0, 0.0, current=9)


def test_a_node_cannot_join_and_leave_at_once() -> None:
    with pytest.raises(InvalidValueError, match="same instant: n1"):
        PoolChanged(frozenset({"n1", "n2"}), frozenset({"n1"}))


# --- Rules that end trainers early: ASHA's against its definition, and the text of both

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
def test_rungs_grow_by_the_factor_and_stay_below_the_most(
    first: int, times: int, factor: int
) -> None:
    rule = ASHA("loss", first, first * times, factor)
    assert rule.rungs == tuple(
        first * factor**k for k in range(20) if first * factor**k < first * times
    )
    assert parse_rule(str(rule)) == rule


def test_the_rungs_of_the_paper_s_example() -> None:
    """Figure 1 of Li et al. 2018: r = 1, R = 9, eta = 3; the last rung is the end of the
    training.
    """
    assert ASHA("loss", 1, 9, 3).rungs == (1, 3)


def test_rules_as_text() -> None:
    assert parse_rule("loss>2@1000") == Limit("loss", True, 2.0, 1000.0)
    assert parse_rule(" val/accuracy < .5 @ 2e4 ") == Limit("val/accuracy", False, 0.5, 20000.0)
    assert parse_rule("asha(max accuracy, 100, 2700)") == ASHA(
        "accuracy", 100, 2700, 3, maximize=True
    )
    assert [
        Limit("loss", True, 2.0, 1.0).ends(value, ()) for value in (1.0, 2.0, 2.1, math.inf)
    ] == [0, 0, 1, 1]
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
