"""The exact solver's tie rule, and that nothing but the problem decides."""

from __future__ import annotations

from itertools import product

import brute_force
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import problems

from bftrainer.allocation.exact import Exact
from bftrainer.allocation.gains import gain, gains, objective_value
from bftrainer.domain.model import Curve
from bftrainer.domain.problem import Problem, TrainerDemand
from bftrainer.errors import NoFeasibleCountsError

LINEAR = Curve((1, 8), (1.0, 8.0))


def alike(count: int, *, current: tuple[int, ...] = (), cost_s: float = 0.0) -> tuple[TrainerDemand, ...]:
    held = (*current, *([0] * count))
    return tuple(TrainerDemand(f"t{j}", LINEAR, 1, 8, cost_s, cost_s, current=held[j]) for j in range(count))


def by_the_tie_rule(problem: Problem) -> tuple[int, ...] | None:
    """Largest gain, then fewest rescales, then fewest nodes, then the earlier trainer has more: all vectors, one by one."""
    options = [brute_force.sizes(c, problem.pool_size) for c in problem.demands]
    feasible = [v for v in product(*options) if sum(v) <= problem.pool_size]
    if not feasible:
        return None

    def rank(counts: tuple[int, ...]) -> tuple[float, int, int, tuple[int, ...]]:
        value = sum(gain(c, n, problem.forward_s) for c, n in zip(problem.demands, counts, strict=True))
        rescales = sum(n != c.standing for c, n in zip(problem.demands, counts, strict=True))
        return (value, -rescales, -sum(counts), counts)

    return max(feasible, key=rank)


@st.composite
def whole_problems(draw: st.DrawFn) -> Problem:
    """Problems whose gains are whole numbers: floats add them without rounding, so ties are ties."""
    demands, free = [], draw(st.integers(0, 10))
    for j in range(draw(st.integers(1, 4))):
        high = draw(st.integers(1, 5))
        low = draw(st.integers(1, high))
        rates = tuple(float(draw(st.integers(0, 4))) for _ in range(high))
        current = draw(st.integers(0, min(high, free)))
        free -= current
        costs = (float(draw(st.integers(0, 3))), float(draw(st.integers(0, 3))))
        demands.append(
            TrainerDemand(f"t{j}", Curve(tuple(range(1, high + 1)), rates), low, high, *costs, current=current)
        )
    return Problem(sum(c.current for c in demands) + free, float(draw(st.integers(0, 3))), tuple(demands))


@settings(max_examples=400, deadline=None)
@given(whole_problems())
def test_ties_are_broken_by_rule(problem: Problem) -> None:
    assert Exact().solve(problem).counts == by_the_tie_rule(problem)


def test_no_change_is_preferred_to_an_equal_change() -> None:
    assert Exact().solve(Problem(8, 60.0, alike(2, current=(3, 5)))).counts == (3, 5)


def test_of_equal_changes_the_fewest_rescales() -> None:
    # Two free nodes could go one each; giving both to one trainer rescales one trainer less.
    assert Exact().solve(Problem(8, 60.0, alike(2, current=(3, 3)))).counts == (5, 3)


def test_of_equal_totals_the_first_trainer_gets_most() -> None:
    # (0, 2, 0) and (1, 0, 1) are worth the same, take as many nodes and rescale as many trainers.
    first = TrainerDemand("a", Curve((1, 2), (2.0, 2.0)), 1, 2, 0.0, 1.0, current=2)
    second = TrainerDemand("b", Curve((1, 2), (3.0, 4.0)), 2, 2, 2.0, 3.0)
    third = TrainerDemand("c", Curve((1, 2), (2.0, 1.0)), 1, 2, 3.0, 1.0)
    problem = Problem(2, 3.0, (first, second, third))
    assert objective_value(problem, (0, 2, 0)) == objective_value(problem, (1, 0, 1))
    assert Exact().solve(problem).counts == by_the_tie_rule(problem) == (1, 0, 1)


def test_nodes_that_bring_nothing_are_left_in_the_pool() -> None:
    flat = TrainerDemand("t", Curve((1, 8), (5.0, 5.0)), 1, 8, 1.0, 1.0)
    assert Exact().solve(Problem(8, 60.0, (flat,))).counts == (1,)


def test_rescaling_must_pay_within_the_forward_looking_time() -> None:
    # From 4 to 5 nodes: +1 sample/s for T_fwd against 4 samples/s * 20 s.
    held = alike(1, current=(4,), cost_s=20.0)
    assert Exact().solve(Problem(5, 79.0, held)).counts == (4,)
    assert Exact().solve(Problem(5, 81.0, held)).counts == (5,)


def test_a_trainer_below_its_minimum_counts_as_one_at_0() -> None:
    curve = Curve((4, 8), (4.0, 8.0))
    hit = TrainerDemand("hit", curve, 4, 8, 1e6, 1e6, current=3)
    assert hit.standing == 0
    # It cannot stay at 3; starting again costs O(0) * R_up = 0, however large R_up.
    assert Exact().solve(Problem(4, 60.0, (hit,))).counts == (4,)
    assert Exact().solve(Problem(3, 60.0, (hit,))).counts == (0,)


def test_no_trainers_need_no_nodes() -> None:
    assert Exact().solve(Problem(5, 60.0, ())).counts == ()


def test_sizes_that_do_not_fit_are_refused_with_what_they_need() -> None:
    forced = TrainerDemand("t", LINEAR, 1, 8, 0.0, 0.0, sizes=(6, 8))
    with pytest.raises(NoFeasibleCountsError, match="add up to 6 nodes, but the pool has 5"):
        Exact().solve(Problem(5, 60.0, (forced,)))


@settings(max_examples=200, deadline=None)
@given(problems(max_trainers=6, max_pool=20))
def test_equal_problems_have_equal_answers_and_gains_agree_with_the_plain_formula(problem: Problem) -> None:
    table = gains(problem)
    for j, demand in enumerate(problem.demands):
        for n in range(demand.max_nodes + 1):
            assert table[j, n] == pytest.approx(gain(demand, n, problem.forward_s), rel=1e-9, abs=1e-6), (j, n)
    try:
        first = Exact().solve(problem)
    except NoFeasibleCountsError:
        return
    assert Exact().solve(problem) == first
