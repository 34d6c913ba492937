"""``bftrainer replay sweep``: a grid of replays on many cores; a killed sweep resumes where it stopped."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer.cli.choices import OBJECTIVES, POLICIES, SOLVER
from bftrainer.errors import UserError
from bftrainer_replay.cli.choices import COST_MODEL, CURVE_MODES, DECIDE_ON, SHARED_BY, WORKLOAD
from bftrainer_replay.cli.import_options import NAMES, import_options, with_import_options
from bftrainer_replay.cli.log_options import LogChoice, window_of, with_window_options
from bftrainer_replay.cli.sweeping import complain_of, progress_of_tasks
from bftrainer_replay.cli.workload_options import jobs_option, tell_remarks

if TYPE_CHECKING:
    from bftrainer_replay.logs.model import LogWindow
    from bftrainer_replay.sweep.grid import SweepFile

_PATH = click.Path(path_type=Path)


@click.command()
@click.option("--grid", type=_PATH, metavar="FILE", help="TOML file with [[logs]], [[workloads]] and [grid].")
@click.option("--log", "logs", multiple=True, type=_PATH, metavar="LOG", help="Event log or job log; may be repeated.")
@with_window_options
@with_import_options
@click.option("--trainers", type=_PATH, metavar="FILE", help="Trainer table.  [default: generated, see --workload]")
@click.option("--curves", type=_PATH, metavar="FILE", help="Throughput curves.  [default: the paper's Table 2]")
@click.option("--model", metavar="NAME", help="Use this model's curve for all trainers.")
@click.option(
    "--workload",
    type=WORKLOAD,
    help="Kind of trainers to generate.  [default: diverse]",
)
@click.option(
    "--count",
    type=int,
    metavar="N",
    help="Number of trainers to generate.  [default: enough work to last longer than the log]",
)
@click.option(
    "--policies",
    type=POLICIES,
    metavar="A,B",
    help="Comma-separated policies.  [default: bftrainer]",
)
@click.option(
    "--objectives", type=OBJECTIVES, metavar="A,B", help="Comma-separated objectives.  [default: see `replay run`]"
)
@click.option("--forward-s", metavar="S,S", help="Forward-looking times T_fwd.  [default: see `replay run`]")
@click.option("--max-parallel", metavar="P,P", help="Trainers admitted at once, P_jmax, or `auto`.  [default: auto]")
@click.option("--cost-factors", metavar="F,F", help="Factors for all R_up and R_dw.  [default: 1]")
@click.option("--seeds", metavar="S,S", help="Random seeds for workload and policy.  [default: 0]")
@click.option(
    "--splits",
    "--split",
    metavar="K,K",
    help="Divide the nodes and P_jmax among K logical clusters, each with its own pilot.  [default: 1]",
)
@click.option(
    "--knows",
    type=CURVE_MODES,
    metavar="A,B",
    help="The policies' knowledge of the curves; same values as HOW in `replay run --curves`.  [default: known]",
)
@click.option("--noise", type=float, metavar="X", help="Relative error of a measurement, like 0.1.  [default: 0]")
@click.option(
    "--lessons",
    type=SHARED_BY,
    help="Share measurements between trainers of one model, or keep them per trainer.  [default: model]",
)
@click.option(
    "--checkpoint-s",
    metavar="S,S",
    help="Times between checkpoints, or `notice` (see `replay run`).  [default: notice]",
)
@click.option("--solver", type=SOLVER, help="Solver of the allocation problem.  [default: exact]")
@click.option("--cost-model", type=COST_MODEL, help="How the cost of a rescale is modeled.  [default: stall]")
@click.option("--decide-on", type=DECIDE_ON, help="Decide at all events, or at pool changes only.  [default: all]")
@jobs_option
@click.option("--mpi", is_flag=True, help="Run under mpiexec: rank 0 coordinates, all other ranks compute.")
@click.option("--no-bound", is_flag=True, help="Omit the no-cost bounds.")
@click.option("--dry-run", is_flag=True, help="Print the number of replays and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array with an object per cell.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Output directory."
)
def sweep(mpi: bool, **options: Any) -> None:
    """Replay every combination of logs, policies and settings.

    Each result is a file in DIR/cells, named after a hash of its settings and inputs: a killed sweep resumes where it stopped,
    and extending the grid computes only the new cells. At the end, the sweep writes results.csv (a row per cell) and a figure
    for every setting that varies. The results are the same for any number of processes, with or without MPI.

    \b
    Example:
      bftrainer replay generate --nodes 512 --days 2 --out log.csv.gz
      bftrainer replay sweep --log log.csv.gz --policies bftrainer,equal-share --forward-s 30,120 --out sweep
      mpiexec -n 9 bftrainer replay sweep --mpi --grid grid.toml --out sweep
    """
    if not mpi:
        _sweep(mpi=False, **options)
        return
    from bftrainer_replay.sweep.run import mpi_workers_serve, release_mpi_workers

    if mpi_workers_serve():
        return
    try:
        _sweep(mpi=True, **options)
    finally:
        release_mpi_workers()


def _sweep(
    *, grid: Path | None, jobs: int, mpi: bool, no_bound: bool, dry_run: bool, as_json: bool, out: Path, **options: Any
) -> None:  # fmt: skip
    from bftrainer_replay.figures.sweep_results import pictures
    from bftrainer_replay.sweep.cell import tasks_of
    from bftrainer_replay.sweep.grid import cells_of
    from bftrainer_replay.sweep.inputs import inputs_of, workload_of
    from bftrainer_replay.sweep.results import as_csv, as_dict, rows_of
    from bftrainer_replay.sweep.run import SweepBackend, do_all
    from bftrainer_replay.sweep.store import ResultStore

    asked = _asked(grid, options)
    folder = Path() if grid is None else grid.parent
    workloads = [workload_of(table, folder) for table in asked.workloads]
    windows = _windows(asked, folder)
    cells = cells_of(asked.grid, tuple(windows), tuple(workload.name for workload in workloads))
    inputs = inputs_of(windows, workloads, cells)
    tell_remarks(inputs)
    store = ResultStore(out / "cells")
    tasks = tasks_of(cells, inputs, bounds=not no_bound)
    left = sum(store.get(task) is None for task in tasks)
    click.echo(
        f"{len(cells):,} cells, {len(tasks):,} replays including reference replays: {len(tasks) - left:,} done, "
        f"{left:,} to do",
        err=True,
    )
    if dry_run:
        return
    with progress_of_tasks("sweep", lines=True) as show:
        backend = SweepBackend.MPI if mpi else SweepBackend.LOCAL
        failures = do_all(tasks, inputs, store, jobs=jobs, backend=backend, on_done=show)
    rows = rows_of(cells, inputs, store)
    _write(out, {"results.csv": as_csv(rows), **pictures(rows)})
    if as_json:
        click.echo(json.dumps([as_dict(row) for row in rows]))
    else:
        click.echo(f"{out / 'results.csv'}: {len(rows):,} rows")
    complain_of(failures, len(tasks))


def _asked(grid: Path | None, options: dict[str, Any]) -> SweepFile:
    """The grid file with the options applied; an option replaces the file's list."""
    from bftrainer.config.validation import check_table, load_toml
    from bftrainer_replay.sweep.grid import SweepFile

    told = {} if grid is None else load_toml(grid)
    where = "the command line" if grid is None else str(grid)
    importing = import_options(options["machine_nodes"], {name: options[name] for name in NAMES})
    shared = {name: options[name] for name in ("start", "hours", "nodes", "node_list") if options[name] is not None}
    shared |= {f.name: value for f in fields(importing) if (value := getattr(importing, f.name)) != f.default}
    if options["logs"]:
        told["logs"] = [{"path": str(path.absolute()), **_texts(shared)} for path in options["logs"]]
    elif shared:
        raise UserError(
            f"--{next(iter(shared)).replace('_', '-')} requires --log; in a grid file it is a key of [[logs]]"
        )
    named = {n: options[n] for n in ("trainers", "curves", "model", "count") if options[n] is not None}
    if options["workload"]:
        named["kind"] = options["workload"]
    if named or not told.get("workloads"):
        told["workloads"] = [_texts(named)]
    table = dict(told.get("grid", {}))
    for name in ("policies", "objectives", "knows"):
        if options[name]:
            table[name] = options[name].split(",")
    for name, number in _LISTS.items():
        if options[name]:
            table[name] = [_number(name, text, number) for text in options[name].split(",")]
    table |= {name: options[name] for name in ("solver", "cost_model", "decide_on", "lessons") if options[name]}
    if options["noise"] is not None:
        table["noise"] = options["noise"]
    found = check_table(told | {"grid": table}, SweepFile, where)
    if not found.logs:
        raise UserError("no log; specify one with --log, or in [[logs]] of --grid FILE")
    return found


