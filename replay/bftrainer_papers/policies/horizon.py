"""The rolling-horizon model of ModelArts (Hu et al. 2021, [ModelArts 4.4]) over any curves, as a
:class:`Milp`.

Maximize sum_i sum_t s_i^t / d_i [ModelArts Eqn 1] with s cumulative and bounded by the remaining
demand d_i. Every job has one legal count in every step, within the pool. Only the counts of the
first step are carried out.

The pair delta-, delta+ of [ModelArts Eqns 16-18] only selects one k per (i, t). One binary per (i,
t, k), with sum 1, gives the same set of n and s with fewer rows (``test_horizon.py`` compares it
with the literal form). Here s is in units of d_i, and a step serves at most d_i, so coefficients
and bounds are at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bftrainer.decide.allocation import highs
from bftrainer.decide.allocation.milp import ConstraintRows, Milp
from bftrainer.errors import Reason, SolverError


@dataclass(frozen=True, slots=True)
class HorizonJob:
    """A job in the model: one step on ``sizes[k]`` nodes serves the share ``served[k]`` of its
    remaining demand; sizes are above 0.
    """

    sizes: tuple[int, ...]
    served: tuple[float, ...]


def build(jobs: Sequence[HorizonJob], nodes: int, steps: int) -> Milp:
    """Return the MILP of [ModelArts] over ``steps`` steps; :meth:`Milp.counts` gives the counts of
    step 1.

    Per job and step, one binary variable for each size (exactly one is chosen) and one variable for
    the share of the demand that has been served until then.
    """
    model = ConstraintRows(native_sos=False)
    nodes_in_step: list[list[tuple[int, float]]] = [[] for _ in range(steps)]
    for i, job in enumerate(jobs):
        before: list[tuple[int, float]] = []
        for t in range(steps):
            chosen = [model.binary() for _ in job.sizes]
            served = model.variable(0, 1, objective=1.0)  # [ModelArts Eqn 2] in units of d_i
            model.row(1, 1, [(b, 1.0) for b in chosen])  # [ModelArts Eqns 5, 15-18]
            served_in_step = [
                (b, -min(share, 1.0)) for b, share in zip(chosen, job.served, strict=True)
            ]
            model.row(
                -np.inf, 0, [(served, 1.0), *before, *served_in_step]
            )  # [ModelArts Eqns 19, 20]
            before = [(served, -1.0)]
            nodes_in_step[t].extend((b, float(n)) for b, n in zip(chosen, job.sizes, strict=True))
            if t == 0:
                model.counted.extend((i, b, n) for b, n in zip(chosen, job.sizes, strict=True))
            model.total += 1.0
    for entries in nodes_in_step:
        model.row(-np.inf, nodes, entries)  # [ModelArts Eqn 6]
    return model.milp(len(jobs))


@dataclass(frozen=True, slots=True)
class HorizonSolution:
    """The counts of the first step, and the objective of the whole horizon; ``proven``: optimal
    within the gap.
    """

    counts: tuple[int, ...]
    objective: float
    proven: bool


def solve(
    jobs: Sequence[HorizonJob], nodes: int, steps: int, *, gap: float, max_search: int
) -> HorizonSolution:
    """Solve the model with HiGHS; return the counts of its first step.

    ``max_search`` bounds the branch-and-bound nodes: unlike a time limit, the result is
    reproducible. The first try is without heuristics, which is faster but may find nothing within
    the bound; then heuristics are used. Raises ``SolverError``: NO_PACKAGE, or NUMERICAL without a
    solution (every job at its smallest size is one).
    """
    if not jobs:
        return HorizonSolution((), 0.0, True)
    try:
        highspy = highs.load()
    except ImportError as error:
        raise SolverError("modelarts-optimal", Reason.NO_PACKAGE, str(error)) from error
    milp = build(jobs, nodes, steps)
    bounds = {**highs.OPTIONS, "mip_rel_gap": gap, "mip_max_nodes": max_search}
    solution = _solve_once(highspy, milp, {**bounds, **_QUICK})
    return solution if solution is not None else _solve_with_heuristics(highspy, milp, bounds)


# The root relaxation is nearly integral, so HiGHS 1.15 spends a third of its time on heuristics and
# symmetries that do not change the answer (15 problems of 35 jobs on 800 nodes: 0.35 s without,
# 0.24 s with these, equal objectives).
_QUICK: Mapping[str, object] = {"mip_heuristic_effort": 0.0, "mip_detect_symmetry": False}


def _solve_with_heuristics(
    highspy: Any, milp: Milp, options: Mapping[str, object]
) -> HorizonSolution:
    """Return the solution with HiGHS's heuristics, which find one within any bound on the search.

    Raises ``SolverError`` if they do not.
    """
    solution = _solve_once(highspy, milp, options)
    if solution is None:
        raise SolverError(
            "modelarts-optimal",
            Reason.NUMERICAL,
            "no solution found, although giving every job its smallest size is one",
        )
    return solution


def _solve_once(highspy: Any, milp: Milp, options: Mapping[str, object]) -> HorizonSolution | None:
    """Return the solution with these options; None if none was found within the bound on the
    search.
    """
    solver = highs.loaded(highspy, milp, "modelarts-optimal", options)
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        return None
    counts = milp.counts(solver.getSolution().col_value)
    proven = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return HorizonSolution(counts, info.objective_function_value * milp.scale, proven)
