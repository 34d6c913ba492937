"""``bftrainer replay reproduce``: a paper's experiment, with its published values beside ours."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer.console.cli.choices import DIR, FILE
from bftrainer.console.cli.ending import ended_by_signals
from bftrainer.console.cli.output import note, say
from bftrainer.console.cli.tables import (
    hanging_indent,
    name_column,
    number_column,
    show_table,
    text_column,
)
from bftrainer.errors import UserError
from bftrainer_replay.cli.workers import opened_workers, where_option

if TYPE_CHECKING:
    from bftrainer_papers.reproduction import PaperResult, Reproduction

NAMES = ("bftrainer", "modelarts", "afs", "loss-phase", "flowcon", "specon")


@click.command()
@click.argument("name", type=click.Choice(NAMES))
@click.option("--seeds", default=3, metavar="N", help="Use generated workloads with seeds 1 to N.")
@click.option(
    "--full",
    is_flag=True,
    help=(
        "Run every setting of the paper (modelarts: 20 minutes per seed; bftrainer: a quarter "
        "of an hour), and with --arrivals every virtual cluster."
    ),
)
@click.option(
    "--arrivals",
    type=FILE,
    metavar="TRACE",
    help="afs: also replay virtual clusters of this trace of Philly.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.option(
    "--log", type=FILE, metavar="LOG", help="bftrainer: the authors' log of idle nodes on Summit."
)
@click.option("--node-list", type=FILE, help="bftrainer: nodes in the order of the log's columns.")
@click.option(
    "--trainers", type=FILE, help="bftrainer: the diverse trainers.  [default: generated]"
)
@click.option("--curves", type=FILE, help="bftrainer: throughput curves.  [default: Table 2]")
@click.option(
    "--theta", type=FILE, metavar="LOG", help="bftrainer: a job log of Theta, for Table 1."
)
@click.option("--mira", type=FILE, metavar="LOG", help="bftrainer: a job log of Mira, for Table 1.")
@where_option
@click.option(
    "--out",
    type=DIR,
    help="bftrainer: output directory for figures, tables and results.  [default: reproduction]",
)
@ended_by_signals()
def reproduce(
    name: str,
    seeds: int,
    full: bool,
    arrivals: Path | None,
    as_json: bool,
    where: str | None,
    **of_bftrainer: Any,
) -> None:
    """Run a paper's experiment and print the published values next to bftrainer's.

    The log of BFTrainer's own paper is public: every table and figure is reproduced from it and
    written to --out, and an interrupted run picks up where it left off. The data of the other
    papers are not public: workloads are generated from their published statistics. The lines above
    the table list what was generated and assumed. docs/reproduction.md explains the differences and
    lists the tolerances that were set after results were known.

    \b
    Example:
      bftrainer replay reproduce loss-phase
      bftrainer replay reproduce afs --seeds 6 --arrivals philly.csv
      bftrainer replay reproduce bftrainer --log summit.csv.gz --out reproduction
    """
    from importlib import import_module

    from bftrainer_papers.cli.reproduce_bftrainer import BFTrainerOptions, print_runtimes
    from bftrainer_papers.cli.reproduce_bftrainer import reproduce as reproduce_bftrainer
    from bftrainer_papers.reproduction import ReproductionOptions

    if seeds < 1:
        raise UserError(f"--seeds {seeds}: expected 1 or more")
    if arrivals is not None and name != "afs":
        raise UserError("--arrivals is an option of: bftrainer replay reproduce afs")
    options = BFTrainerOptions(**of_bftrainer)
    given = (*options.given(), *([] if where is None else ["--workers"]))
    if name != "bftrainer" and given:
        raise UserError(f"{given[0]} is an option of: bftrainer replay reproduce bftrainer")
    if name == "bftrainer":
        with opened_workers(where) as workers:
            if workers is None:
                return
            report, results = reproduce_bftrainer(options, full, note, workers)
        show(report, as_json=as_json)
        if not as_json:
            print_runtimes(results)
        return
    from rich.console import Console

    stderr = Console(stderr=True)
    module = import_module(f"bftrainer_papers.{name.replace('-', '_')}")
    with stderr.status("") as status:
        extent = ReproductionOptions(
            tuple(range(1, seeds + 1)),
            full,
            lambda text: status.update(text) if stderr.is_terminal else None,
            arrivals,
        )
        report = module.reproduce(extent)
    show(report, as_json=as_json)


def show(report: Reproduction, *, as_json: bool) -> None:
    """Print the rows of a reproduction as a table, or as one JSON object."""
    if not as_json:
        _print_report(report)
        return
    # NaN (not measured) becomes null.
    rows = [
        {
            **asdict(row),
            "ours": row.ours if math.isfinite(row.ours) else None,
            "verdict": row.verdict.value,
        }
        for row in report.rows
    ]
    click.echo(json.dumps({**asdict(report), "rows": rows}, allow_nan=False))


def _print_report(report: Reproduction) -> None:
    """Print the assumptions of a reproduction, its rows as a table, and why values differ."""
    say(report.source)
    for line in report.model:
        say(hanging_indent("- ", line))
    columns = (
        text_column(""),
        *map(number_column, ("paper", "ours", "tolerance")),
        name_column(""),
    )
    show_table(columns, [(row.what, *cells(row), row.verdict.value) for row in report.rows])
    for row in report.rows:
        if row.why:
            say(hanging_indent("", f"{row.what}: {row.why}", 2))


def cells(row: PaperResult) -> tuple[str, str, str]:
    """Return the paper's value, ours and the tolerance as text."""
    paper = "-" if row.paper is None else f"{_number_text(row.paper)} {row.unit}"
    tolerance = "-" if row.tolerance is None or row.paper is None else f"{row.tolerance:.3g}"
    return paper, f"{_number_text(row.ours)} {row.unit}", tolerance


def _number_text(value: float) -> str:
    """Four digits, or all digits before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"
