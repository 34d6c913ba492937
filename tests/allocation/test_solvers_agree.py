"""One optimum, however it is found: exact = HiGHS = Gurobi = brute force = the paper's model per node."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import brute_force
import oracle_per_node
import pytest
import random_problems
from hypothesis import example, given, settings
from strategies import problems

from bftrainer.allocation.chain import build_allocator
from bftrainer.allocation.check import require_feasible
from bftrainer.allocation.check_decision import check_counts
from bftrainer.allocation.exact import Exact
from bftrainer.allocation.gurobi import Gurobi
from bftrainer.allocation.highs import Highs
from bftrainer.allocation.placement import check_placement, place
from bftrainer.domain.fragments import slot_name
from bftrainer.domain.model import Curve
from bftrainer.domain.ports import Allocator
from bftrainer.domain.problem import Answer, Problem, Status, TrainerDemand
from bftrainer.errors import NoFeasibleCountsError, Reason, SolverError

SOLVERS: tuple[Allocator, ...] = (Exact(), Highs(60.0), Gurobi(60.0))
BRUTE_FORCE_UP_TO = 20_000


def solved(solver: Allocator, problem: Problem) -> Answer | None:
    """The proven optimum, its counts checked; None for infeasible, which each solver says in its own way."""
    try:
        answer = solver.solve(problem)
    except NoFeasibleCountsError:
        return None
    except SolverError as error:
        if error.reason is Reason.INFEASIBLE:
            return None
        raise
    assert answer.status is Status.OPTIMAL
    check_counts(problem.demands, problem.pool_size, answer.counts)
    return answer


def same(value: float, other: float, problem: Problem) -> bool:
    """Equal to 1e-6 of the optimum; where gains and costs cancel, to 1e-9 of what is at stake."""
    at_stake = sum((problem.forward_s + c.scale_up_s + c.scale_down_s) * max(c.value.per_s) for c in problem.demands)
    return value == pytest.approx(other, rel=1e-6, abs=1e-9 * at_stake)


def agreed(seed: int, problem: Problem, best: Answer, answers: dict[str, Answer | None]) -> bool:
    """Assert that all answers are as good as the best, and as brute force's; whether brute force could follow."""
    for answer in answers.values():
        assert answer is not None, (seed, answers)
        assert same(answer.objective_value, best.objective_value, problem), (seed, answers)
    if brute_force.combinations(problem) > BRUTE_FORCE_UP_TO:
        return False
    value = brute_force.optimum(problem)
    assert value is not None
    assert same(best.objective_value, value, problem), (seed, best, value)
    return True


@pytest.mark.slow
def test_thousand_random_problems_have_one_optimum() -> None:
    infeasible = followed = listed = demands = 0
    for seed in range(1000):
        problem = random_problems.mixed(random.Random(seed))
        demands += len(problem.demands)
        listed += sum(c.sizes is not None for c in problem.demands)
        answers = {solver.name: solved(solver, problem) for solver in SOLVERS}
        best = answers["exact"]
        if best is None:
            assert not any(answers.values()), (seed, answers)
            with pytest.raises(NoFeasibleCountsError):
                require_feasible(problem)
            infeasible += 1
            continue
        require_feasible(problem)
        followed += agreed(seed, problem, best, answers)
    # The mix is the one that was asked for; a generator that stops making hard problems must not pass unseen.
    assert followed >= 300
    assert 1 <= infeasible <= 50
    assert 0.10 <= listed / demands <= 0.20


@pytest.mark.slow
def test_thousand_random_problems_of_two_costs_have_one_optimum() -> None:
    """Old nodes train on while new ones start: stalled trainers, pending starts, horizons that are too short for both."""
    followed = pending = 0
    for seed in range(1000):
        problem = random_problems.overlapping(random.Random(seed))
        pending += sum(c.pending is not None for c in problem.demands)
        answers = {solver.name: solved(solver, problem) for solver in SOLVERS}
        best = answers["exact"]
        if best is None:
            assert not any(answers.values()), (seed, answers)
            continue
        followed += agreed(seed, problem, best, answers)
    assert followed >= 300
    assert pending >= 500


def test_200_problems_of_slots_have_one_optimum_and_it_can_be_placed() -> None:
    """The exact program, HiGHS and brute force, on pools that are the slots of parts of uneven size."""
    followed = 0
    for seed in range(200):
        rng = random.Random(seed)
        sizes = [rng.randint(1, 8) for _ in range(rng.randint(1, 3))]
        pool = [slot_name(f"n{i}", "7", index) for i, size in enumerate(sizes) for index in range(size)]
        problem = random_problems.small(rng, len(pool))
        rng.shuffle(pool)
        free = iter(pool)
        held = [frozenset(next(free) for _ in range(c.current)) for c in problem.demands]
        answers = {solver.name: solved(solver, problem) for solver in (Exact(), Highs(60.0))}
        best = answers["exact"]
        assert best is not None
        followed += agreed(seed, problem, best, answers)
        check_placement(frozenset(pool), held, best.counts, place(frozenset(pool), held, best.counts))
    assert followed == 200


