"""The comparison of a decision's answer with the optimum of a MILP solver. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from bftrainer.decide.allocation.chain import Chain, milp_solvers
from bftrainer.decide.allocation.check import VALUE_TOLERANCE
from bftrainer.decide.domain.ports import Allocator
from bftrainer.decide.domain.problem import Problem, Status
from bftrainer.errors import BFTrainerError, Reason, SolverError


class AuditResult(Enum):
    """The outcome of one comparison. SKIPPED: the MILP was not solved to a proven optimum."""

    EQUAL = "equal"
    DIFFERS = "differs"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """The outcome of one comparison of a decision with the optimum of a MILP solver.

    ``optimum`` is the value of Eqn 16 that the MILP ``solver`` proved. ``reason`` says in a few
    words why a comparison was skipped, and in full what differs.
    """

    result: AuditResult
    solver: str = ""
    optimum: float | None = None
    reason: str = ""


def audit_solver(time_limit_s: float, restricted_license: bool) -> Allocator:
    """Return the paper's MILP, solved by Gurobi or else by HiGHS.

    The dynamic program (``exact``) is not behind them as a last resort, since it is what the audit
    checks.
    """
    return Chain(milp_solvers(time_limit_s, restricted_license), "milp")


def audited(problem: Problem, value: float, solver: Allocator, time_limit_s: float) -> AuditVerdict:
    """Compare the ``value`` of a decision (the objective, Eqn 16) with the optimum that a MILP
    ``solver`` proves for the same ``problem``; return the verdict.

    It is EQUAL within the tolerance; SKIPPED if the solver proves no optimum, for lack of time
    (``time_limit_s``) or of a license; and else DIFFERS. A difference in either direction is
    reported: with a lower value the decision was not optimal; with a higher one the solver has
    called a worse answer optimal. No :class:`~bftrainer.errors.BFTrainerError` leaves this
    function: it becomes a verdict.
    """
    try:
        answer = solver.solve(problem)
    except SolverError as error:
        return AuditVerdict(
            AuditResult.SKIPPED, reason=_no_optimum_reason(error.reason, time_limit_s)
        )
    except BFTrainerError as error:
        # Any other error is no lack of time or license: the solver or its answer is faulty.
        return AuditVerdict(AuditResult.DIFFERS, solver.name, reason=str(error))
    if answer.status is not Status.OPTIMAL:
        # The last fallback is that of the solver that was asked last.
        cause = answer.fallbacks[-1].reason if answer.fallbacks else Reason.TIME_LIMIT
        return AuditVerdict(
            AuditResult.SKIPPED, answer.solver, reason=_no_optimum_reason(cause, time_limit_s)
        )
    optimum = answer.objective_value
    if math.isclose(value, optimum, rel_tol=VALUE_TOLERANCE, abs_tol=VALUE_TOLERANCE):
        return AuditVerdict(AuditResult.EQUAL, answer.solver, optimum)
    text = f"the decision is worth {value:.9g}, but {answer.solver} proves {optimum:.9g}"
    return AuditVerdict(AuditResult.DIFFERS, answer.solver, optimum, text)


def _no_optimum_reason(reason: Reason, time_limit_s: float) -> str:
    """Say why the MILP solver proved no optimum to compare with."""
    if reason is Reason.TIME_LIMIT:
        return f"too large in {time_limit_s:g} s"
    return str(reason.value)
