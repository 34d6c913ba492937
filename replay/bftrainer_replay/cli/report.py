"""``bftrainer replay report``: one page about one log."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shlex
import sys
import time
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer import __version__
from bftrainer.console.cli.choices import FILE
from bftrainer.console.cli.output import length, note
from bftrainer.console.cli.tables import say_paragraphs
from bftrainer.console.cli.topics import CommandWithTopics
from bftrainer.counted import counted
from bftrainer.errors import UserError
from bftrainer_replay.cli.choices import (
    cost_model_option,
    folder_beside,
    folder_option,
    write_errors_reported,
)
from bftrainer_replay.cli.log_options import TOPICS_OF_LOGS, LogChoice, log_options, window_of
from bftrainer_replay.cli.sampling import full_option, pilot_trainers, replayed, sample_of
from bftrainer_replay.cli.sweeping import span
from bftrainer_replay.cli.workers import Workers, workers_option
from bftrainer_replay.cli.workload_options import (
    max_parallel_option,
    node_type_option,
    origin_of_curves,
    workload_options,
)

if TYPE_CHECKING:
    from bftrainer_replay.logs.model import LogWindow
    from bftrainer_replay.sweep.inputs import WorkloadTable

# Other guesses than the importer's, for the chapter on assumptions.
_WARM_UP_H = 24.0
_DEBOUNCE_S = 60.0
_SHORT_S = 86_400.0
"""A shorter log shows no day of a cluster."""


_TOPICS = {
    "Trainings": (
        "--trainers",
        "--curves",
        "--model",
        "--node-type",
        "--max-parallel",
        "--forward-s",
        "--cost-model",
    ),
    "Money and energy": ("--node-hour-price", "--currency", "--extra-kw", "--co2-g-per-kwh"),
    "Page": ("--title",),
    **TOPICS_OF_LOGS,
}


@click.command(cls=CommandWithTopics, topics=_TOPICS)
@log_options
@workload_options
@click.option(
    "--forward-s",
    default=120.0,
    metavar="S",
    help="T_fwd of the replay that the others are compared with.",
)
@max_parallel_option(
    "P_jmax of the replay that the others are compared with.",
    "enough trainers for twice the mean number of idle nodes, from 10 to 100",
)
@cost_model_option
@full_option
@node_type_option
@click.option(
    "--compare",
    type=FILE,
    metavar="LAST.json",
    help="List the changes since an earlier report (its DIR/report.json).",
)
@click.option(
    "--node-hour-price",
    type=float,
    metavar="PRICE",
    help="Price of a node-hour: the page then says what idle nodes cost a month.",
)
@click.option("--currency", default="EUR", metavar="TEXT", help="Currency of the price.")
@click.option(
    "--extra-kw",
    type=float,
    metavar="KW",
    help="Power that a node draws in training beyond an idle one: the page then has the energy.",
)
@click.option(
    "--co2-g-per-kwh",
    type=float,
    metavar="G",
    help="CO2 of a kWh of the site's electricity: the page then has the CO2 of that energy.",
)
@click.option(
    "--give-way",
    "give_way",
    default="yield",
    metavar="WAY",
    help="How held nodes are freed for main jobs at this site, for the top of the page: site (the "
    "scheduler preempts at once), life:600 (after a guaranteed run time, in seconds), yield (no "
    "preemption), or blind (a hidden queue). See `bftrainer replay delays`.",
)
@click.option(
    "--title",
    metavar="TEXT",
    help="Title of the page.  [default: the size of the cluster and the dates of LOG]",
)
@click.option(
    "--json",
    "to_json",
    is_flag=True,
    help="Print one JSON object with the results of every replay.",
)
@folder_option("report")
@workers_option
def report(
    choice: LogChoice,
    table: WorkloadTable,
    forward_s: float,
    max_parallel: int | None,
    cost_model: str,
    full: bool,
    node_type: str | None,
    compare: Path | None,
    node_hour_price: float | None,
    currency: str,
    extra_kw: float | None,
    co2_g_per_kwh: float | None,
    give_way: str,
    title: str | None,
    workers: Workers,
    to_json: bool,
    out: Path | None,
) -> None:
    """Write an HTML report on LOG: its idle nodes, and what elastic trainings or plain preemptible
    jobs would make of them.

    DIR/report.html works offline and without JavaScript; DIR/pictures and DIR/data contain the same
    results as PNG and CSV, and DIR/report.json the figures at the top, for --compare of the next
    month. The results of all replays are kept in DIR/cells: an interrupted report picks up where it
    left off.

    \b
    Example:
      bftrainer replay generate --nodes 256 --days 2 --out log.csv.gz
      bftrainer replay report log.csv.gz --out report
      bftrainer report july.csv.gz --compare june/report.json --out july
    """
    from bftrainer.system.files import write_atomically
    from bftrainer_replay.analysis.characterize import characterize
    from bftrainer_replay.logs.gpus import held_parts
    from bftrainer_replay.main_queue.ways import rules_of
    from bftrainer_replay.report.costs import CostRates, monthly_costs
    from bftrainer_replay.report.figures import Origin, as_json, read_figures
    from bftrainer_replay.report.gpu_chapter import gpu_chapter, source_by_node, usual_gpus
    from bftrainer_replay.report.log_page import Replays, log_page
    from bftrainer_replay.report.main_jobs import effect_of
    from bftrainer_replay.report.page import write
    from bftrainer_replay.report.plan import plan_of, worst_and_best
    from bftrainer_replay.report.top import Trainings
    from bftrainer_replay.simulation.play import enough_trainers
    from bftrainer_replay.simulation.progress import CostModel, too_long_s
    from bftrainer_replay.sweep.cell import Cell
    from bftrainer_replay.sweep.inputs import inputs_of, workload_of

    began = time.perf_counter()
    out = out or folder_beside(choice.log, "report")
    if not 0 <= forward_s < float("inf"):
        raise UserError(f"--forward-s {forward_s:g}: expected seconds, 0 or more")
    last = None if compare is None else read_figures(compare)
    rules_of(give_way)  # before the log is read
    rates = CostRates(node_hour_price, currency[:12], extra_kw, co2_g_per_kwh)
    source = workload_of(table)
    window, held, in_gpus = window_of(choice, of_idle_gpus=True), None, source
    if window.gpus is not None:  # the page is of a pilot by node, its first chapter of GPUs
        held = held_parts(window, choice.importing.back_s)
        window, source = window.gpus.by_node, source_by_node(source, usual_gpus(window))
    characteristics = characterize(window)
    effect = effect_of(window, give_way)
    first = pilot_trainers(window, source, 0)
    admitted = max_parallel or enough_trainers(window, first)
    costs = CostModel(cost_model)
    base = Cell("log", source.name, forward_s=forward_s, max_parallel=admitted, cost_model=costs)
    models = [] if table.trainers or table.model else worst_and_best(first)
    others = [workload_of(replace(table, kind="hpo", model=model)) for model in models]
    if held is not None:
        others = [source_by_node(other, usual_gpus(held)) for other in others]
    plan = plan_of(base, [other.name for other in others]).beyond(too_long_s(costs, first))
    sample = sample_of(window, source, plan.cells, full=full, base=base)
    cells_of_pieces = [piece_cell for cell in plan.cells for piece_cell in sample.cells(cell)]
    inputs = inputs_of(sample.windows, [source, *others], cells_of_pieces)
    tasks = plan.tasks(sample, inputs)
    rows = replayed(tasks, plan.cells, sample, inputs, source, out / "cells", workers)
    if window.span_s < _SHORT_S:
        note(
            f"the log shows {length(window.span_s)} only, too little for figures by the month; "
            "expected a week or more (docs/site-replay.md)"
        )
    trainers = [arrival.trainer for arrival in inputs.arrivals_of(replace(base, log=sample.shown))]
    curves, doubt = origin_of_curves(table, node_type)
    command = shlex.join(["bftrainer", *sys.argv[1:]])
    origin = Origin(
        choice.log.name,
        _sha256(choice.log, *choice.importing.more_files),
        command,
        f"{date.today()}",
        __version__,
    )
    page, figures = log_page(
        window,
        characteristics,
        Replays(plan, sample, rows, effect),
        Trainings(trainers, curves, doubt, "" if table.trainers is None else table.trainers.name),
        origin,
        title,
        other_guesses(choice, window),
        last,
        rates=rates,
        gpus=None
        if held is None
        else gpu_chapter(held, sample.windows[sample.shown], in_gpus, base),
    )
    with write_errors_reported(out):
        size = write(out, page)
        write_atomically(
            out / "report.json", f"{json.dumps(as_json(figures), indent=2)}\n".encode()
        )
    if to_json:
        from bftrainer_replay.sweep.results import as_dict

        replays = [as_dict(row) for row in rows.values()]
        amounts = asdict(monthly_costs(figures, rates))
        texts = {"lead": page.lead, "costs_a_month": amounts}
        click.echo(json.dumps({**as_json(figures), **texts, "replays": replays}))
        return
    say_paragraphs(page.lead)
    took = span(time.perf_counter() - began)
    click.echo(
        f"{out / 'report.html'}: {size / 1e6:.1f} MB, {counted(len(tasks), 'replay')}, {took}"
    )


def _sha256(*files: Path) -> str:
    """Return the SHA-256 of the contents of the files, one after another."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()


