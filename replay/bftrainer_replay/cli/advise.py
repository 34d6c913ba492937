"""``bftrainer advise``: settings of the pilot's configuration, from a log."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer import __version__
from bftrainer.console.cli.output import note
from bftrainer.console.cli.topics import CommandWithTopics
from bftrainer_replay.cli.choices import (
    cost_model_option,
    folder_beside,
    folder_option,
    write_errors_reported,
)
from bftrainer_replay.cli.log_options import TOPICS_OF_LOGS, LogChoice, log_options, window_of
from bftrainer_replay.cli.sampling import full_option, pilot_trainers, replayed, sample_of
from bftrainer_replay.cli.workers import Workers, workers_option
from bftrainer_replay.cli.workload_options import (
    node_type_option,
    origin_of_curves,
    workload_options,
)

if TYPE_CHECKING:
    from bftrainer_replay.sweep.inputs import WorkloadTable


_TOPICS = {
    "Trainings": ("--trainers", "--curves", "--model", "--node-type", "--cost-model"),
    **TOPICS_OF_LOGS,
}


@click.command(cls=CommandWithTopics, topics=_TOPICS)
@log_options
@workload_options
@node_type_option
@cost_model_option
@full_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@folder_option("advice")
@workers_option
def advise(
    choice: LogChoice,
    table: WorkloadTable,
    node_type: str | None,
    cost_model: str,
    full: bool,
    workers: Workers,
    as_json: bool,
    out: Path | None,
) -> None:
    """Recommend T_fwd, P_jmax, the objective, the shortest window and the holders' time limit,
    based on LOG.

    Prints the recommended settings and how much worse other values of T_fwd, P_jmax and the
    objective do. Writes DIR/bftrainer.toml (a pilot's configuration, for its state directory) and
    DIR/advice.json.

    \b
    Example:
      bftrainer replay generate --nodes 128 --days 1 --out log.csv.gz
      bftrainer advise log.csv.gz --out advice
    """
    from bftrainer.system.files import write_atomically
    from bftrainer_replay.analysis.cohorts import cohort_hits, fitted, policy_name
    from bftrainer_replay.comparison.advise import cells_to_try, config_lines, recommend
    from bftrainer_replay.logs.dialect import LSF
    from bftrainer_replay.report.words import dates
    from bftrainer_replay.simulation.play import enough_trainers
    from bftrainer_replay.simulation.progress import CostModel, too_long_s
    from bftrainer_replay.sweep.cell import Cell, each_once, task
    from bftrainer_replay.sweep.inputs import inputs_of, workload_of

    out = out or folder_beside(choice.log, "advice")
    source = workload_of(table)
    curves, _ = origin_of_curves(table, node_type)
    window = window_of(choice)
    note(f"training rates from {curves}")
    trainers, costs = pilot_trainers(window, source, 0), CostModel(cost_model)
    base = Cell(
        "log", source.name, max_parallel=enough_trainers(window, trainers), cost_model=costs
    )
    cells = cells_to_try(base, too_long_s(costs, trainers))
    base = cells[0]
    sample = sample_of(window, source, cells, full=full, base=base)
    cells_of_pieces = [piece_cell for cell in cells for piece_cell in sample.cells(cell)]
    inputs = inputs_of(sample.windows, [source], cells_of_pieces)
    tasks = each_once(task(piece_cell, inputs) for piece_cell in cells_of_pieces)
    rows = replayed(tasks, cells, sample, inputs, source, out / "cells", workers)
    arrivals = inputs.arrivals_of(dataclasses.replace(base, log=sample.shown))
    advice = recommend(base, rows, arrivals, window)
    hits = cohort_hits(window)
    if (model := fitted(hits)) is not None:
        advice = dataclasses.replace(advice, cohort=policy_name(model))
    text = json.dumps(dataclasses.asdict(advice), indent=2)
    origin = f"bftrainer advise {__version__}, {date.today()}: {choice.log.name}, {dates(window)}"
    is_lsf = window.queue is not None and window.queue.dialect is LSF
    lines = config_lines(advice, origin, lsf=is_lsf)
    with write_errors_reported(out):
        write_atomically(out / "advice.json", f"{text}\n".encode())
        write_atomically(out / "bftrainer.toml", lines.encode())
    if as_json:
        click.echo(text)
        return
    for setting in advice.choices:
        click.echo(f"{setting.name} = {setting.value}  ({setting.others})")
    click.echo(
        f"\n{lines}\nWritten: {out / 'bftrainer.toml'}, with advice.json and cells in the same "
        "directory"
    )
