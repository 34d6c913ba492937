"""Fig. 5: the time to solve one allocation from random maps, over numbers of trainers and nodes
(paper 3.6).
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.highs import Highs
from bftrainer.decide.domain.ports import Allocator
from bftrainer.decide.domain.problem import Problem, TrainerDemand
from bftrainer.errors import Reason, SolverError
from bftrainer_replay.workload.curves import TABLE_2

SEED = 20210622
LIMIT_S = 10.0
Times = dict[str, dict[str, list[float]]]
"""Seconds by solver, then by ``trainers x nodes``."""


def solvers() -> tuple[Allocator, ...]:
    """The solvers without a license: the paper's model in counts under HiGHS, and the exact
    solver.
    """
    return Highs(LIMIT_S), Exact()


def cell_name(trainers: int, nodes: int) -> str:
    """The key of :data:`Times`."""
    return f"{trainers} x {nodes}"


def solve_times(trainers: Sequence[int], nodes: Sequence[int], repeats: int) -> Times:
    """Time each solver on the same random problems. A solver that is not installed is left out."""
    rng = random.Random(SEED)
    # Probing also draws from ``rng``, always the same number of times, so the problems are the same
    # whatever solvers are installed.
    ready = [solver for solver in solvers() if _is_there(solver, random_map(rng, 2, 4))]
    times: Times = {solver.name: {} for solver in ready}
    for j in trainers:
        for n in nodes:
            for _ in range(repeats):
                problem = random_map(rng, j, n)
                for solver in ready:
                    began = time.perf_counter()
                    solver.solve(problem)
                    times[solver.name].setdefault(cell_name(j, n), []).append(
                        time.perf_counter() - began
                    )
    return times


def _is_there(solver: Allocator, problem: Problem) -> bool:
    """Return whether the solver's package is installed, by solving a small problem.

    That also loads the package, so that no measured solve does.
    """
    try:
        solver.solve(problem)
    except SolverError as error:
        if error.reason is Reason.NO_PACKAGE:
            return False
        raise
    return True


def random_map(rng: random.Random, trainers: int, nodes: int) -> Problem:
    """Return a problem with all nodes assigned to trainers at random, up to 64 each.

    The paper: "c to meet all constraints". The trainers have Table 2's models in turn.
    """
    models = sorted(TABLE_2)
    held = [0] * trainers
    for _ in range(nodes):
        j = rng.randrange(trainers)
        if held[j] < 64:
            held[j] += 1
    demands = tuple(
        TrainerDemand(
            f"t{j}",
            TABLE_2[models[j % len(models)]],
            1,
            64,
            rng.uniform(17, 19),
            rng.uniform(11, 13),
            held[j],
        )
        for j in range(trainers)
    )
    return Problem(nodes, 120.0, demands)
