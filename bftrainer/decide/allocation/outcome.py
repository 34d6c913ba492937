"""From the end of a MILP solver to an answer: gap, current map, and the rule of the paper for a
time limit (3.6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bftrainer.decide.allocation.check import VALUE_TOLERANCE
from bftrainer.decide.allocation.check_decision import check_counts
from bftrainer.decide.allocation.gains import gains, objective_value
from bftrainer.decide.allocation.milp import SCALED_TOTAL, Milp
from bftrainer.decide.domain.problem import Answer, Problem, Status
from bftrainer.errors import Reason, RejectedAnswerError, SolverError


def current_map(problem: Problem) -> tuple[int, ...] | None:
    """Return the counts C_j (Eqn 1), with every trainer below its minimum at 0 (paper 3.6).

    None if they are not legal.
    """
    counts = tuple(demand.standing for demand in problem.demands)
    return counts if _is_legal(problem, counts) else None


def relative_gap(problem: Problem, value: float, bound: float = math.inf) -> float:
    """Return how far ``value`` may be from the optimum: (bound - value) / max(|value|, 1e-9).

    ``bound`` is the solver's upper bound of the optimum (infinite: it has none). The sum of every
    trainer's best gain, as if each had the pool to itself, is an upper bound too, and the tighter
    one counts.
    """
    table = gains(problem)
    best_total = float(table.max(axis=1).sum()) if len(table) else 0.0
    usable = bound if math.isfinite(bound) else best_total
    return max(min(usable, best_total) - value, 0.0) / max(abs(value), 1e-9)


def without_variables(problem: Problem, milp: Milp, solver: str) -> Answer | None:
    """Return the answer with all counts 0 if no trainer can run on this pool, so that the model has
    no variables; otherwise None.

    Solvers treat empty models differently, so none is asked.
    """
    if len(milp.objective):
        return None
    counts = milp.counts(())
    return Answer(counts, objective_value(problem, counts), solver, Status.OPTIMAL)


def optimal(
    problem: Problem, milp: Milp, solver: str, x: Sequence[float], claimed: float
) -> Answer:
    """Return the answer of a solver that proved its optimum: the rounded counts of its solution
    ``x``, and their value.

    ``claimed`` is the objective that the solver reports, in the scaled unit of ``milp``. Raises
    ``SolverError(Reason.NUMERICAL)`` if the rounded counts are not worth it.
    """
    counts = milp.counts(x)
    value = objective_value(problem, counts)
    if not math.isclose(
        claimed, value / milp.scale, rel_tol=VALUE_TOLERANCE, abs_tol=VALUE_TOLERANCE * SCALED_TOTAL
    ):
        raise SolverError(
            solver,
            Reason.NUMERICAL,
            f"claims {claimed * milp.scale:.9g}, but its rounded counts give {value:.9g}",
        )
    return Answer(counts, value, solver, Status.OPTIMAL)


def out_of_time(
    problem: Problem, milp: Milp, solver: str, x: Sequence[float] | None, bound: float
) -> Answer:
    """Return the better of the solver's incumbent and the current map, after a time limit (paper
    3.6).

    The incumbent ``x`` is the best solution that the solver has found (None: it has none); the
    current map is the present count of each trainer. Of equal ones it is the current map, which
    moves no node. ``bound`` is the solver's upper bound of the optimum, in the scaled unit of
    ``milp``. Raises ``SolverError(Reason.TIME_LIMIT)`` if there is neither.
    """
    current = current_map(problem)
    incumbent = milp.counts(x) if x is not None else None
    candidates = [c for c in (current, incumbent) if c is not None and _is_legal(problem, c)]
    if not candidates:
        raise SolverError(
            solver, Reason.TIME_LIMIT, "no solution found, and the current allocation is not legal"
        )
    # max returns the first of equal ones: the current map.
    counts = max(candidates, key=lambda c: objective_value(problem, c))
    value = objective_value(problem, counts)
    gap = relative_gap(problem, value, bound * milp.scale)
    return Answer(counts, value, solver, Status.TIME_LIMIT, gap)


def _is_legal(problem: Problem, counts: Sequence[int]) -> bool:
    """Whether the counts satisfy Eqns 3 and 5."""
    try:
        check_counts(problem.demands, problem.pool_size, counts)
    except RejectedAnswerError:
        return False
    return True
