"""``bftrainer solve``: solve one allocation problem, JSON in and JSON out."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.cli.choices import SOLVER
from bftrainer.cli.output import say
from bftrainer.errors import InputFileError, UserError

if TYPE_CHECKING:
    from bftrainer.cli.problem_file import ProblemFile
    from bftrainer.domain.problem import Answer


@click.command()
@click.argument("problem", metavar="PROBLEM.json|-")
@click.option(
    "--solver", type=SOLVER, default="auto", show_default=True, help="Solver, or auto for the best one available."
)
@click.option(
    "--time-limit-s", default=10.0, show_default=True, type=float, metavar="S", help="Time limit of each MILP solver."
)
def solve(problem: str, solver: str, time_limit_s: float) -> None:
    """Solve one allocation problem: how many nodes should each trainer get?

    PROBLEM.json contains the pool (a number, or a list of node names), forward_s (T_fwd), the objective and the trainers;
    - reads standard input. The output is one JSON object: counts, nodes (if the pool is a list of names), objective_value,
    solver, status, gap, solve_s, fallbacks.

    \b
    Example:
      echo '{"pool": 11, "forward_s": 120, "objective": "relative-speed", "trainers": [
              {"id": "a", "min_nodes": 1, "max_nodes": 8, "scale_up_s": 20, "scale_down_s": 10, "nodes": 3,
               "curve": {"nodes": [1, 4, 8], "samples_per_s": [100, 380, 700]}},
              {"id": "b", "min_nodes": 2, "max_nodes": 8, "scale_up_s": 20, "scale_down_s": 10,
               "curve": {"nodes": [2, 8], "samples_per_s": [90, 300]}}]}' | bftrainer solve -
    """
    from bftrainer.allocation.chain import build_allocator
    from bftrainer.cli.problem_file import read_problem

    if not time_limit_s > 0:
        raise UserError(f"--time-limit-s {time_limit_s:g}: expected a number above 0")
    allocator = build_allocator(solver, time_limit_s)
    file = read_problem(problem, _text(problem))
    for warning in file.warnings:
        say(f"note: {warning}", err=True)
    began = time.perf_counter()
    answer = allocator.solve(file.problem)
    say(json.dumps(_as_json(file, answer, time.perf_counter() - began)))


def _text(source: str) -> str:
    if source == "-":
        return sys.stdin.read()
    try:
        return Path(source).read_text(encoding="utf-8")
    except OSError as error:
        raise InputFileError(source, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputFileError(source, f"not UTF-8 text ({error.reason} at byte {error.start})") from error


def _as_json(file: ProblemFile, answer: Answer, solve_s: float) -> dict[str, object]:
    ids = [demand.id for demand in file.problem.demands]
    found: dict[str, object] = {"counts": dict(zip(ids, answer.counts, strict=True))}
    if file.pool is not None:
        from bftrainer.allocation.placement import in_name_order, place

        placed = place(file.pool, file.held, answer.counts)
        found["nodes"] = {name: in_name_order(nodes) for name, nodes in zip(ids, placed, strict=True)}
    return found | {
        "objective_value": answer.objective_value,
        "solver": answer.solver,
        "status": answer.status.value,
        "gap": answer.gap,
        "solve_s": round(solve_s, 6),
        "fallbacks": [{"solver": f.solver, "reason": f.reason.value, "detail": f.detail} for f in answer.fallbacks],
    }