_LISTS = {
    "forward_s": float,
    "max_parallel": int,
    "cost_factors": float,
    "seeds": int,
    "splits": int,
    "checkpoint_s": float,
}
_WORDS = {"checkpoint_s": "notice", "max_parallel": "auto"}


def _number(name: str, text: str, number: type[float] | type[int]) -> float | int | str:
    if text == _WORDS.get(name):
        return text
    try:
        return number(text)
    except ValueError as error:
        option = f"--{name.replace('_', '-')}"
        raise UserError(f"{option}: {text!r:.40} is not a number, expected a list like 30,60,120") from error


def _texts(table: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value.absolute()) if isinstance(value, Path) else value for name, value in table.items()}


def _windows(asked: SweepFile, folder: Path) -> dict[str, LogWindow]:
    """The windows by file name; duplicate names get a number."""
    found: dict[str, LogWindow] = {}
    for log in asked.logs:
        node_list = None if log.node_list is None else folder / log.node_list
        window = window_of(
            LogChoice(folder / log.path, log.start, log.hours, log.nodes, node_list, log.importing(folder))
        )
        name = log.path.name if log.path.name not in found else f"{log.path.name}#{len(found) + 1}"
        found[name] = window
    return found


def _write(out: Path, files: dict[str, bytes]) -> None:
    from bftrainer.system.files import write_atomically

    try:
        for name, data in files.items():
            write_atomically(out / name, data)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written: {error.strerror}") from error
