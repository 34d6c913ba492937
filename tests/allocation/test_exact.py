"""The exact solver's tie rule, and that nothing but the problem decides."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import brute_force
from support.random_problems import mixed
from support.strategies import problems

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.gains import gain, gains, objective_value
from bftrainer.decide.allocation.what_if import next_sizes, what_if
from bftrainer.decide.domain.model import Curve
from bftrainer.decide.domain.problem import Problem, TrainerDemand
from bftrainer.errors import InvalidValueError, NoFeasibleCountsError


def by_the_tie_rule(problem: Problem) -> tuple[int, ...] | None:
    """Largest gain, then fewest rescales, then fewest nodes, then the earlier trainer has more: all
    vectors, one by one.
    """
    options = [brute_force.sizes(c, problem.pool_size) for c in problem.demands]
    feasible = [v for v in product(*options) if sum(v) <= problem.pool_size]
    if not feasible:
        return None

    def rank(counts: tuple[int, ...]) -> tuple[float, int, int, tuple[int, ...]]:
        value = sum(
            gain(c, n, problem.forward_s) for c, n in zip(problem.demands, counts, strict=True)
        )
        rescales = sum(n != c.standing for c, n in zip(problem.demands, counts, strict=True))
        return (value, -rescales, -sum(counts), counts)

    return max(feasible, key=rank)


@st.composite
def whole_problems(draw: st.DrawFn) -> Problem:
    """Problems whose gains are whole numbers: floats add them without rounding, so ties are
    ties.
    """
    demands, free = [], draw(st.integers(0, 10))
    for j in range(draw(st.integers(1, 4))):
        high = draw(st.integers(1, 5))
        low = draw(st.integers(1, high))
        rates = tuple(float(draw(st.integers(0, 4))) for _ in range(high))
        current = draw(st.integers(0, min(high, free)))
        free -= current
        costs = (float(draw(st.integers(0, 3))), float(draw(st.integers(0, 3))))
        demands.append(
            TrainerDemand(
                f"t{j}", Curve(tuple(range(1, high + 1)), rates), low, high, *costs, current=current
            )
        )
    return Problem(
        sum(c.current for c in demands) + free, float(draw(st.integers(0, 3))), tuple(demands)
    )


@settings(max_examples=400, deadline=None)
@given(whole_problems())
def test_ties_are_broken_by_rule(problem: Problem) -> None:
    assert Exact().solve(problem).counts == by_the_tie_rule(problem)


@settings(max_examples=200, deadline=None)
@given(problems(max_trainers=6, max_pool=20))
def test_equal_problems_have_equal_answers_and_gains_agree_with_the_plain_formula(
    problem: Problem,
) -> None:
    table = gains(problem)
    for j, demand in enumerate(problem.demands):
        for n in range(demand.max_nodes + 1):
            assert table[j, n] == pytest.approx(
                gain(demand, n, problem.forward_s), rel=1e-9, abs=1e-6
            ), (j, n)
    try:
        first = Exact().solve(problem)
    except NoFeasibleCountsError:
        return
    assert Exact().solve(problem) == first


# --- What one node more or less would bring is what a solver says when that count is the only legal
# size


def feasible(rng: random.Random) -> Problem:
    while True:
        problem = replace(mixed(rng), weights=())
        try:
            Exact().solve(problem)
        except NoFeasibleCountsError:
            continue
        return problem


def forced(problem: Problem, j: int, count: int) -> Problem:
    demands = list(problem.demands)
    demands[j] = replace(demands[j], sizes=(count,))
    return replace(problem, demands=tuple(demands))


def test_200_random_states_agree_with_the_solver() -> None:
    rng = random.Random(20_261_121)
    compared = impossible = 0
    for _ in range(200):
        problem = feasible(rng)
        answer = Exact().solve(problem)
        j = rng.randrange(len(problem.demands))
        for count in next_sizes(problem.demands[j], answer.counts[j]):
            if count is None:
                continue
            found = what_if(problem, answer.counts, j, count)
            try:
                best = Exact().solve(forced(problem, j, count))
            except (InvalidValueError, NoFeasibleCountsError):
                assert found is None
                impossible += 1
                continue
            assert best.counts[j] == count
            scale = max(abs(answer.objective_value), abs(best.objective_value), 1.0)
            assert math.isclose(
                found.change, best.objective_value - answer.objective_value, abs_tol=1e-9 * scale
            )
            compared += 1
    assert compared >= 200, (compared, impossible)


COSTLY = TrainerDemand("t2", Curve((1,), (6_861_000.0,)), 1, 1, 0.0, 313.0, current=1)


@settings(deadline=None)
@given(problems())
@example(
    Problem(
        2,
        0.03125,
        (
            *(
                TrainerDemand(f"t{j}", Curve((1,), (1.0 + j,)), 1, 1, 0.0, 0.0, 1 - j)
                for j in (0, 1)
            ),
            COSTLY,
        ),
    )
)
def test_no_forced_count_beats_the_optimum_and_the_parts_add_up(problem: Problem) -> None:
    try:
        answer = Exact().solve(problem)
    except NoFeasibleCountsError:
        return
    # The exact solver compares to 1e-10 of the largest gain or loss, which may cancel or be in no
    # optimum.
    scale = sum(
        (problem.forward_s + c.scale_up_s + c.scale_down_s) * max(c.value.per_s)
        for c in problem.demands
    )
    for j, demand in enumerate(problem.demands):
        for count in next_sizes(demand, answer.counts[j]):
            found = None if count is None else what_if(problem, answer.counts, j, count)
            if found is None:
                continue
            assert found.change <= 1e-9 * scale
            total = found.own + sum(s.gain for s in found.others)
            assert math.isclose(found.change, total, rel_tol=1e-9, abs_tol=1e-9 * scale)
            counts = list(answer.counts)
            counts[j] = found.count
            for shift in found.others:
                i = next(i for i, c in enumerate(problem.demands) if c.id == shift.id)
                assert counts[i] == shift.before
                counts[i] = shift.after
            assert math.isclose(
                objective_value(problem, counts) - answer.objective_value,
                found.change,
                rel_tol=1e-9,
                abs_tol=1e-9 * scale,
            )
