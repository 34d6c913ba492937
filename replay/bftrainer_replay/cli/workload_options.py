"""Which trainers a command replays, and on how many cores: --trainers, --curves, --model, --workload, --jobs.

Use::

    @workload_options
    @jobs_option
    def command(table: WorkloadTable, jobs: int) -> None:
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer.errors import UserError
from bftrainer_replay.cli.sweeping import cores

if TYPE_CHECKING:
    from bftrainer_replay.logs.model import LogWindow
    from bftrainer_replay.simulation.world import Arrival
    from bftrainer_replay.sweep.cell import Inputs

_PATH = click.Path(path_type=Path)
_OPTIONS = (
    click.option("--trainers", type=_PATH, metavar="FILE", help="Trainer table.  [default: --workload]"),
    click.option("--curves", type=_PATH, metavar="FILE", help="Throughput curves.  [default: the paper's Table 2]"),
    click.option("--model", metavar="NAME", help="The curve of all trainers."),
    click.option(
        "--workload", default="diverse", show_default=True, metavar="KIND", help="hpo or diverse, enough for the log."
    ),
)


def workload_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; the function gets them as one ``table``, a WorkloadTable."""

    @functools.wraps(function)
    def with_table(
        *, trainers: Path | None, curves: Path | None, model: str | None, workload: str, **others: Any
    ) -> Any:
        from bftrainer_replay.sweep.grid import WorkloadTable

        table = WorkloadTable(trainers=trainers, curves=curves, kind=workload, model=model)
        return function(table=table, **others)

    decorated: Callable[..., Any] = with_table
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _jobs(context: click.Context, parameter: click.Parameter, value: int | None) -> int:
    if value is not None and value < 1:
        raise UserError(f"--jobs {value}: expected 1 or more")
    return value or cores()


def jobs_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --jobs: how many processes, by default one for each core."""
    return click.option(
        "--jobs",
        type=int,
        metavar="N",
        callback=_jobs,
        help="Processes, of one core each.  [default: the cores there are]",
    )(function)


def remarks_on(window: LogWindow, arrivals: Sequence[Arrival]) -> list[str]:
    """What makes a replay pointless without being wrong: trainers of another time than the window's."""
    from bftrainer_replay.logs.event_log import format_time

    first_s, last_s = min(arrival.at_s for arrival in arrivals), max(arrival.at_s for arrival in arrivals)
    start, end = format_time(window.start_s), format_time(window.end_s)
    if first_s > window.end_s:
        return [
            f"no trainer is submitted in the window: the first comes at {format_time(first_s)}, the window is "
            f"{start} .. {end} (`bftrainer replay workload --start {start}` begins with it)"
        ]
    if last_s < window.start_s:
        return ["all trainers are submitted before the window; they are all waiting at its start"]
    return []


def tell_remarks(inputs: Inputs) -> None:
    """Print them, each once, for whatever a sweep replays."""
    found = [
        remark
        for where, arrivals in inputs.arrivals.items()
        for remark in remarks_on(inputs.windows[where[0]], arrivals)
    ]
    for remark in dict.fromkeys(found):
        click.echo(f"note: {remark}", err=True)