def other_guesses(choice: LogChoice, window: LogWindow) -> dict[str, str]:
    """Return, for each option whose value the importer guessed, the idle share with another value.

    Keys are options, values texts for the page. Empty for an event log, which has no guesses. The
    log is imported again for each of them.
    """
    given = choice.importing
    # Importers of job logs, and only they, remark on the warm-up (time at the start of a log in
    # which older jobs are missing).
    if not any("a warm-up of" in remark for remark in window.remarks):
        return {}
    shares = {}
    if window.outages and given.outages == ("auto",):
        shares["--outage"] = _idle_share_text("--outage none", choice, outages=("none",))
    if given.warm_up_h is None:
        # The other guess than the importer's: a day instead of none, or none.
        has_none = any("less a warm-up of 0.0 h" in remark for remark in window.remarks)
        other_h = _WARM_UP_H if has_none else 0.0
        shares["--warm-up-h"] = _idle_share_text(
            f"--warm-up-h {other_h:g}", choice, warm_up_h=other_h
        )
    if window.debounce_s and window.debounce_s != _DEBOUNCE_S:
        shares["--debounce-s"] = _idle_share_text(
            f"--debounce-s {_DEBOUNCE_S:g}", choice, debounce_s=_DEBOUNCE_S
        )
    return {option: text for option, text in shares.items() if text}


def _idle_share_text(words: str, choice: LogChoice, **changed: Any) -> str:
    """Return the idle share of the log imported with ``changed`` options, after ``words``.

    Empty if nothing is left of the log.
    """
    from bftrainer_replay.analysis.window_fragments import pool_sizes_of

    try:
        # The notes are those of the report's own import.
        with contextlib.redirect_stderr(io.StringIO()):
            window = window_of(replace(choice, importing=replace(choice.importing, **changed)))
    except UserError:
        return ""
    return f"{words}: {pool_sizes_of(window).node_hours() / window.service_node_h:.1%} idle"
