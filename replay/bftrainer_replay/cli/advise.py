"""``bftrainer advise``: settings of the pilot's configuration, from a log."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.errors import UserError
from bftrainer_replay.cli.log_options import LogChoice, log_options, window_of
from bftrainer_replay.cli.sweeping import complain_of, progress_of_tasks
from bftrainer_replay.cli.workload_options import jobs_option, tell_remarks, workload_options

if TYPE_CHECKING:
    from bftrainer_replay.sweep.grid import WorkloadTable


@click.command()
@log_options
@workload_options
@jobs_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Output directory."
)
def advise(
    choice: LogChoice,
    table: WorkloadTable,
    jobs: int,
    as_json: bool,
    out: Path,
) -> None:
    """Recommend T_fwd, P_jmax, the objective, the shortest window and the holders' time limit, based on LOG.

    Prints the recommended settings and how much worse other values of T_fwd, P_jmax and the objective do. Writes
    DIR/bftrainer.toml (lines for the pilot's configuration), DIR/advice.json, DIR/losses.png (how much worse other values
    do), and the figures of the underlying replays.

    \b
    Example:
      bftrainer replay generate --nodes 128 --days 1 --out log.csv.gz
      bftrainer advise log.csv.gz --out advice
    """
    from bftrainer.system.files import write_atomically
    from bftrainer_replay.comparison.advise import cells_to_try, config_lines, recommend
    from bftrainer_replay.figures.advice import losses_figure
    from bftrainer_replay.figures.style import png
    from bftrainer_replay.figures.sweep_results import pictures
    from bftrainer_replay.sweep.cell import Cell, tasks_of
    from bftrainer_replay.sweep.inputs import inputs_of, workload_of
    from bftrainer_replay.sweep.results import rows_of
    from bftrainer_replay.sweep.run import do_all
    from bftrainer_replay.sweep.store import ResultStore

    source = workload_of(table)
    window = window_of(choice)
    base = Cell("log", source.name)
    cells = cells_to_try(base)
    inputs = inputs_of({"log": window}, [source], cells)
    tell_remarks(inputs)
    store = ResultStore(out / "cells")
    tasks = tasks_of(cells, inputs, bounds=False)
    with progress_of_tasks("replays") as show:
        complain_of(do_all(tasks, inputs, store, jobs=jobs, on_done=show), len(tasks))
    rows = rows_of(cells, inputs, store)
    advice = recommend(base, {row.cell: row for row in rows}, inputs)
    text = json.dumps(dataclasses.asdict(advice), indent=2)
    lines = config_lines(advice)
    try:
        for name, data in pictures(rows).items():
            write_atomically(out / name, data)
        write_atomically(out / "losses.png", png(losses_figure(advice)))
        write_atomically(out / "advice.json", f"{text}\n".encode())
        write_atomically(out / "bftrainer.toml", lines.encode())
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written: {error.strerror}") from error
    if as_json:
        click.echo(text)
        return
    for each in advice.choices:
        click.echo(f"{each.name} = {each.value}  ({each.others})")
    click.echo(
        f"\n{lines}\nWritten: {out / 'bftrainer.toml'}, with advice.json, cells and figures in the same directory"
    )