@settings(max_examples=150, deadline=None)
@given(problems())
@example(Problem(0, 120.0, (TrainerDemand("t", Curve((1, 2), (1.0, 2.0)), 1, 2, 0.0, 0.0),)))  # nothing to give
@example(Problem(3, 120.0, (TrainerDemand("t", Curve((4, 8), (1.0, 2.0)), 4, 8, 0.0, 0.0),)))  # the minimum is too much
@example(
    Problem(3, 120.0, (TrainerDemand("t", Curve((4, 8), (1.0, 2.0)), 4, 8, 9.0, 9.0, current=3),))
)  # below its minimum
@example(
    Problem(2, 0.0, (TrainerDemand("t", Curve((1, 2), (5.0, 9.0)), 1, 2, 9.0, 9.0, current=1),))
)  # no time to gain
@example(Problem(3, 9.0, (TrainerDemand("t", Curve((1, 3), (1.0, 2.0)), 1, 3, 9.0, 9.0, current=2, sizes=(1, 3)),)))
def test_brute_force_finds_nothing_better(problem: Problem) -> None:
    value = brute_force.optimum(problem)
    for solver in SOLVERS:
        answer = solved(solver, problem)
        if value is None:
            assert answer is None, solver.name
        else:
            assert answer is not None, solver.name
            assert same(answer.objective_value, value, problem), (solver.name, answer, value)


def without_sizes(seed: int, kind: Callable[[random.Random], Problem]) -> Problem:
    """Small enough for one binary per trainer and node, and only what the paper's model knows."""
    problem = kind(random.Random(seed))
    kept = [j for j, c in enumerate(problem.demands) if c.sizes is None][:6]
    return replace(
        problem,
        demands=tuple(problem.demands[j] for j in kept),
        weights=tuple(problem.weights[j] for j in kept if problem.weights),
    )


@pytest.mark.parametrize("kind", [random_problems.mixed, random_problems.overlapping])
def test_the_papers_model_per_node_has_the_same_optimum(kind: Callable[[random.Random], Problem]) -> None:
    held = 0
    for seed in range(5000, 5200):
        problem = without_sizes(seed, kind)
        if not problem.demands or problem.pool_size > 30:
            continue
        ending = oracle_per_node.solve(problem)
        assert ending.proven, seed
        check_counts(problem.demands, problem.pool_size, ending.counts)
        for solver in SOLVERS:
            answer = solved(solver, problem)
            assert answer is not None
            assert same(answer.objective_value, ending.objective, problem), (seed, answer, ending)
        held += 1
    assert held >= 60


def test_the_printed_big_m_forbids_to_change_by_more_than_half_the_pool() -> None:
    """3.1 asks of M only that it is above |N|; with |N| + 1 Eqn 10 leaves d <= M / 2 for a change by d nodes."""
    ten_nodes = Problem(10, 120.0, (TrainerDemand("t", Curve((1, 10), (1.0, 10.0)), 1, 10, 20.0, 10.0),))
    printed = oracle_per_node.solve(ten_nodes, big_m=10 + 1)
    repaired = oracle_per_node.solve(ten_nodes)
    assert printed.proven
    assert printed.counts == (5,)
    assert repaired.counts == (10,) == Exact().solve(ten_nodes).counts


@pytest.mark.parametrize("name", ["auto", "exact", "highs", "gurobi"])
def test_a_trainer_below_its_minimum_counts_as_one_at_0(name: str) -> None:
    """After a loss it holds 3 nodes and needs 4: it starts without a cost, or its nodes go to who can use them."""
    lame = TrainerDemand("lame", Curve((4, 8), (400.0, 800.0)), 4, 8, 1000.0, 1000.0, current=3)
    # Had its 3 nodes counted as running, growing to 4 would cost 300 * 1000 against a gain of 400 * 120.
    assert build_allocator(name, 10.0).solve(Problem(4, 120.0, (lame,))).counts == (4,)
    other = TrainerDemand("other", Curve((1, 3), (1.0, 3.0)), 1, 3, 0.0, 0.0)
    answer = build_allocator(name, 10.0).solve(Problem(3, 120.0, (lame, other)))
    assert answer.counts == (0, 3)
    assert answer.objective_value == pytest.approx(360.0)


@pytest.mark.parametrize("name", ["auto", "exact", "highs", "gurobi"])
def test_a_cost_that_does_not_pay_within_the_forward_time_keeps_the_map(name: str) -> None:
    demand = TrainerDemand("t", Curve((1, 2, 4), (100.0, 190.0, 350.0)), 1, 4, 60.0, 60.0, current=2)
    # Growing to 4 gains 160 a second and costs 190 * 60 samples: it pays after 71.25 s.
    assert build_allocator(name, 10.0).solve(Problem(4, 71.0, (demand,))).counts == (2,)
    assert build_allocator(name, 10.0).solve(Problem(4, 72.0, (demand,))).counts == (4,)


@pytest.mark.parametrize("name", ["auto", "exact", "highs", "gurobi"])
def test_no_trainers_is_an_answer(name: str) -> None:
    assert build_allocator(name, 10.0).solve(Problem(7, 120.0, ())).counts == ()
