"""How to read a scheduler's own log: the options that every command with LOG has besides those of the window."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer_replay.logs.source import ImportOptions

# In the order of the help; the names are those of ImportOptions, but for machine_nodes, which event logs have too.
OPTIONS = (
    click.option(
        "--format", "format", metavar="NAME", help="Kind of log: sacct, pbs, swf, ...  [default: by its content]"
    ),
    click.option("--timezone", metavar="ZONE", help="Zone of times without one, like Europe/Zurich.  [default: UTC]"),
    click.option("--skip-bad", is_flag=True, help="Leave out lines that cannot be read, and count them."),
    click.option("--columns", metavar="A,B,...", help="Columns of sacct --parsable2 without a header."),
    click.option("--processors-per-node", type=int, metavar="P", help="For SWF.  [default: by its header]"),
    click.option(
        "--debounce-s",
        default=10.0,
        show_default=True,
        metavar="S",
        help="Nodes idle for less between two jobs were not idle, and jobs that wait for less did not wait (job logs).",
    ),
    click.option(
        "--warm-up-h",
        type=float,
        metavar="H",
        help="Leave out the log's first hours, where jobs are missing.  [default: guess]",
    ),
    click.option("--cool-down-h", type=float, metavar="H", help="The same at its end.  [default: guess]"),
    click.option(
        "--outage",
        "outages",
        multiple=True,
        metavar="START/END",
        help="The machine was out: nothing is idle. Several, or auto, or none.  [default: auto]",
    ),
)
NAMES = (
    "format", "timezone", "skip_bad", "columns", "processors_per_node", "debounce_s", "warm_up_h", "cool_down_h", "outages"
)  # fmt: skip


def with_import_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options, as keyword arguments of the names in NAMES."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def import_options(machine_nodes: int | None, given: dict[str, Any]) -> ImportOptions:
    """What was typed, checked; raises :class:`UserError`."""
    from bftrainer_replay.logs.source import ImportOptions

    for name, least in (("processors_per_node", 1), ("debounce_s", 0), ("warm_up_h", 0), ("cool_down_h", 0)):
        value = given[name]
        if value is not None and not least <= value < 1e9:
            raise UserError(f"--{name.replace('_', '-')} {value:g}: expected {least} or more")
    if machine_nodes is not None and machine_nodes < 1:
        raise UserError(f"--machine-nodes {machine_nodes}: expected 1 or more")
    given = {**given, "outages": given["outages"] or ("auto",)}
    return ImportOptions(machine_nodes=machine_nodes, **given)
