from __future__ import annotations

import random

import pytest
from support import random_problems
from support.fakes import FakeAllocator, failing

from bftrainer.decide.allocation.chain import Chain, build_allocator
from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.gains import objective_value
from bftrainer.decide.allocation.gurobi import Gurobi
from bftrainer.decide.domain.model import Curve
from bftrainer.decide.domain.problem import Fallback, Problem, Status, TrainerDemand
from bftrainer.errors import NoFeasibleCountsError, Reason, SolverError, UnknownNameError

LINE = Curve((1, 10), (10.0, 100.0))
# Two trainers on 10 nodes; 3 and 4 are held. Growing is worth it, and costs the one with fewer
# nodes less.
TWO = Problem(
    10,
    120.0,
    tuple(
        TrainerDemand(f"t{j}", LINE, 1, 10, 1.0, 1.0, current) for j, current in ((0, 3), (1, 4))
    ),
)
OPTIMUM, GOOD, CURRENT, POOR = (6, 4), (5, 4), (3, 4), (1, 1)
# No legal current map: trainer t holds 2 nodes and may have 1 or 4 only.
STUCK = Problem(6, 120.0, (TrainerDemand("t", LINE, 1, 10, 1.0, 1.0, 2, sizes=(1, 4)),))

REMEDY = "install it with: pip install 'bftrainer[gurobi]'"


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_passes_the_turn_on_and_is_kept(reason: Reason) -> None:
    last = FakeAllocator("last", OPTIMUM)
    answer = Chain((failing("first", reason), failing("second", Reason.NUMERICAL), last)).solve(TWO)
    assert (answer.counts, answer.solver, answer.status) == (OPTIMUM, "last", Status.OPTIMAL)
    assert answer.fallbacks == (
        Fallback("first", reason, "first made this up"),
        Fallback("second", Reason.NUMERICAL, "second made this up"),
    )


def test_the_first_proven_optimum_ends_the_chain() -> None:
    second = FakeAllocator("second", OPTIMUM)
    answer = Chain((FakeAllocator("first", OPTIMUM), second)).solve(TWO)
    assert answer.solver == "first"
    assert answer.fallbacks == ()
    assert second.calls == 0


@pytest.mark.parametrize("counts", [(11, 0), (3,), (3, 8), (-1, 4), (3, 4, 0)])
def test_an_answer_that_breaks_a_rule_is_not_used(counts: tuple[int, ...]) -> None:
    answer = Chain((Lying("liar", counts), FakeAllocator("honest", OPTIMUM))).solve(TWO)
    assert answer.solver == "honest"
    assert [(f.solver, f.reason) for f in answer.fallbacks] == [("liar", Reason.REJECTED)]


def test_an_answer_that_claims_more_than_its_counts_are_worth_is_not_used() -> None:
    answer = Chain(
        (FakeAllocator("boaster", GOOD, overclaim=5.0), FakeAllocator("honest", OPTIMUM))
    ).solve(TWO)
    assert answer.solver == "honest"
    assert answer.fallbacks[0].reason is Reason.REJECTED


class Lying(FakeAllocator):
    """Its counts may be such that they have no value."""

    def solve(self, problem: Problem):  # type: ignore[no-untyped-def]
        honest = FakeAllocator(self.name, OPTIMUM).solve(problem)
        return type(honest)(self.counts, honest.objective_value, self.name, Status.OPTIMAL)


def slow(name: str, counts: tuple[int, ...]) -> FakeAllocator:
    return FakeAllocator(name, counts, Status.TIME_LIMIT)


def test_a_time_limit_passes_the_turn_on() -> None:
    answer = Chain((slow("slow", GOOD), FakeAllocator("last", OPTIMUM))).solve(TWO)
    assert (answer.counts, answer.status) == (OPTIMUM, Status.OPTIMAL)
    assert answer.fallbacks == (Fallback("slow", Reason.TIME_LIMIT, "relative gap 0.25"),)


def test_of_several_time_limits_the_best_counts_win() -> None:
    chain = Chain(
        (slow("a", POOR), slow("b", GOOD), slow("c", CURRENT), failing("d", Reason.NUMERICAL))
    )
    answer = chain.solve(TWO)
    assert (answer.counts, answer.solver, answer.status, answer.gap) == (
        GOOD,
        "b",
        Status.TIME_LIMIT,
        0.25,
    )
    assert [f.reason for f in answer.fallbacks] == [Reason.TIME_LIMIT] * 3 + [Reason.NUMERICAL]


def test_a_remembered_answer_that_is_worth_more_than_a_claimed_optimum_wins() -> None:
    answer = Chain((slow("slow", GOOD), FakeAllocator("wrong", POOR))).solve(TWO)
    assert (answer.counts, answer.status) == (GOOD, Status.TIME_LIMIT)


def test_a_proof_of_what_was_remembered_is_an_optimum() -> None:
    answer = Chain((slow("slow", OPTIMUM), FakeAllocator("proof", OPTIMUM))).solve(TWO)
    assert (answer.solver, answer.status) == ("proof", Status.OPTIMAL)


def test_a_current_map_better_than_the_incumbent_is_kept() -> None:
    answer = Chain((slow("slow", POOR),)).solve(TWO)
    assert (answer.counts, answer.status) == (CURRENT, Status.KEPT)
    assert answer.gap > 0


