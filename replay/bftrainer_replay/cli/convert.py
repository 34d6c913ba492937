"""``bftrainer replay convert``: a job log as an event log, converted once for many replays."""

from __future__ import annotations

from pathlib import Path

import click

from bftrainer.console.cli.choices import FILE, with_options
from bftrainer.console.cli.ending import ended_by_signals
from bftrainer.console.cli.topics import CommandWithTopics
from bftrainer.counted import counted
from bftrainer_replay.cli.choices import folder_beside, new_file, write_errors_reported
from bftrainer_replay.cli.import_options import NAMES, OPTIONS, TOPICS_OF_IMPORTS, import_options
from bftrainer_replay.cli.log_options import LogChoice, read_log, readable
from bftrainer_replay.logs.event_log import write_event_log


@click.command(cls=CommandWithTopics, topics=TOPICS_OF_IMPORTS)
@click.argument(
    "log", type=click.Path(path_type=Path), metavar="LOG", callback=readable, is_eager=True
)
@click.option(
    "--out",
    type=FILE,
    help=(
        "Event log to write; compressed if the name ends in .gz.  [default: LOG-idle.csv.gz "
        "in the current directory]"
    ),
)
@click.option(
    "--machine-nodes",
    type=int,
    metavar="M",
    help="Number of nodes in the cluster.  [default: from the log, or estimated]",
)
@with_options(*OPTIONS)
@ended_by_signals()
def convert(log: Path, out: Path | None, machine_nodes: int | None, **given: object) -> None:
    """Convert LOG of any known format to an event log (time,joined,left; UTC).

    Stderr shows how many records were read, used, ignored and skipped, and lists every assumption
    made. An event log has no queue: run `replay characterize` on LOG itself to see which jobs
    waited.

    \b
    Example:
      sacct -a -D -X -P -S 2026-01-01 -E 2026-07-01 \\
        -o JobID,Cluster,User,Account,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,\\
      NNodes,NodeList,State,Partition,QOS,Reason,ReqTRES,AllocTRES,Constraints,Flags > sacct.txt
      bftrainer replay convert sacct.txt --timezone Europe/Zurich --out idle.csv.gz
    """
    out = new_file(out, f"{folder_beside(log, 'idle')}.csv.gz")
    choice = LogChoice(
        log, importing=import_options(machine_nodes, {name: given[name] for name in NAMES})
    )
    events, _ = read_log(choice, always_totals=True)
    with write_errors_reported(out):
        write_event_log(out, events)
    nodes = len(events.nodes())
    click.echo(
        f"{out}: {counted(len(events.events), 'event')}, {nodes:,} "
        f"{'nodes' if events.gpus is None else 'GPUs'} idle at some time"
    )
