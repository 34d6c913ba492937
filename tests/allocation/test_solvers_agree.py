"""One optimum, however it is found: exact = HiGHS = Gurobi = brute force = the paper's model per
node.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import brute_force, oracle_per_node, policy_states, random_problems
from support.strategies import curves, problems

from bftrainer.config.pilot import DecisionsConfig, PilotConfig
from bftrainer.decide.allocation.chain import build_allocator
from bftrainer.decide.allocation.check import require_feasible
from bftrainer.decide.allocation.check_decision import check_counts
from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.gurobi import Gurobi
from bftrainer.decide.allocation.highs import Highs
from bftrainer.decide.allocation.objectives import (
    DEFAULT_OBJECTIVE,
    OBJECTIVES,
    equal_share,
    equal_share_rate,
)
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.ports import Allocator
from bftrainer.decide.domain.problem import Answer, Problem, Status, TrainerDemand
from bftrainer.decide.domain.state import State
from bftrainer.decide.policies.bftrainer import demands_of
from bftrainer.errors import NoFeasibleCountsError, Reason, SolverError
from bftrainer.pilot.decision_maker import settings_of

SOLVERS: tuple[Allocator, ...] = (Exact(), Highs(60.0), Gurobi(60.0))
BRUTE_FORCE_UP_TO = 20_000


def solved(solver: Allocator, problem: Problem) -> Answer | None:
    """The proven optimum, its counts checked; None for infeasible, which each solver says in its
    own way.
    """
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
    at_stake = sum(
        (problem.forward_s + c.scale_up_s + c.scale_down_s) * max(c.value.per_s)
        for c in problem.demands
    )
    return value == pytest.approx(other, rel=1e-6, abs=1e-9 * at_stake)


def agreed(seed: int, problem: Problem, best: Answer, answers: dict[str, Answer | None]) -> bool:
    """Assert that all answers are as good as the best, and as brute force's; whether brute force
    could follow.
    """
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
@pytest.mark.parametrize("kind", [random_problems.mixed, random_problems.overlapping])
def test_thousand_random_problems_have_one_optimum(
    kind: Callable[[random.Random], Problem],
) -> None:
    """``overlapping``: old nodes train on while new ones start; stalls, pending starts, horizons
    too short for both.
    """
    infeasible = followed = 0
    demands: list[TrainerDemand] = []
    for seed in range(1000):
        problem = kind(random.Random(seed))
        demands += problem.demands
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
    # The mix is the one that was asked for; a generator that stops making hard problems must not
    # pass unseen.
    assert followed >= 300
    if kind is random_problems.overlapping:
        assert sum(c.pending is not None for c in demands) >= 500
    else:
        assert 1 <= infeasible <= 50
        assert 0.10 <= sum(c.sizes is not None for c in demands) / len(demands) <= 0.20


@settings(max_examples=150, deadline=None)
@given(problems())
@example(
    Problem(0, 120.0, (TrainerDemand("t", Curve((1, 2), (1.0, 2.0)), 1, 2, 0.0, 0.0),))
)  # nothing to give
@example(
    Problem(3, 120.0, (TrainerDemand("t", Curve((4, 8), (1.0, 2.0)), 4, 8, 0.0, 0.0),))
)  # the minimum is too much
@example(
    Problem(3, 120.0, (TrainerDemand("t", Curve((4, 8), (1.0, 2.0)), 4, 8, 9.0, 9.0, current=3),))
)  # below its minimum
@example(
    Problem(2, 0.0, (TrainerDemand("t", Curve((1, 2), (5.0, 9.0)), 1, 2, 9.0, 9.0, current=1),))
)  # no time to gain
@example(
    Problem(
        3,
        9.0,
        (TrainerDemand("t", Curve((1, 3), (1.0, 2.0)), 1, 3, 9.0, 9.0, current=2, sizes=(1, 3)),),
    )
)
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
def test_the_papers_model_per_node_has_the_same_optimum(
    kind: Callable[[random.Random], Problem],
) -> None:
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
            assert same(answer.objective_value, ending.objective, problem), (seed, answer, ending)
        held += 1
    assert held >= 60


@pytest.mark.parametrize("name", ["auto", "exact", "highs", "gurobi", "milp"])
def test_no_trainers_is_an_answer(name: str) -> None:
    assert build_allocator(name, 10.0).solve(Problem(7, 120.0, ())).counts == ()


# --- The default objective, relative speed: throughput where trainers are alike; where they differ,
# none takes all nodes

CHEAP = Curve((1, 2, 4, 8, 16), (7100.0, 13100.0, 21100.0, 40500.0, 74000.0))
COSTLY = Curve((1, 2, 4, 8, 16), (1000.0, 2000.0, 3800.0, 7600.0, 15000.0))
THRASHES = Curve(
    (1, 2, 4, 8, 16), (10.0, 400.0, 780.0, 1500.0, 2900.0)
)  # its single node is 20 times too slow
RELATIVE = OBJECTIVES[DEFAULT_OBJECTIVE]


def state_of(curves: list[Curve], pool: int, **others: int) -> State:
    trainers = [
        policy_states.active(f"t{i}", curve=curve, **others) for i, curve in enumerate(curves)
    ]
    return policy_states.fresh(trainers, pool)


def counts(curves: list[Curve], pool: int, objective: str = DEFAULT_OBJECTIVE) -> tuple[int, ...]:
    demands = demands_of(state_of(curves, pool), OBJECTIVES[objective])
    return Exact().solve(Problem(pool, 120.0, demands)).counts


def test_it_is_the_default_with_a_number_of_trainers() -> None:
    assert (
        settings_of(PilotConfig(decisions=DecisionsConfig(max_parallel=10))).objective
        == "relative-speed"
    )


@given(curves(last=16), st.integers(1, 6), st.integers(0, 64))
def test_for_trainers_that_are_alike_it_is_throughput_to_the_last_bit(
    curve: Curve, trainers: int, pool: int
) -> None:
    state = state_of([curve] * trainers, pool, min_nodes=curve.nodes[0], max_nodes=curve.nodes[-1])
    assert demands_of(state, RELATIVE) == demands_of(state, OBJECTIVES["throughput"])


@given(curves(last=16), st.floats(0.01, 40.0))
def test_nodes_beyond_the_share_are_worth_no_more_than_their_number(
    curve: Curve, share: float
) -> None:
    trainer = policy_states.trainer("t", curve.nodes[0], curve.nodes[-1], curve=curve)
    at_share = equal_share_rate(trainer, share)
    for n in range(curve.nodes[0], curve.nodes[-1] + 1):
        assert curve.at(n) <= max(1.0, n / share) * at_share * (1 + 1e-9)


def test_a_share_is_reached_in_turns_of_larger_and_smaller_sizes() -> None:
    def rate(curve: Curve, share: float, **sizes: object) -> float:
        return equal_share_rate(Trainer("t", curve, 1, 16, 18.0, 12.0, **sizes), share)  # type: ignore[arg-type]

    assert rate(CHEAP, 4.0) == pytest.approx(
        13100 + (40500 - 13100) * 2 / 6
    )  # 2 and 8 nodes in turns beat 4
    assert rate(THRASHES, 1.0) == pytest.approx(200.0)  # 2 nodes for half of the time
    assert rate(CHEAP, 0.5) == pytest.approx(3550.0)
    assert rate(CHEAP, 100.0) == 74000.0
    assert rate(CHEAP, 2.0, sizes=(4, 16)) == pytest.approx(21100 / 2)
    assert equal_share_rate(Trainer("t", COSTLY, 4, 16, 18.0, 12.0), 1.0) == pytest.approx(950.0)


@pytest.mark.parametrize(
    ("largest", "pool", "expected"),
    [
        ((16, 16, 16), 12, 4.0),
        ((2, 16, 16), 20, 9.0),
        ((2, 4, 16), 8, 3.0),
        ((2, 2), 9, 9.0),
        ((16, 16), 1, 0.5),
    ],
)
def test_a_share_includes_what_smaller_trainers_cannot_use(
    largest: tuple[int, ...], pool: int, expected: float
) -> None:
    trainers = [policy_states.trainer(f"t{i}", max_nodes=n) for i, n in enumerate(largest)]
    assert equal_share(trainers, pool) == expected


def test_cheap_samples_do_not_take_all_nodes() -> None:
    """Throughput leaves the slow models at 0 nodes, where they keep their places."""
    assert counts([CHEAP, COSTLY] * 3, 12, "throughput")[1::2] == (0, 0, 0)
    assert min(counts([CHEAP, COSTLY] * 3, 12)) >= 1


@pytest.mark.parametrize("pool", [4, 5, 6, 8, 10, 16, 32])
def test_a_node_that_thrashes_does_not_take_the_pool(pool: int) -> None:
    """Per rate of one node, the thrashing trainer seems 290 times as fast on 16 nodes and gets
    whatever there is.
    """
    mixed = [CHEAP, COSTLY, CHEAP, COSTLY, THRASHES]
    by_one_node = counts(mixed, pool, "scaling-efficiency")[-1]
    assert by_one_node == min(pool, 16)
    assert counts(mixed, pool)[-1] <= max(2, 2 * pool // len(mixed))


@pytest.mark.parametrize("objective", ["priority", "ageing"])
@pytest.mark.parametrize("pool", [5, 10, 16])
def test_no_weighted_objective_gives_the_pool_to_a_node_that_thrashes(
    objective: str, pool: int
) -> None:
    """Divided by O(1), twice the priority or an hour's wait is nothing beside a model that is 20
    times slower on one node.
    """
    mixed = [CHEAP, COSTLY, CHEAP, COSTLY, THRASHES]
    assert counts(mixed, pool, objective) == counts(mixed, pool)


def test_twice_the_priority_is_twice_the_value_for_every_model() -> None:
    state = state_of([CHEAP, COSTLY, THRASHES], 12)
    twice = [replace(each, trainer=replace(each.trainer, priority=2.0)) for each in state.active]
    value = OBJECTIVES["priority"].of
    for one, two in zip(value(state), value(replace(state, active=tuple(twice))), strict=True):
        assert two.per_s == pytest.approx([2 * rate for rate in one.per_s])


@given(st.floats(0.9, 1.1), st.integers(5, 60))
def test_an_error_in_the_rate_of_one_node_moves_no_value_by_more(error: float, pool: int) -> None:
    """Ten percent in a learned O(1): no weight changes by more than ten percent."""
    off = Curve(CHEAP.nodes, (error * CHEAP.per_s[0], *CHEAP.per_s[1:]))
    trainers = [CHEAP, COSTLY, COSTLY, CHEAP, COSTLY]
    known = RELATIVE.of(state_of(trainers, pool))
    noisy = RELATIVE.of(state_of([off, *trainers[1:]], pool))
    for before, after in zip(known, noisy, strict=True):
        for n in (2, 4, 8, 16):
            ratio = (after.at(n) / noisy[1].at(n)) / (before.at(n) / known[1].at(n))
            assert 0.9 <= ratio <= 1 / 0.9


def test_a_trainer_that_makes_no_progress_is_worth_nothing() -> None:
    stuck = Curve((1, 16), (0.0, 0.0))
    assert counts([stuck, CHEAP], 8) == (0, 8)
    assert counts([stuck, stuck], 8) == (0, 0)