def test_when_every_solver_fails_the_current_map_is_kept() -> None:
    answer = Chain((failing("a", Reason.TOO_LARGE), failing("b", Reason.NUMERICAL))).solve(TWO)
    assert (answer.counts, answer.status, answer.solver) == (CURRENT, Status.KEPT, "auto")
    assert answer.objective_value == objective_value(TWO, CURRENT)
    assert len(answer.fallbacks) == 2


def test_without_a_legal_current_map_the_failure_is_told() -> None:
    with pytest.raises(
        SolverError, match=r"a: time limit: a made this up; b: numerical trouble: b made this up"
    ) as told:
        Chain((failing("a", Reason.TIME_LIMIT), failing("b", Reason.NUMERICAL))).solve(STUCK)
    assert told.value.reason is Reason.NUMERICAL


@pytest.mark.parametrize("reason", [Reason.NO_PACKAGE, Reason.NO_LICENSE])
def test_a_solver_that_is_not_there_is_an_error_not_a_kept_map(reason: Reason) -> None:
    """Else ``--solver gurobi`` without gurobipy would keep every trainer where it is, for ever."""
    with pytest.raises(SolverError) as told:
        Chain((failing("gurobi", reason),), "gurobi").solve(TWO)
    assert (told.value.solver, told.value.reason) == ("gurobi", reason)


def test_what_cannot_fit_is_no_solver_failure() -> None:
    demands = tuple(TrainerDemand(f"t{j}", LINE, 1, 10, 1.0, 1.0, sizes=(4, 8)) for j in range(3))
    never = FakeAllocator("never")
    with pytest.raises(NoFeasibleCountsError, match="add up to 12 nodes, but the pool has 11"):
        Chain((never,)).solve(Problem(11, 120.0, demands))
    assert never.calls == 0
    assert Chain((Exact(),)).solve(Problem(12, 120.0, demands)).counts == (4, 4, 4)


def test_a_solver_that_wrongly_says_infeasible_passes_its_turn_on() -> None:
    answer = Chain((failing("wrong", Reason.INFEASIBLE), Exact())).solve(TWO)
    assert answer.status is Status.OPTIMAL
    assert answer.fallbacks[0].reason is Reason.INFEASIBLE


def test_auto_is_exact_alone_and_asks_no_milp_solver() -> None:
    auto = build_allocator("auto", 10.0)
    assert isinstance(auto, Chain)
    assert auto.solvers == (Exact(),)


def test_milp_without_gurobi_uses_highs() -> None:
    def no_gurobipy() -> object:
        raise ModuleNotFoundError("No module named 'gurobipy'")

    milp = build_allocator("milp", 10.0)
    assert isinstance(milp, Chain)
    gurobi, *others = milp.solvers
    assert isinstance(gurobi, Gurobi)
    answer = Chain((Gurobi(10.0, load=no_gurobipy), *others)).solve(TWO)
    assert (answer.solver, answer.status) == ("highs", Status.OPTIMAL)
    assert answer.fallbacks == (
        Fallback("gurobi", Reason.NO_PACKAGE, f"No module named 'gurobipy'; {REMEDY}"),
    )


def test_milp_with_no_time_at_all_is_exact() -> None:
    problem = random_problems.like_table_2(random.Random(3), 60, 400)
    answer = build_allocator("milp", 0.0).solve(problem)
    assert (answer.solver, answer.status, answer.counts) == (
        "exact",
        Status.OPTIMAL,
        Exact().solve(problem).counts,
    )
    assert [(f.solver, f.reason) for f in answer.fallbacks] == [
        ("gurobi", Reason.TIME_LIMIT),
        ("highs", Reason.TIME_LIMIT),
    ]


@pytest.mark.parametrize("name", ["gurobi", "milp"])
def test_a_pilot_does_not_use_the_restricted_license_unasked(name: str) -> None:
    allocator = build_allocator(name, 10.0, restricted_license=False)
    if name == "gurobi":
        with pytest.raises(SolverError, match=r"forbids production; set GRB_LICENSE_FILE") as told:
            allocator.solve(TWO)
        assert (told.value.reason, told.value.exit_status) == (Reason.NO_LICENSE, 2)
    else:
        answer = allocator.solve(TWO)
        assert (answer.solver, answer.status) == ("highs", Status.OPTIMAL)
        assert [fallback.reason for fallback in answer.fallbacks] == [Reason.NO_LICENSE]


@pytest.mark.parametrize("name", ["auto", "exact", "highs", "gurobi", "milp"])
def test_each_name_builds_its_allocator(name: str) -> None:
    allocator = build_allocator(name, 10.0)
    assert allocator.name == name
    answer = allocator.solve(TWO)
    assert answer.solver == {"auto": "exact", "milp": "gurobi"}.get(name, name)
    assert answer.objective_value == pytest.approx(objective_value(TWO, OPTIMUM))


def test_an_unknown_solver_lists_the_valid_ones() -> None:
    with pytest.raises(
        UnknownNameError, match=r"did you mean 'highs'\? valid: auto, exact, gurobi, highs, milp"
    ):
        build_allocator("higs", 10.0)
