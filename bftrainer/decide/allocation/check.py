"""The check behind every solver: an answer that breaks a rule is rejected."""

from __future__ import annotations

import math
from dataclasses import replace

from bftrainer.counted import counted
from bftrainer.decide.allocation.check_decision import check_counts
from bftrainer.decide.allocation.gains import objective_value
from bftrainer.decide.domain.problem import Answer, Problem
from bftrainer.errors import NoFeasibleCountsError, RejectedAnswerError

# MILP solvers report the objective of a solution whose integers are only integral to about 1e-6.
VALUE_TOLERANCE = 1e-6


def checked(problem: Problem, answer: Answer) -> Answer:
    """Return the solver's answer with its objective value recomputed from the counts (Eqn 16).

    Raises :class:`RejectedAnswerError` if the counts break a rule (a size that is not legal, more
    nodes than the pool has), or if the value that the solver claims differs from the recomputed one
    by more than ``VALUE_TOLERANCE``.
    """
    check_counts(problem.demands, problem.pool_size, answer.counts)
    value = objective_value(problem, answer.counts)
    if not math.isclose(
        value, answer.objective_value, rel_tol=VALUE_TOLERANCE, abs_tol=VALUE_TOLERANCE
    ):
        raise RejectedAnswerError(
            f"{answer.solver} claims an objective of {answer.objective_value:.9g}, but its "
            f"counts give {value:.9g}"
        )
    return replace(answer, objective_value=value)


def require_feasible(problem: Problem) -> None:
    """Raise :class:`NoFeasibleCountsError` if even the smallest legal sizes together exceed the
    pool.

    Only demands with listed ``sizes`` count: all others may get 0 nodes. The test is complete:
    every smallest size is legal, and nothing else couples the demands.
    """
    smallest = sum(min(demand.sizes) for demand in problem.demands if demand.sizes is not None)
    if smallest > problem.pool_size:
        raise NoFeasibleCountsError(
            f"the smallest legal sizes add up to {counted(smallest, 'node')}, but the pool has "
            f"{problem.pool_size}"
        )
