"""What a MILP solver's end becomes: the gap, the kept map, the incumbent, a demand that its counts do not bear out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bftrainer.allocation.gains import objective_value
from bftrainer.allocation.milp import Floats, Milp, build
from bftrainer.allocation.outcome import current_map, optimal, out_of_time, relative_gap
from bftrainer.domain.model import Curve
from bftrainer.domain.problem import Problem, Status, TrainerDemand
from bftrainer.errors import Reason, SolverError

LINE = Curve((1, 10), (10.0, 100.0))
TWO = Problem(
    10, 120.0, tuple(TrainerDemand(f"t{j}", LINE, 1, 10, 1.0, 1.0, current) for j, current in ((0, 3), (1, 4)))
)
MILP = build(TWO, native_sos=True)


def solution(milp: Milp, *counts: float) -> Floats:
    x = np.zeros(len(milp.objective))
    x[milp.counted_column] = counts
    return x


def test_counts_are_rounded() -> None:
    assert MILP.counts(solution(MILP, 2.9999999, 4.0000001)) == (3, 4)


def test_a_better_incumbent_wins_over_the_current_map() -> None:
    answer = out_of_time(TWO, MILP, "s", solution(MILP, 5, 4), math.inf)
    assert (answer.counts, answer.status) == ((5, 4), Status.TIME_LIMIT)
    assert answer.objective_value == objective_value(TWO, (5, 4))


@pytest.mark.parametrize("incumbent", [(1, 1), (3, 4), (3, 8), (11, 0)])
def test_a_worse_equal_or_illegal_incumbent_does_not(incumbent: tuple[int, int]) -> None:
    assert out_of_time(TWO, MILP, "s", solution(MILP, *incumbent), math.inf).counts == (3, 4)


def test_the_gap_is_relative_to_the_value_in_the_unit_of_the_objective() -> None:
    value = objective_value(TWO, (5, 4))
    answer = out_of_time(TWO, MILP, "s", solution(MILP, 5, 4), 1.25 * value / MILP.scale)
    assert answer.gap == pytest.approx(0.25)


@pytest.mark.parametrize("bound", [math.inf, math.nan, 1e300])
def test_a_bound_that_says_nothing_is_replaced_by_everyone_at_its_best(bound: float) -> None:
    at_best = 2 * 120.0 * 100.0 - (30.0 + 40.0)
    assert relative_gap(TWO, 7000.0, bound) == pytest.approx((at_best - 7000.0) / 7000.0)


def test_a_bound_below_the_value_is_no_negative_gap() -> None:
    assert relative_gap(TWO, 7000.0, 6999.99) == 0.0


def test_an_objective_that_the_counts_do_not_bear_out_is_numerical_trouble() -> None:
    value = objective_value(TWO, (6, 4)) / MILP.scale
    assert optimal(TWO, MILP, "s", solution(MILP, 6, 4), value).counts == (6, 4)
    for claimed in (value * 1.001, value * 0.999, math.nan, math.inf):
        with pytest.raises(SolverError, match="rounded counts") as told:
            optimal(TWO, MILP, "s", solution(MILP, 6, 4), claimed)
        assert told.value.reason is Reason.NUMERICAL


def test_no_map_is_kept_where_it_is_not_legal() -> None:
    assert current_map(TWO) == (3, 4)
    held = {"value": LINE, "max_nodes": 10, "scale_up_s": 1.0, "scale_down_s": 1.0}
    assert current_map(Problem(9, 1.0, (TrainerDemand("t", min_nodes=4, current=3, **held),))) == (0,)
    assert current_map(Problem(9, 1.0, (TrainerDemand("t", min_nodes=1, current=2, sizes=(0, 1, 4), **held),))) is None
    assert current_map(Problem(9, 1.0, (TrainerDemand("t", min_nodes=4, current=3, sizes=(4,), **held),))) is None
