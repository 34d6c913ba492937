"""``bftrainer replay reproduce bftrainer``: the experiments of BFTrainer's paper, from the authors'
log.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.output import say
from bftrainer.console.cli.tables import name_column, number_column, show_table
from bftrainer.errors import UserError
from bftrainer_replay.cli.choices import write_errors_reported
from bftrainer_replay.cli.sweeping import complain_of, progress_of_tasks, span
from bftrainer_replay.cli.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bftrainer_papers.bftrainer.experiments import ExperimentPlan, ExperimentSources
    from bftrainer_papers.bftrainer.results import ExperimentResults
    from bftrainer_papers.reproduction import OnStep, Reproduction
    from bftrainer_replay.logs.model import EventLog, LogWindow
    from bftrainer_replay.sweep.cell import Inputs, Task
    from bftrainer_replay.sweep.result_files import ResultStore


@dataclass(frozen=True, slots=True)
class BFTrainerOptions:
    """The options of ``reproduce`` for this paper only; field names are option names."""

    log: Path | None = None
    node_list: Path | None = None
    trainers: Path | None = None
    curves: Path | None = None
    theta: Path | None = None
    mira: Path | None = None
    out: Path | None = None

    def given(self) -> tuple[str, ...]:
        """The names of the options in use."""
        return tuple(
            f"--{name.replace('_', '-')}"
            for name in self.__slots__
            if getattr(self, name) is not None
        )


def reproduce(
    options: BFTrainerOptions, full: bool, on_step: OnStep, workers: Workers
) -> tuple[Reproduction, ExperimentResults]:
    """Run the replays that are missing; return the rows of the reproduction, and all results.

    Also draws the figures and writes all files. ``full`` runs every setting of the paper. Raises
    :class:`UserError` without a log.
    """
    from bftrainer_papers.bftrainer.collect import collect
    from bftrainer_papers.bftrainer.experiments import FULL, QUICK, inputs_of, plan_of
    from bftrainer_papers.bftrainer.report import reproduction_of, write
    from bftrainer_replay.sweep.result_files import ResultStore

    if options.log is None:
        raise UserError("reproduce bftrainer requires --log LOG (the authors' log of Summit)")
    out = options.out or Path("reproduction")
    grid = FULL if full else QUICK
    on_step("reading the log")
    sources = _read_sources(options, options.log)
    others = _other_logs(options)
    inputs = inputs_of(sources, grid)
    plan = plan_of(grid, sorted(sources.curves))
    folder = out / "cells"
    on_step("replaying")
    _run_missing(plan, inputs, ResultStore(folder), workers)
    from_table = sources.trainers is not None
    results = collect(inputs, grid, plan, folder, others, on_step, trainers_from_table=from_table)
    report = reproduction_of(results)
    on_step("drawing")
    with write_errors_reported(out):
        files = write(out, results, report)
    click.echo(f"{out}: {files} files", err=True)
    return report, results


def _read_sources(options: BFTrainerOptions, path: Path) -> ExperimentSources:
    """Read what the experiments are made of: the log, the order of its nodes, the curves and the
    trainers.
    """
    from bftrainer_papers.bftrainer.experiments import ExperimentSources, order_of
    from bftrainer_replay.logs.node_list import read_node_list
    from bftrainer_replay.workload.curves import TABLE_2, read_curves
    from bftrainer_replay.workload.workload import read_workload

    curves = TABLE_2 if options.curves is None else read_curves(options.curves)
    if lacking := sorted(TABLE_2.keys() - curves.keys()):
        raise UserError(
            f"--curves {options.curves}: no curve for {lacking[0]}, expected all seven models "
            "of Table 2"
        )
    log = _read_paper_log(path)
    order = order_of(log, None if options.node_list is None else read_node_list(options.node_list))
    trainers = (
        None if options.trainers is None else read_workload(options.trainers, curves).arrivals
    )
    return ExperimentSources(log, order, curves, trainers)


def _read_paper_log(path: Path, machine_nodes: int | None = None) -> EventLog:
    """Return a log with idle nodes as the paper defines them.

    ``machine_nodes`` is the size of the cluster (None: that of the log).
    """
    from bftrainer_replay.logs.open import open_log
    from bftrainer_replay.logs.source import ImportOptions

    # In a job log, all idle time counts, as in the paper's Table 1, except the first day, in which
    # older jobs are missing.
    return open_log(
        path,
        ImportOptions(
            machine_nodes=machine_nodes, debounce_s=0.0, outages=("none",), warm_up_h=24.0
        ),
    ).log


def _other_logs(options: BFTrainerOptions) -> dict[str, LogWindow]:
    """Read the logs of the other machines of Table 1 that were given."""
    from bftrainer_replay.logs.model import restricted_log

    given = {"Theta": (options.theta, 4392), "Mira": (options.mira, None)}
    return {
        name: restricted_log(_read_paper_log(path, nodes))
        for name, (path, nodes) in given.items()
        if path is not None
    }


def _run_missing(
    plan: ExperimentPlan, inputs: Inputs, store: ResultStore, workers: Workers
) -> None:
    """Run the computations that have no result yet; first print their number and how long they
    take.

    The duration is estimated from the first replay, which is run (or read) for that.
    """
    from bftrainer_papers.bftrainer.cells import REPLAY, compute, paper_task
    from bftrainer_replay.sweep.run_tasks import do_all

    tasks = plan.tasks(inputs)
    left = _missing_tasks(tasks, store)
    if left:
        first = paper_task(REPLAY, plan.base, inputs)
        complain_of(do_all([first], inputs, store, compute=compute), 1)
        result = store.get(first)
        assert result is not None
        took_s = float(result["wall_s"])
        about_s = took_s * len(left) / workers.processes
        click.echo(
            f"{len(tasks)} computations, {len(left)} to do: about {span(about_s)} on "
            f"{workers.text(workers.processes)}, estimated from the first replay "
            f"({span(took_s)}). To resume after an interruption, run the same command",
            err=True,
        )
    with progress_of_tasks("replays") as show:
        failures = do_all(
            tasks,
            inputs,
            store,
            compute=compute,
            jobs=workers.processes,
            executor=workers.executor,
            on_done=show,
        )
        complain_of(failures, len(tasks))


def _missing_tasks(tasks: Sequence[Task], store: ResultStore) -> list[Task]:
    return [task for task in tasks if store.get(task) is None]


def print_runtimes(results: ExperimentResults) -> None:
    """Print Tables 3 and 4, the paper's hours beside ours."""
    from bftrainer_papers.bftrainer.tables import runtime_table

    for number, objective in ((3, "throughput"), (4, "scaling-efficiency")):
        cells = runtime_table(results, objective)
        columns = sorted({p for _, p, *_ in cells})
        say(
            f"Table {number}: mean runtime in hours by P_jmax, objective {objective}: paper / "
            "ours / ours at T_fwd 10 s"
        )
        rows: list[list[str]] = []
        for model in dict.fromkeys(model for model, *_ in cells):
            cells_of_model = {
                p: f"{paper:g}/{ours:.1f}/{at_10:.1f}"
                for m, p, paper, ours, _, _, at_10 in cells
                if m == model
            }
            rows.append([model, *(cells_of_model[p] for p in columns)])
        show_table(
            (name_column(""), *(number_column(str(p), rank) for rank, p in enumerate(columns))),
            rows,
        )
