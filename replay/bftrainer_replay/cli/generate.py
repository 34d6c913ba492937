"""``bftrainer replay generate``: a synthetic log with Summit's statistics."""

from __future__ import annotations

from pathlib import Path

import click

from bftrainer.console.cli.choices import FILE
from bftrainer.console.cli.ending import ended_by_signals
from bftrainer.counted import counted
from bftrainer_replay.cli.choices import new_file, write_errors_reported
from bftrainer_replay.logs.event_log import write_event_log
from bftrainer_replay.logs.model import restricted_log


@click.command()
@click.option(
    "--nodes", type=int, required=True, metavar="N", help="Number of nodes in the cluster."
)
@click.option("--days", type=float, required=True, metavar="D", help="Length of the log.")
@click.option(
    "--seed",
    type=int,
    default=1,
    metavar="S",
    help="Random seed; the same seed gives an identical file.",
)
@click.option(
    "--out",
    type=FILE,
    metavar="LOG",
    help="Event log to write; compressed if the name ends in .gz.  [default: sample.csv.gz]",
)
@ended_by_signals()
def generate(nodes: int, days: float, seed: int, out: Path | None) -> None:
    """Generate an event log of idle nodes, for a demo or a cluster whose own log is not available.

    The idle share, the lengths of idle fragments, and the number of events per hour match the
    paper's Summit log, scaled to any number of nodes. The log's first timestamp is
    2021-01-01T00:00:00.

    \b
    Example:
      bftrainer replay generate --nodes 1024 --days 7 --seed 1 --out sample.csv.gz
    """
    from bftrainer_replay.analysis.characterize import characterize
    from bftrainer_replay.generation.generate import generate as generate_log

    out = new_file(out, "sample.csv.gz")
    log = generate_log(nodes, days, seed)
    with write_errors_reported(out):
        write_event_log(out, log)
    figures = characterize(restricted_log(log, machine_nodes=nodes))
    short = ""
    if figures.fragment_lengths is not None:
        lengths = figures.fragment_lengths
        short = (
            f", {lengths.short_share:.1%} of the fragments under 10 min with "
            f"{lengths.short_node_time_share:.1%} "
            f"of the node-time"
        )
    click.echo(
        f"wrote {out}: {counted(nodes, 'node')}, {days:g} days, {counted(figures.events, 'event')} "
        f"({figures.per_hour(figures.events):.1f}/h), {figures.idle_share:.1%} idle{short}"
    )
