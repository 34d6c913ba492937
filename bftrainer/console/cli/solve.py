"""``bftrainer solve``: one allocation problem in, the counts of its optimum out."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import SOLVER, NumberRange
from bftrainer.console.cli.output import say, show_json
from bftrainer.counted import counted
from bftrainer.errors import InputFileError

if TYPE_CHECKING:
    from bftrainer.decide.domain.problem import Answer, Problem


@click.command()
@click.argument("problem", metavar="PROBLEM.json|-")
@click.option(
    "--solver",
    type=SOLVER,
    default="auto",
    show_default=True,
    help="Solver; milp is the paper's chain: Gurobi, then HiGHS, then exact.",
)
@click.option(
    "--time-limit-s",
    default=10.0,
    show_default=True,
    type=NumberRange(min=0, min_open=True),
    metavar="S",
    help="Time limit of each MILP solver.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def solve(problem: str, solver: str, time_limit_s: float, as_json: bool) -> None:
    """Solve one allocation problem: how many nodes should each trainer get?

    PROBLEM.json contains the pool (a number of nodes), forward_s (T_fwd), the name of a built-in
    objective, and the trainers; - reads standard input. The problems that the audit of a pilot
    writes are such files.

    \b
    Example:
      echo '{"pool": 11, "trainers": [
              {"id": "a", "min_nodes": 1, "max_nodes": 8, "nodes": 3,
               "scale_up_s": 20, "scale_down_s": 10,
               "curve": {"nodes": [1, 4, 8], "samples_per_s": [100, 380, 700]}},
              {"id": "b", "min_nodes": 2, "max_nodes": 8, "scale_up_s": 20, "scale_down_s": 10,
               "curve": {"nodes": [2, 8], "samples_per_s": [90, 300]}}]}' | bftrainer solve -
    """
    from bftrainer.config.problem_file import read_problem
    from bftrainer.decide.allocation.chain import build_allocator

    source = "standard input" if problem == "-" else problem
    allocation_problem = read_problem(_problem_text(problem), source)
    start_s = time.perf_counter()
    answer = build_allocator(solver, time_limit_s).solve(allocation_problem)
    took_s = time.perf_counter() - start_s
    if as_json:
        show_json([_as_json(allocation_problem, answer, took_s)])
    else:
        _print_answer(allocation_problem, answer, took_s)


def _problem_text(source: str) -> str:
    """Read a problem file, or standard input for ``-``. Raises ``InputFileError`` if the text is
    too long.
    """
    from bftrainer.config.problem_file import MOST_BYTES
    from bftrainer.config.validation import read_text

    if source != "-":
        return read_text(Path(source), MOST_BYTES)
    text = sys.stdin.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise InputFileError(
            "standard input", f"has more than {MOST_BYTES:,} characters, expected fewer"
        )
    return text


def _as_json(problem: Problem, answer: Answer, took_s: float) -> dict[str, object]:
    """Return the counts by trainer, and how the solver reached them, as an object for JSON."""
    fallbacks = [
        {"solver": fallback.solver, "reason": fallback.reason.value, "detail": fallback.detail}
        for fallback in answer.fallbacks
    ]
    ids = [demand.id for demand in problem.demands]
    return {
        "counts": dict(zip(ids, answer.counts, strict=True)),
        "objective_value": answer.objective_value,
        "solver": answer.solver,
        "status": answer.status.value,
        "gap": answer.gap,
        "solve_s": round(took_s, 6),
        "fallbacks": fallbacks,
    }


def _print_answer(problem: Problem, answer: Answer, took_s: float) -> None:
    """Print the counts as a table, a line on the solver, and a line for each fallback."""
    from bftrainer.console.cli.tables import name_column, number_column, show_table

    rows = []
    for demand, count in zip(problem.demands, answer.counts, strict=True):
        change = count - demand.current
        rows.append((demand.id, str(demand.current), str(count), f"{change:+d}" if change else ""))
    heads = (number_column("NOW"), number_column("NODES"), number_column("CHANGE"))
    show_table((name_column("TRAINER"), *heads), rows)
    gap = f", gap {answer.gap:.2%}" if answer.gap else ""
    say(
        f"{sum(answer.counts):,} of {counted(problem.pool_size, 'node')}; "
        f"objective {answer.objective_value:.9g} "
        f"({answer.solver}, {answer.status.value}{gap}, {1e3 * took_s:.1f} ms)"
    )
    for fallback in answer.fallbacks:
        say(f"fallback from {fallback.solver}: {fallback.reason.value} ({fallback.detail})")
