"""The options for job logs, which every command with LOG has in addition to those of the window."""

from dataclasses import fields
from typing import Any

import click

from bftrainer.console.cli.choices import FILE, NumberRange
from bftrainer.errors import UserError
from bftrainer_replay.cli.choices import FORMAT
from bftrainer_replay.logs.source import ImportOptions

# In the order of the help. The names are those of ImportOptions, except machine_nodes, which event
# logs have too.
OPTIONS = (
    click.option(
        "--format",
        "format",
        type=FORMAT,
        help="Format of the log: sacct, pbs, swf, ...  [default: detected from the content]",
    ),
    click.option(
        "--timezone",
        metavar="ZONE",
        help="Time zone (such as Europe/Zurich) of times that do not specify one, and of the "
        "times on pages and figures.  "
        "[default: UTC]",
    ),
    click.option(
        "--skip-bad",
        is_flag=True,
        help="Skip and count lines that cannot be read, up to --most-bad.",
    ),
    click.option(
        "--most-bad",
        type=NumberRange(0, 1),
        default=0.01,
        metavar="SHARE",
        help="With --skip-bad: refuse a log with a larger share of such lines.",
    ),
    click.option(
        "--cluster",
        metavar="NAME",
        help="Use only the jobs of this cluster (sacct's column Cluster).",
    ),
    click.option(
        "--columns",
        metavar="A,B,...",
        help="Column names, if sacct --parsable2 output has no header; or, for any table with "
        "a header, which of its columns "
        "are read: start=BEGAN,end=FINISHED,nodes=COUNT or nodelist=NAMES, and submit, wait, "
        "run, cores, gpus, job, user, "
        "account, qos, partition, limit, state. With submit, wait=SECONDS replaces start; "
        "run=SECONDS replaces end.",
    ),
    click.option(
        "--processors-per-node",
        type=int,
        metavar="P",
        help="Processors per node (SWF logs only).  [default: from the log's header]",
    ),
    click.option(
        "--debounce-s",
        default=10.0,
        metavar="S",
        help="Ignore idle periods and job waits shorter than this (job logs only).",
    ),
    click.option(
        "--warm-up-h",
        type=float,
        metavar="H",
        help=(
            "Exclude the log's first H hours, which may lack jobs that were already running.  "
            "[default: estimated]"
        ),
    ),
    click.option(
        "--cool-down-h",
        type=float,
        metavar="H",
        help=(
            "Exclude the log's last H hours, which may lack jobs that were still running.  "
            "[default: estimated]"
        ),
    ),
    click.option(
        "--outage",
        "outages",
        multiple=True,
        metavar="START/END",
        help="Treat this period as an outage, in which no node counts as idle. May be "
        "repeated. 'auto' detects "
        "outages; 'none' disables this.  [default: auto]",
    ),
    click.option(
        "--node-events",
        type=FILE,
        help=(
            "Output of `sacctmgr -P show event start=... end=...`: nodes that are down or "
            "drained do not count as idle."
        ),
    ),
    click.option(
        "--reservations",
        type=FILE,
        help="Output of `scontrol show reservation`, or of `sacctmgr -P show reservation start=... "
        "format=Name,TimeStart,TimeEnd,NodeNames`; with a PBS log, its accounting files: reserved "
        "nodes do not count as idle.",
    ),
    click.option(
        "--node-info",
        type=FILE,
        help=(
            "Output of `scontrol show node`: the cores and devices of each node.  [default: "
            "the most in use on it at once]"
        ),
    ),
    click.option(
        "--outliers",
        type=click.Choice(["drop", "keep"]),
        default="drop",
        help="Jobs dated far away from all others.",
    ),
    click.option(
        "--runaways",
        type=click.Choice(["limit", "keep"]),
        default="limit",
        help="Jobs without an end: end them at their time limit, or let them run to the log's end.",
    ),
    click.option(
        "--unit",
        type=click.Choice(["node", "gpu"]),
        help=(
            "Count idle nodes or idle GPUs (job logs with GPUs and named nodes).  [default: "
            "node; event logs: their own]"
        ),
    ),
    click.option(
        "--gpus-per-node",
        type=click.IntRange(1, 1024),
        metavar="G",
        help=(
            "With --unit gpu: GPUs of each node that has any.  [default: --node-info, or the "
            "most in use on it at once]"
        ),
    ),
    click.option(
        "--part-cpus",
        type=NumberRange(0, 1024),
        default=4.0,
        metavar="C",
        help=(
            "With --unit gpu: cores that a held GPU needs, at most an equal share; idle GPUs "
            "without them are left out."
        ),
    ),
    click.option(
        "--back-s",
        type=NumberRange(0, 86400),
        default=20.0,
        metavar="S",
        help=(
            "With --unit gpu: a main job that takes any GPU of a held part takes all; the "
            "rest is held again S seconds later."
        ),
    ),
    click.option(
        "--max-bytes",
        type=int,
        metavar="BYTES",
        help="Maximum size of LOG when decompressed, and of the memory for its nodes.  "
        "[default: 4 GiB, and 200 times the "
        "size of a compressed file]",
    ),
)
TOPICS_OF_IMPORTS = {
    "Reading the log": (
        "--format",
        "--columns",
        "--skip-bad",
        "--most-bad",
        "--cluster",
        "--processors-per-node",
        "--outliers",
        "--runaways",
        "--max-bytes",
    ),
    "What counts as idle": (
        "--debounce-s",
        "--warm-up-h",
        "--cool-down-h",
        "--outage",
        "--node-events",
        "--reservations",
        "--node-info",
    ),
    "GPUs": ("--gpus-per-node", "--part-cpus", "--back-s"),
}
"""The options that only ``--help-all`` lists, by topic."""
NAMES = tuple(
    option.name
    for option in fields(ImportOptions)
    if option.name not in ("machine_nodes", "more_files")
)
"""The names of the values that the options give to a command."""


def import_options(machine_nodes: int | None, values: dict[str, Any]) -> ImportOptions:
    """Check the values of the import options, by name, and return them. Raises
    :class:`UserError`.
    """
    for name, least in (
        ("processors_per_node", 1),
        ("debounce_s", 0),
        ("warm_up_h", 0),
        ("cool_down_h", 0),
    ):
        value = values[name]
        if value is not None and not least <= value < 1e9:
            raise UserError(f"--{name.replace('_', '-')} {value:g}: expected {least} or more")
    # A limit that a signed integer of 64 bits holds.
    if values["max_bytes"] is not None and not 1 <= values["max_bytes"] < 2**62:
        raise UserError(
            f"--max-bytes {values['max_bytes']}: expected a number of bytes, such as "
            "17179869184 for 16 GiB"
        )
    if machine_nodes is not None and machine_nodes < 1:
        raise UserError(f"--machine-nodes {machine_nodes}: expected 1 or more")
    if values["gpus_per_node"] is not None and values["unit"] != "gpu":
        raise UserError("--gpus-per-node cannot be used without --unit gpu")
    outages = values["outages"] or ("auto",)
    return ImportOptions(machine_nodes=machine_nodes, **{**values, "outages": outages})
