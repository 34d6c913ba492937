"""``bftrainer replay sweep``: a grid of replays on many cores, ranks, workers or jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import DIR, FILE
from bftrainer.console.cli.ending import ended_by_signals
from bftrainer.console.cli.output import note, say
from bftrainer.counted import counted
from bftrainer.errors import UserError
from bftrainer_replay.cli.choices import folder_beside, write_errors_reported
from bftrainer_replay.cli.sweeping import complain_of, progress_each_minute
from bftrainer_replay.cli.workers import Workers, opened_workers, where_option
from bftrainer_replay.cli.workload_options import tell_remarks

if TYPE_CHECKING:
    from bftrainer_replay.sweep.cell import Task
    from bftrainer_replay.sweep.grid import GridSweep
    from bftrainer_replay.sweep.result_files import ResultStore


@click.command()
@click.argument("grid", type=FILE, metavar="GRID.toml")
@click.option(
    "--out",
    type=DIR,
    help="Output directory.  [default: GRID-sweep in the current directory, like july-sweep for "
    "july.toml]",
)
@where_option
@click.option(
    "--shard",
    metavar="I/N",
    help="Compute only the I-th of N parts, I from 1 to N: for job arrays.",
)
@click.option("--collect", is_flag=True, help="Compute nothing; write the tables of what is there.")
@click.option("--dry-run", is_flag=True, help="Print the number of replays and their core-hours.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array, an object per cell.")
@ended_by_signals()
def sweep(
    grid: Path,
    out: Path | None,
    where: str | None,
    shard: str | None,
    collect: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Replay every combination of logs, workloads and settings in GRID.toml.

    Each result is a file in DIR/cells, named after a hash of its settings and inputs: a killed
    sweep resumes where it stopped, and an extended grid computes only the new cells. At the end,
    DIR/results.csv has a row per cell (and results.parquet, if pyarrow is installed). The tables
    are the same wherever the replays run.

    \b
    Example:
      bftrainer replay sweep grid.toml --out sweep
      mpiexec -n 9 bftrainer replay sweep grid.toml --out sweep --workers mpi
      bftrainer replay sweep grid.toml --out sweep --shard 3/64
      bftrainer replay sweep grid.toml --out sweep --collect
    """
    with opened_workers(None if collect or dry_run else where) as workers:
        if workers is not None:
            _run_sweep(
                grid, out or folder_beside(grid, "sweep"), workers, shard, collect, dry_run, as_json
            )


def _run_sweep(
    grid: Path,
    out: Path,
    workers: Workers,
    shard: str | None,
    collect: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run the replays of a grid (or of one shard of it) that have no result yet; write the tables.

    With ``collect``, nothing is run; with ``dry_run``, only the size is printed. A shard writes no
    tables, since the results of other shards may still be missing.
    """
    from bftrainer_replay.sweep.grid import read_sweep, shard_of
    from bftrainer_replay.sweep.result_files import ResultStore
    from bftrainer_replay.sweep.run_grid import CELLS

    if shard is not None and collect:
        raise UserError("--shard cannot be combined with --collect: run it after all shards")
    grid_sweep = read_sweep(grid)
    for remark in dict.fromkeys(
        text for window in grid_sweep.inputs.windows.values() for text in window.remarks
    ):
        note(remark)
    tell_remarks(grid_sweep.inputs)
    store = ResultStore(out / CELLS)
    tasks = grid_sweep.tasks
    tasks_of_shard = tasks if shard is None else shard_of(tasks, shard)
    pending = [task for task in tasks_of_shard if store.get(task) is None]
    _say_size(grid_sweep, tasks_of_shard, pending, shard)
    if dry_run:
        return
    if not collect:
        _run_tasks(grid_sweep, tasks_of_shard, store, workers)
    if shard is None:
        _write_tables(grid_sweep, store, out, as_json)


def _say_size(
    grid_sweep: GridSweep,
    tasks_of_shard: Sequence[Task],
    pending: Sequence[Task],
    shard: str | None,
) -> None:
    """Print how many replays the grid (or a shard of it) has, and how much is left to do.

    ``pending`` are the replays without a result; the time of these is estimated.
    """
    cells, replays = counted(len(grid_sweep.cells), "cell"), counted(len(tasks_of_shard), "replay")
    part = "" if shard is None else f" of shard {shard}"
    hours = sum(map(grid_sweep.cost_s, pending)) / 3600
    done = len(tasks_of_shard) - len(pending)
    click.echo(
        f"{cells}, {replays}{part}: "
        f"{done:,} done, {len(pending):,} to do, about {hours:.3g} core-hours",
        err=True,
    )


def _run_tasks(
    grid_sweep: GridSweep,
    tasks: Sequence[Task],
    store: ResultStore,
    workers: Workers,
) -> None:
    """Run the tasks that have no result yet; raises :class:`SweepFailedError` if some failed."""
    from bftrainer_replay.sweep.run_tasks import do_all

    with progress_each_minute("sweep") as show:
        failures = do_all(
            tasks,
            grid_sweep.inputs,
            store,
            jobs=workers.processes,
            executor=workers.executor,
            on_done=show,
            cost=grid_sweep.cost_s,
        )
    complain_of(failures, len(tasks))


def _write_tables(grid_sweep: GridSweep, store: ResultStore, out: Path, as_json: bool) -> None:
    """Write the tables of all results that exist so far."""
    from bftrainer.system.files import write_atomically
    from bftrainer_replay.sweep.results import as_dict, rows_of
    from bftrainer_replay.sweep.tables import as_csv, as_parquet

    rows = rows_of(grid_sweep.cells, grid_sweep.inputs, store)
    parquet = as_parquet(rows)
    with write_errors_reported(out):
        write_atomically(out / "results.csv", as_csv(rows))
        if parquet is not None:
            write_atomically(out / "results.parquet", parquet)
    if missing := len(grid_sweep.cells) - len(rows):
        note(f"{missing:,} of {counted(len(grid_sweep.cells), 'cell')} have no result yet")
    if as_json:
        click.echo(json.dumps([as_dict(row) for row in rows]))
    else:
        say(f"Written: {out / 'results.csv'}, {counted(len(rows), 'row')}")
