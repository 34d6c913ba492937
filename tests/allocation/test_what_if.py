"""What one node more or less would bring is what a solver says when that count is the only legal size."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from hypothesis import example, given, settings
from random_problems import mixed
from strategies import problems

from bftrainer.allocation.exact import Exact
from bftrainer.allocation.gains import objective_value
from bftrainer.allocation.what_if import next_sizes, what_if
from bftrainer.domain.model import Curve
from bftrainer.domain.problem import Problem, TrainerDemand
from bftrainer.errors import InvalidValueError, NoFeasibleCountsError


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
            assert found is not None
            assert best.counts[j] == count
            scale = max(abs(answer.objective_value), abs(best.objective_value), 1.0)
            assert math.isclose(found.change, best.objective_value - answer.objective_value, abs_tol=1e-9 * scale)
            compared += 1
    assert compared >= 200, (compared, impossible)


COSTLY = TrainerDemand("t2", Curve((1,), (6_861_000.0,)), 1, 1, 0.0, 313.0, current=1)


@settings(deadline=None)
@given(problems())
@example(
    Problem(
        2, 0.03125, (*(TrainerDemand(f"t{j}", Curve((1,), (1.0 + j,)), 1, 1, 0.0, 0.0, 1 - j) for j in (0, 1)), COSTLY)
    )
)
def test_no_forced_count_beats_the_optimum_and_the_parts_add_up(problem: Problem) -> None:
    try:
        answer = Exact().solve(problem)
    except NoFeasibleCountsError:
        return
    # The exact solver compares to 1e-10 of the largest gain or loss, which may cancel or be in no optimum.
    scale = sum((problem.forward_s + c.scale_up_s + c.scale_down_s) * max(c.value.per_s) for c in problem.demands)
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
