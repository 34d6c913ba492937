"""ModelArts' rolling-horizon model (Hu et al. 2021, section 4.4) over any curves, as a :class:`Milp`.

Maximise sum_i sum_t s_i^t / d_i with s cumulative and capped by the remaining demand d_i; every job has one legal count in
every step, and the pool holds them all. Only the first step's counts are carried out.

The pair delta-, delta+ of Eqns 16-18 only picks one k per (i, t): one binary per (i, t, k) that sum to 1 is the same set of
n and s with fewer rows (``test_horizon.py`` compares it with the literal form). s is in units of d_i here, and a
step never serves more than all of it, so both coefficients and bounds are at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bftrainer.allocation import highs
from bftrainer.allocation.milp import ConstraintRows, Milp
from bftrainer.errors import Reason, SolverError


@dataclass(frozen=True, slots=True)
class HorizonJob:
    """``served`` is the share of its remaining demand that one step on each of its legal ``sizes`` (above 0) serves."""

    sizes: tuple[int, ...]
    served: tuple[float, ...]


def build(jobs: Sequence[HorizonJob], nodes: int, steps: int) -> Milp:
    """The model; the counts of step 1 come out of :meth:`Milp.counts`."""
    model = ConstraintRows(native_sos=False)
    used: list[list[tuple[int, float]]] = [[] for _ in range(steps)]
    for i, job in enumerate(jobs):
        before: list[tuple[int, float]] = []
        for t in range(steps):
            chosen = [model.binary() for _ in job.sizes]
            served = model.variable(0, 1, objective=1.0)  # Eqn 2 in units of d_i
            model.row(1, 1, [(b, 1.0) for b in chosen])  # Eqns 5, 15-18
            gained = [(b, -min(share, 1.0)) for b, share in zip(chosen, job.served, strict=True)]
            model.row(-np.inf, 0, [(served, 1.0), *before, *gained])  # Eqns 19, 20
            before = [(served, -1.0)]
            used[t].extend((b, float(n)) for b, n in zip(chosen, job.sizes, strict=True))
            if t == 0:
                model.counted.extend((i, b, n) for b, n in zip(chosen, job.sizes, strict=True))
            model.total += 1.0
    for entries in used:
        model.row(-np.inf, nodes, entries)  # Eqn 6
    return model.milp(len(jobs))


@dataclass(frozen=True, slots=True)
class HorizonSolution:
    """Counts of the first step and the objective of the whole horizon; ``proven`` within the gap asked for."""

    counts: tuple[int, ...]
    objective: float
    proven: bool


def solve(jobs: Sequence[HorizonJob], nodes: int, steps: int, *, gap: float, max_search: int) -> HorizonSolution:
    """With HiGHS. ``max_search`` bounds the branch-and-bound nodes: unlike a time limit it ends at the same place always.

    Raises ``SolverError``: NO_PACKAGE, or NUMERICAL where no solution came out (one exists: every job at its smallest).
    """
    if not jobs:
        return HorizonSolution((), 0.0, True)
    try:
        highspy = highs.load()
    except ImportError as error:
        raise SolverError("modelarts-optimal", Reason.NO_PACKAGE, str(error)) from error
    milp = build(jobs, nodes, steps)
    bounds = {**highs.OPTIONS, "mip_rel_gap": gap, "mip_max_nodes": max_search}
    found = _run(highspy, milp, {**bounds, **_QUICK})
    return found if found is not None else _thorough(highspy, milp, bounds)


# The root relaxation is nearly integral: HiGHS 1.15 spends a third of its time on heuristics and symmetries that do not
# change the answer (15 problems of 35 jobs on 800 nodes: 0.35 s without, 0.24 s with these, equal objectives).
_QUICK: Mapping[str, object] = {"mip_heuristic_effort": 0.0, "mip_detect_symmetry": False}


def _thorough(highspy: Any, milp: Milp, options: Mapping[str, object]) -> HorizonSolution:
    """With heuristics, which find a solution within any bound on the search."""
    found = _run(highspy, milp, options)
    if found is None:
        raise SolverError(
            "modelarts-optimal", Reason.NUMERICAL, "no solution found, and every job at its smallest is one"
        )
    return found


def _run(highspy: Any, milp: Milp, options: Mapping[str, object]) -> HorizonSolution | None:
    solver = highs.loaded(highspy, milp, "modelarts-optimal", options)
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        return None
    counts = milp.counts(solver.getSolution().col_value)
    proven = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return HorizonSolution(counts, info.objective_function_value * milp.scale, proven)
