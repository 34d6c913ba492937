"""Milliseconds per allocation of every solver, side by side in one run: ``python
tests/bench/solvers.py``.

Each solve is one event as the pilot meets it: a problem never seen before, from the Problem to
checked counts, with the gains (or the model) built from scratch and nothing cached. The solvers
take turns on the same problems, so that a busy machine slows all of them. Curves are concave with 7
breakpoints from 1 to 64 nodes, as in the paper's Table 2; the current map is random and feasible.
The per-node model is the paper's (3.5) with HiGHS and a time limit, on a few problems.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from rich.console import Console
from rich.table import Table
from support import oracle_per_node, random_problems

from bftrainer.decide.allocation.check import checked
from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.gurobi import Gurobi, find_license
from bftrainer.decide.allocation.highs import Highs
from bftrainer.decide.domain.ports import Allocator
from bftrainer.decide.domain.problem import Problem, Status
from bftrainer.errors import SolverError

SEED = 20210617
LIMIT_S, ORACLE_LIMIT_S = 10.0, 10.0
Solve = Callable[[Problem], float | None]  # the optimum, or None at the time limit
# (trainers, nodes, problems, problems for the per-node model)
CELLS = (
    (5, 50, 200, 10),
    (10, 200, 200, 3),
    (35, 100, 100, 1),
    (35, 400, 100, 1),
    (35, 800, 100, 1),
    (100, 800, 50, 0),
    (300, 4734, 10, 0),
)
# A hundred solves say nothing of a p99 on a busy machine; two thousand do.
ALONE = ((35, 800, 2000, 64, ""), (35, 6400, 500, 512, ", 8 GPUs a node"))


@dataclass
class Column:
    """One solver on one size: its times, and how far its optimum is from the best of all."""

    times_ms: list[float] = field(default_factory=list)
    difference: float = 0.0
    stopped: int = 0
    failure: str = ""

    def text(self) -> tuple[str, str, str, str, str]:
        if not self.times_ms:
            return "-", "-", "-", "-", self.failure or "not run"
        p50, p99 = np.percentile(self.times_ms, (50, 99))
        proven = len(self.times_ms) - self.stopped
        note = f"{self.stopped} stopped at the limit" if self.stopped else ""
        difference = f"{self.difference:.0e}" if proven else "-"
        return f"{p50:,.2f}", f"{p99:,.2f}", f"{max(self.times_ms):,.2f}", difference, note


def timed(solve: Solve, problem: Problem, column: Column) -> float | None:
    """The optimum, where one was proven."""
    start = time.perf_counter()
    try:
        value = solve(problem)
    except SolverError as error:
        column.failure = error.reason.value
        return None
    column.times_ms.append(1e3 * (time.perf_counter() - start))
    column.stopped += value is None
    return value


def allocator(solver: Allocator) -> Solve:
    def solve(problem: Problem) -> float | None:
        answer = checked(problem, solver.solve(problem))
        return answer.objective_value if answer.status is Status.OPTIMAL else None

    return solve


def per_node(problem: Problem) -> float | None:
    ending = oracle_per_node.solve(problem, time_limit_s=ORACLE_LIMIT_S)
    return ending.objective if ending.proven else None


def measure(
    rng: random.Random, trainers: int, nodes: int, problems: int, oracle: int
) -> dict[str, Column]:
    solvers = {s.name: allocator(s) for s in (Exact(), Highs(LIMIT_S), Gurobi(LIMIT_S))} | {
        "per node": per_node
    }
    columns = {name: Column() for name in solvers}
    for i in range(problems):
        problem = random_problems.like_table_2(rng, trainers, nodes)
        turns = [
            name
            for name in rng.sample(sorted(solvers), len(solvers))
            if name != "per node" or i < oracle
        ]
        found = {name: timed(solvers[name], problem, columns[name]) for name in turns}
        best = max(value for value in found.values() if value is not None)
        for name, value in found.items():
            if value is not None:
                columns[name].difference = max(
                    columns[name].difference, (best - value) / max(abs(best), 1e-9)
                )
    return columns


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def main() -> int:
    """1 if any two solvers differ in their optimum by more than 1e-6."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--seed", type=int, default=SEED)
    seed = options.parse_args().seed
    console = Console(width=None if sys.stdout.isatty() else 110)
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("bftrainer", "highspy", "gurobipy", "numpy")
    )
    console.print(
        f"{cpu()}, {os.cpu_count()} cores; Python {platform.python_version()}, {packages}"
    )
    console.print(
        f"Gurobi: {find_license()}. Each MILP solver: one thread, gap 0, {LIMIT_S:g} s limit. "
        f"Seed {seed}."
    )

    for solver in (
        Highs(),
        Gurobi(),
    ):  # importing a package and starting its environment is not solving
        solver.solve(random_problems.like_table_2(random.Random(seed), 2, 4))
    table = Table(
        title="Milliseconds per solve, from the problem to checked counts, nothing cached"
    )
    for heading in (
        "trainers x nodes",
        "solves",
        "solver",
        "p50",
        "p99",
        "max",
        "off the optimum",
        "note",
    ):
        table.add_column(heading, justify="left" if heading in ("solver", "note") else "right")
    rng = random.Random(seed)
    start = time.perf_counter()
    all_same = True
    for trainers, nodes, problems, oracle in CELLS:
        columns = measure(rng, trainers, nodes, problems, oracle)
        all_same &= all(column.difference <= 1e-6 for column in columns.values())
        for name, column in columns.items():
            size = f"{trainers} x {nodes}" if name == "exact" else ""
            table.add_row(
                size,
                str(len(column.times_ms)),
                name,
                *column.text(),
                end_section=name == "per node",
            )
    for trainers, slots, problems, largest, note in ALONE:
        alone = Column()
        for _ in range(problems):
            timed(
                allocator(Exact()),
                random_problems.like_table_2(rng, trainers, slots, largest=largest),
                alone,
            )
        table.add_row(f"{trainers} x {slots}", str(problems), f"exact alone{note}", *alone.text())
    console.print(table)
    console.print(
        "off the optimum: largest relative difference to the best proven value of the same "
        "problem. per node: the "
        f"paper's model, one binary per trainer and node, HiGHS, {ORACLE_LIMIT_S:g} s limit; "
        "not run beyond 35 x 800."
    )
    console.print(f"{time.perf_counter() - start:.0f} s in all")
    return 0 if all_same else 1


if __name__ == "__main__":
    sys.exit(main())
