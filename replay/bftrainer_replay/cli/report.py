"""``bftrainer replay report``: one page about one log."""

from __future__ import annotations

import json
import math
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.errors import UserError
from bftrainer_replay.cli.log_options import LogChoice, log_options, window_of
from bftrainer_replay.cli.sweeping import complain_of, progress_of_tasks, span
from bftrainer_replay.cli.workload_options import jobs_option, tell_remarks, workload_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bftrainer_replay.report.plan import ReportPlan
    from bftrainer_replay.sweep.cell import Cell, Inputs, Task
    from bftrainer_replay.sweep.grid import WorkloadTable
    from bftrainer_replay.sweep.results import SweepRow
    from bftrainer_replay.sweep.store import ResultStore

# Policies that can run trainers of which only a trainer table is known.
FULL_POLICIES = ("equal-share", "modelarts-greedy", "afs-l")


@click.command()
@log_options
@workload_options
@click.option(
    "--forward-s",
    default=120.0,
    show_default=True,
    metavar="S",
    help="T_fwd of the replay that the others are compared with.",
)
@click.option(
    "--max-parallel",
    default=10,
    show_default=True,
    metavar="P",
    help="P_jmax of the replay that the others are compared with.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Use the paper's complete grids and more policies; prints the estimated run time first.",
)
@jobs_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the results of every replay.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Output directory."
)
def report(
    choice: LogChoice,
    table: WorkloadTable,
    forward_s: float,
    max_parallel: int,
    full: bool,
    jobs: int,
    as_json: bool,
    out: Path,
) -> None:
    """Write an HTML report on LOG: its idle nodes, how much training they could do, and the effect of each setting.

    DIR/report.html works offline and without JavaScript; DIR/pictures and DIR/data contain the same results as PNG and CSV.
    The results of the twelve replays are kept in DIR/cells: an interrupted report picks up where it left off.

    \b
    Example:
      bftrainer replay generate --nodes 256 --days 2 --out log.csv.gz
      bftrainer replay report log.csv.gz --out report
    """
    from bftrainer_replay.analysis.characterize import characterize
    from bftrainer_replay.report.assumptions import TABLE_2_NODES
    from bftrainer_replay.report.log_page import log_page
    from bftrainer_replay.report.page import write
    from bftrainer_replay.report.plan import default_plan, full_plan
    from bftrainer_replay.sweep.cell import Cell, TaskKind, task
    from bftrainer_replay.sweep.inputs import inputs_of, workload_of
    from bftrainer_replay.sweep.store import ResultStore

    began = time.perf_counter()
    if max_parallel < 1:
        raise UserError(f"--max-parallel {max_parallel}: expected 1 or more")
    if not 0 <= forward_s < float("inf"):
        raise UserError(f"--forward-s {forward_s:g}: expected seconds, 0 or more")
    source = workload_of(table)
    window = window_of(choice)
    found = characterize(window)
    base = Cell("log", source.name, forward_s=forward_s, max_parallel=max_parallel)
    plan = full_plan(base, FULL_POLICIES) if full else default_plan(base)
    inputs = inputs_of({"log": window}, [source], plan.cells)
    tell_remarks(inputs)
    store = ResultStore(out / "cells")
    rows = replay_plan(plan, inputs, store, jobs, estimate=full)
    commands = (shlex.join(["bftrainer", *sys.argv[1:]]),)
    bins = store.get(task(TaskKind.STATIC_BINS, base, inputs))
    assert bins is not None, "the plan has this task"
    trainers = [arrival.trainer for arrival in inputs.arrivals_of(base)]
    curves = TABLE_2_NODES if table.curves is None else f"from {table.curves}"
    page = log_page(window, found, plan, rows, bins["samples"], trainers, curves, choice.log.name, commands)
    try:
        size = write(out, page)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written: {error.strerror}") from error
    if as_json:
        from bftrainer_replay.sweep.results import as_dict

        click.echo(json.dumps({"title": page.title, "lead": page.lead, "replays": [as_dict(r) for r in rows.values()]}))
        return
    click.echo(page.lead)
    took = span(time.perf_counter() - began)
    click.echo(f"{out / 'report.html'}: {size / 1e6:.1f} MB, {len(plan.cells) + 1} replays, {took}")


def replay_plan(
    plan: ReportPlan, inputs: Inputs, store: ResultStore, jobs: int, *, estimate: bool
) -> Mapping[Cell, SweepRow]:
    """The rows of a plan's cells; ``estimate`` first prints the expected duration, from the first replay."""
    from bftrainer_replay.sweep.cell import TaskKind, task
    from bftrainer_replay.sweep.results import rows_of
    from bftrainer_replay.sweep.run import do_all

    tasks = plan.tasks(inputs)
    if estimate:
        first = task(TaskKind.REPLAY, plan.base, inputs)
        complain_of(do_all([first], inputs, store), 1)
        result = store.get(first)
        assert result is not None
        left = [each for each in tasks if store.get(each) is None]
        took_s = float(result["timing"]["wall_s"])
        whole_s = sum(took_s * _weight(each, plan.base) for each in left) / jobs
        constant = sum(each.kind in (TaskKind.STATIC, TaskKind.STATIC_BINS) for each in tasks)
        click.echo(
            f"{len(tasks) - constant} replays and {constant} runs on a constant number of nodes, {len(left)} to do: "
            f"about {span(whole_s)} on {jobs} cores, estimated from the first replay ({span(took_s)}). To resume after an "
            "interruption, run the same command",
            err=True,
        )
    with progress_of_tasks("replays") as show:
        complain_of(do_all(tasks, inputs, store, jobs=jobs, on_done=show), len(tasks))
    return {row.cell: row for row in rows_of(plan.cells, inputs, store)}


def _weight(task: Task, base: Cell) -> float:
    """Duration of a task relative to the base's replay: about the root of P_jmax; runs on constant nodes have few events."""
    from bftrainer_replay.sweep.cell import TaskKind

    if task.kind in (TaskKind.STATIC, TaskKind.STATIC_BINS):
        return 0.3
    return math.sqrt(task.cell.max_parallel / base.max_parallel)
