"""How Gurobi and HiGHS end: time limits, licenses, every status that is no answer."""

from __future__ import annotations

import math
import random

import gurobipy
import highspy
import numpy as np
import pytest
from support import random_problems
from support.fakes import FakeGurobipy, highspy_that_ends_with
from support.ran import python

from bftrainer.decide.allocation.check import checked
from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.gains import objective_value
from bftrainer.decide.allocation.gurobi import Gurobi, find_license
from bftrainer.decide.allocation.highs import Highs
from bftrainer.decide.allocation.milp import Floats, Milp, build
from bftrainer.decide.allocation.outcome import current_map, optimal, out_of_time, relative_gap
from bftrainer.decide.domain.model import Curve
from bftrainer.decide.domain.ports import Allocator
from bftrainer.decide.domain.problem import Problem, Status, TrainerDemand
from bftrainer.errors import Reason, SolverError

LINE = Curve((1, 10), (10.0, 100.0))
SMALL = Problem(10, 120.0, (TrainerDemand("t", LINE, 2, 10, 1.0, 1.0, 3),))
FULL_SIZE = random_problems.like_table_2(random.Random(3), 60, 400)


@pytest.mark.parametrize("solver", ["highs", "gurobi"])
def test_a_solver_prints_nothing(solver: str) -> None:
    """In a process of its own: HiGHS 1.16 prints its banner once in a process, on the descriptor,
    whatever sys.stdout is.
    """
    solve = (
        "from bftrainer.decide.allocation.chain import build_allocator\n"
        "from bftrainer.decide.domain.model import Curve\n"
        "from bftrainer.decide.domain.problem import Problem, TrainerDemand\n"
        "demand = TrainerDemand('t', Curve((1, 10), (10.0, 100.0)), 2, 10, 1.0, 1.0, 3)\n"
        f"assert build_allocator({solver!r}, 10.0).solve(Problem(10, 120.0, (demand,))).counts "
        "== (10,)\n"
    )
    done = python("-c", solve)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("solver", [Highs(0.0), Gurobi(0.0), Highs(1e-3), Gurobi(1e-3)])
def test_without_time_the_current_map_or_better_is_kept(solver: Allocator) -> None:
    answer = checked(FULL_SIZE, solver.solve(FULL_SIZE))
    kept = current_map(FULL_SIZE)
    assert kept is not None
    optimum = Exact().solve(FULL_SIZE).objective_value
    assert answer.status is Status.TIME_LIMIT
    assert objective_value(FULL_SIZE, kept) <= answer.objective_value <= optimum
    # The gap is a promise about the optimum, not a guess.
    assert optimum <= answer.objective_value * (1 + answer.gap) * (1 + 1e-9)


@pytest.mark.parametrize("solver", [Highs(0.0), Gurobi(0.0)])
def test_without_time_and_without_a_legal_map_there_is_no_answer(solver: Allocator) -> None:
    stuck = TrainerDemand("stuck", LINE, 1, 10, 1.0, 1.0, 2, sizes=(1, 4))
    with pytest.raises(SolverError) as told:
        solver.solve(Problem(406, 120.0, (*FULL_SIZE.demands, stuck)))
    assert told.value.reason is Reason.TIME_LIMIT


@pytest.mark.parametrize("solver", [Highs(), Gurobi()])
@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e5, 1e12])
def test_the_unit_of_the_objective_does_not_matter(solver: Allocator, unit: float) -> None:
    def scaled(c: TrainerDemand) -> TrainerDemand:
        value = Curve(c.value.nodes, tuple(unit * v for v in c.value.per_s))
        return TrainerDemand(
            c.id, value, c.min_nodes, c.max_nodes, c.scale_up_s, c.scale_down_s, c.current
        )

    problem = random_problems.like_table_2(random.Random(11), 10, 60)
    problem = Problem(
        problem.pool_size, problem.forward_s, tuple(scaled(c) for c in problem.demands)
    )
    assert solver.solve(problem).objective_value == pytest.approx(
        Exact().solve(problem).objective_value, rel=1e-6
    )


NO_ANSWER = set(highspy.HighsModelStatus.__members__.values()) - {
    highspy.HighsModelStatus.kTimeLimit,
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
}


@pytest.mark.parametrize("solved", [False, True])
@pytest.mark.parametrize("status", sorted(NO_ANSWER, key=int))
def test_every_other_status_of_highs_is_numerical_trouble(
    status: highspy.HighsModelStatus, solved: bool
) -> None:
    """Also with a solution. ``kOptimal`` is among them: it comes without one."""
    if solved and status == highspy.HighsModelStatus.kOptimal:
        return
    with pytest.raises(SolverError) as told:
        Highs(load=lambda: highspy_that_ends_with(status, solved=solved)).solve(SMALL)
    assert told.value.reason is Reason.NUMERICAL


def test_highs_out_of_time_without_a_solution_keeps_the_map() -> None:
    answer = Highs(load=lambda: highspy_that_ends_with(highspy.HighsModelStatus.kTimeLimit)).solve(
        SMALL
    )
    assert (answer.counts, answer.status) == ((3,), Status.TIME_LIMIT)


def test_highs_that_is_not_installed_is_told_as_such() -> None:
    with pytest.raises(SolverError) as told:
        Highs(load=no_package).solve(SMALL)
    assert told.value.reason is Reason.NO_PACKAGE


def no_package() -> object:
    raise ImportError("made up")


