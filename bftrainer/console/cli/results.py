"""``bftrainer results``: the table of trials with their parameters and metrics."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.output import json_option, say, show_json
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.tables import (
    TableColumn,
    name_column,
    number_column,
    remark_column,
    show_table,
    wide_option,
)
from bftrainer.console.cli.trainer_names import GroupName
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer.console.client.results import Goal


@click.command()
@click.option("--group", type=GroupName(), metavar="NAME", help="Only the trainings of a group.")
@click.option(
    "--minimize",
    metavar="METRIC",
    help="Sort by the smallest value that each training reported, best first.",
)
@click.option(
    "--maximize",
    metavar="METRIC",
    help="Sort by the largest value that each training reported, best first.",
)
@click.option(
    "-n", "--first", type=click.IntRange(min=1), metavar="N", help="Only the first N rows."
)
@click.option("--csv", "as_csv_text", is_flag=True, help="Print CSV.")
@wide_option
@state_option
@json_option
def results(
    group: str | None,
    minimize: str | None,
    maximize: str | None,
    first: int | None,
    as_csv_text: bool,
    wide: bool,
    state: Path,
    as_json: bool,
) -> None:
    """Compare what trainings have reached: the last, smallest and largest value of each metric, by
    their parameters.

    Metrics are loss and what the training script reports (report.step(..., metrics={"accuracy":
    0.93})). What trains now: bftrainer list. What it cost: bftrainer usage.

    \b
    Example:
      bftrainer results --group digits --maximize accuracy
      bftrainer results --csv > digits.csv
    """
    from bftrainer.console.client.results import Goal, as_csv, best_first, result_rows, table

    if minimize is not None and maximize is not None:
        raise UserError("expected --minimize or --maximize, got both")
    rows, metric = result_rows(state, group), minimize or maximize
    if group is not None and not rows:
        raise UserError(f"no training of group {group!r}; see `bftrainer list --all`")
    goal = None if metric is None else Goal(metric, maximize is not None)
    rows = (rows if goal is None else best_first(rows, goal))[:first]
    if as_json:
        show_json([row.as_json() for row in rows])
    elif as_csv_text:
        say(as_csv(rows, goal), nl=False)
    else:
        heads, cells = table(rows, goal)
        texts = [list(map(_cell_text, heads, line)) for line in cells]
        metrics = {reported.name for row in rows for reported in row.metrics}
        show_table([_result_column(head, metrics, goal) for head in heads], texts, wide=wide)


def _result_column(head: str, metrics: Collection[str], goal: Goal | None) -> TableColumn:
    """Return the column of a head, with its kind and its rank: on a narrow terminal, columns of a
    high rank are left out first.

    ``metrics`` are the names of all metrics. The heads of a metric are its name (the last value),
    ``NAME min`` and ``NAME max``. Other heads are parameters.
    """
    if head == "name":
        return name_column(head)
    if head == "remark":
        return remark_column(head)
    if head == "status":
        return name_column(head, 2)
    if head == "samples":
        return number_column(head, 5)
    if head == "node-hours":
        return number_column(head, 6)
    if goal is not None and head.partition(" ")[0] == goal.metric:
        # Rows are sorted by the smallest or the largest value, which is always shown.
        return number_column(head, 1 if head == goal.metric else 0)
    if head in metrics:
        return number_column(head, 1)
    is_extreme = head.removesuffix(" min").removesuffix(" max") in metrics
    return number_column(head, 4 if is_extreme else 3)


def _cell_text(head: str, value: object) -> str:
    """Return a value as text; "-" if there is none."""
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    if head == "samples":
        return f"{value:,.0f}"
    if head == "node-hours":
        return f"{value:,.2f}"
    return f"{value:.5g}"
