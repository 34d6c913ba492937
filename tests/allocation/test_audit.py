"""The comparison of a decision with the MILP: equal, differing both ways, and skipped."""

from __future__ import annotations

import random

import pytest
from support import random_problems
from support.fakes import FakeAllocator

from bftrainer.decide.allocation.audit import AuditResult, audit_solver, audited
from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.gurobi import Gurobi
from bftrainer.decide.allocation.highs import Highs
from bftrainer.decide.domain.model import Curve
from bftrainer.decide.domain.problem import Problem, TrainerDemand

DEMANDS = tuple(
    TrainerDemand(name, Curve((1, 4), (10.0, rate)), 1, 4, 20.0, 10.0)
    for name, rate in (("a", 40.0), ("b", 25.0))
)
PROBLEM = Problem(5, 120.0, DEMANDS)
OPTIMUM = Exact().solve(PROBLEM).objective_value


@pytest.mark.parametrize("restricted", [False, True])
def test_the_optimum_of_the_decision_is_that_of_the_milp(restricted: bool) -> None:
    verdict = audited(PROBLEM, OPTIMUM, audit_solver(10.0, restricted), 10.0)
    assert verdict.result is AuditResult.EQUAL
    assert verdict.solver == ("gurobi" if restricted else "highs")
    assert verdict.optimum == pytest.approx(OPTIMUM, rel=1e-9)


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_a_worse_decision_and_a_worse_milp_both_differ(factor: float) -> None:
    verdict = audited(PROBLEM, factor * OPTIMUM, Highs(10.0), 10.0)
    assert verdict.result is AuditResult.DIFFERS
    assert f"is worth {factor * OPTIMUM:.9g}, but highs proves {OPTIMUM:.9g}" in verdict.reason


def test_no_time_is_no_difference() -> None:
    large = random_problems.like_table_2(random.Random(3), 60, 400)
    value = Exact().solve(large).objective_value
    verdict = audited(large, value, audit_solver(0.001, restricted_license=False), 0.001)
    assert (verdict.result, verdict.reason) == (AuditResult.SKIPPED, "too large in 0.001 s")


def test_no_solver_is_no_difference() -> None:
    def no_package() -> object:
        raise ImportError("made up")

    for solver in (Gurobi(load=no_package), Highs(load=no_package)):
        verdict = audited(PROBLEM, OPTIMUM, solver, 10.0)
        assert (verdict.result, verdict.reason) == (AuditResult.SKIPPED, "no package")


def test_a_solver_that_never_answers_well_is_reported() -> None:
    """A chain rejects illegal counts, so the comparison is skipped with that reason."""
    from bftrainer.decide.allocation.chain import Chain

    verdict = audited(PROBLEM, OPTIMUM, Chain((FakeAllocator("wrong", (9, 9)),)), 10.0)
    assert verdict.result is AuditResult.SKIPPED
    assert verdict.reason == "answer rejected by the check"