@pytest.mark.parametrize(
    ("version", "wrong"), [((1, 9, 0), True), ((1, 14, 0), True), ((1, 16, 0), False)]
)
def test_a_highs_that_calls_worse_counts_optimal_is_not_asked(
    version: tuple[int, int, int], wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part, number in zip(("MAJOR", "MINOR", "PATCH"), version, strict=True):
        monkeypatch.setattr(highspy, f"HIGHS_VERSION_{part}", number)
    if not wrong:
        assert Highs().solve(SMALL).counts == (10,)
        return
    with pytest.raises(
        SolverError, match=r"calls counts optimal that are not; .* --upgrade highspy"
    ) as told:
        Highs().solve(SMALL)
    assert told.value.reason is Reason.NO_PACKAGE


GRB_STATUS = gurobipy.GRB.Status
GRB_REASONS = {
    GRB_STATUS.INFEASIBLE: Reason.INFEASIBLE,
    GRB_STATUS.INF_OR_UNBD: Reason.INFEASIBLE,
}


@pytest.mark.parametrize("solutions", [0, 1])
@pytest.mark.parametrize("status", [s for s in range(1, 20) if s != GRB_STATUS.TIME_LIMIT])
def test_every_other_status_of_gurobi_is_an_error(status: int, solutions: int) -> None:
    """An optimum without a solution too; with one, the fake's solution of zeros demands nothing and
    so is refused.
    """
    package = FakeGurobipy(status=status, solutions=solutions)
    with pytest.raises(SolverError) as told:
        Gurobi(load=lambda: package).solve(SMALL)
    assert told.value.reason is GRB_REASONS.get(status, Reason.NUMERICAL)


@pytest.mark.parametrize(
    ("errno", "reason"),
    [
        (10009, Reason.NO_LICENSE),
        (10010, Reason.TOO_LARGE),
        (10001, Reason.NUMERICAL),
        (20001, Reason.NUMERICAL),
    ],
)
def test_errors_of_gurobi_become_reasons(errno: int, reason: Reason) -> None:
    with pytest.raises(SolverError, match=r"error|variables") as told:
        Gurobi(load=lambda: FakeGurobipy(optimize_errno=errno)).solve(SMALL)
    assert told.value.reason is reason


def test_a_license_that_is_not_there_is_asked_for_once() -> None:
    package = FakeGurobipy(environment_errno=10009)
    gurobi = Gurobi(load=lambda: package)
    for _ in range(3):
        with pytest.raises(SolverError, match="10009") as told:
            gurobi.solve(SMALL)
        assert told.value.reason is Reason.NO_LICENSE
    assert package.starts == 1


def test_a_package_that_is_not_there_is_looked_for_once() -> None:
    looked = []

    def missing() -> object:
        looked.append(1)
        raise ModuleNotFoundError("No module named 'gurobipy'")

    gurobi = Gurobi(load=missing)
    nobody_can_run = Problem(0, 120.0, (TrainerDemand("t", LINE, 2, 10, 1.0, 1.0, 0),))
    for problem in (nobody_can_run, SMALL, SMALL):
        with pytest.raises(SolverError) as told:
            gurobi.solve(problem)
        assert told.value.reason is Reason.NO_PACKAGE
    assert len(looked) == 1


def test_a_size_that_was_refused_is_not_handed_over_again() -> None:
    package = FakeGurobipy(optimize_errno=10010)
    gurobi = Gurobi(load=lambda: package)
    for _ in range(3):
        with pytest.raises(SolverError) as told:
            gurobi.solve(SMALL)
        assert told.value.reason is Reason.TOO_LARGE
    assert package.models == 1
    package.optimize_errno, package.status = None, GRB_STATUS.TIME_LIMIT
    smaller = Problem(10, 120.0, (TrainerDemand("t", LINE, 1, 10, 1.0, 1.0, 3),))
    assert gurobi.solve(smaller).counts == (3,)


def test_the_restricted_license_refuses_300_trainers_and_tells_why() -> None:
    """The license of the package; where a full one is installed, this test says so by failing."""
    large = random_problems.like_table_2(random.Random(7), 300, 4734)
    gurobi = Gurobi()
    with pytest.raises(
        SolverError, match=r"too large for the license: \d{4} variables and 20\d\d rows"
    ) as told:
        gurobi.solve(large)
    assert told.value.reason is Reason.TOO_LARGE
    assert gurobi.solve(SMALL).status is Status.OPTIMAL


def test_the_license_of_the_package_is_named_as_restricted() -> None:
    told = find_license()
    assert (told.usable, told.restricted) == (True, True)
    assert told.expires[:2] == "20"
    assert "restricted, non-production, expires 20" in str(told)


def test_other_licenses_are_named_too() -> None:
    assert str(find_license(lambda: FakeGurobipy())) == "gurobipy 99.1.2, license full size"
    assert "10009" in str(find_license(lambda: FakeGurobipy(environment_errno=10009)))
    assert not find_license(lambda: FakeGurobipy(environment_errno=10009)).usable
    assert str(find_license(no_package)) == "gurobipy is not installed: made up"


# --- What a MILP solver's end becomes: the gap, the kept map, the incumbent, a demand that its
# counts do not bear out

TWO = Problem(
    10,
    120.0,
    tuple(
        TrainerDemand(f"t{j}", LINE, 1, 10, 1.0, 1.0, current) for j, current in ((0, 3), (1, 4))
    ),
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
    assert current_map(Problem(9, 1.0, (TrainerDemand("t", min_nodes=4, current=3, **held),))) == (
        0,
    )
    assert (
        current_map(
            Problem(9, 1.0, (TrainerDemand("t", min_nodes=1, current=2, sizes=(0, 1, 4), **held),))
        )
        is None
    )
    assert (
        current_map(
            Problem(9, 1.0, (TrainerDemand("t", min_nodes=4, current=3, sizes=(4,), **held),))
        )
        is None
    )
