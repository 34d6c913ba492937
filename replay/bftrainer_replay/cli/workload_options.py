"""The options for a command's trainers: --trainers, --curves, --model, --workload.

Use::

    @workload_options
    def command(table: WorkloadTable) -> None:
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer.console.cli.choices import FILE, OBJECTIVE, with_options
from bftrainer.console.cli.output import note
from bftrainer.errors import UserError
from bftrainer_replay.cli.choices import WORKLOAD

if TYPE_CHECKING:
    from bftrainer.decide.allocation.objectives import Objective
    from bftrainer_replay.logs.model import LogWindow
    from bftrainer_replay.simulation.replay_world import Arrival
    from bftrainer_replay.sweep.cell import Inputs
    from bftrainer_replay.sweep.inputs import WorkloadKind, WorkloadTable

AUTO = "auto"
_OPTIONS = (
    click.option(
        "--trainers", type=FILE, help="Trainer table.  [default: generated, see --workload]"
    ),
    click.option("--curves", type=FILE, help="Throughput curves.  [default: the paper's Table 2]"),
    click.option("--model", metavar="NAME", help="Use this model's curve for all trainers."),
    click.option(
        "--workload",
        type=WORKLOAD,
        default="diverse",
        help="Kind of trainers to generate; their work lasts longer than the log.",
    ),
)


def workload_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with the options for its trainers; the function gets them as ``table``."""

    @functools.wraps(function)
    def with_table(
        *,
        trainers: Path | None,
        curves: Path | None,
        model: str | None,
        workload: WorkloadKind,
        **others: Any,
    ) -> Any:
        """Call the command's function with these values as one WorkloadTable."""
        from bftrainer_replay.sweep.inputs import WorkloadTable

        table = WorkloadTable(trainers=trainers, curves=curves, kind=workload, model=model)
        return function(table=table, **others)

    return with_options(*_OPTIONS)(with_table)


def _max_parallel(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> int | None:
    """Return the value of ``--max-parallel``; None for ``auto``, where the objective decides."""
    if value is None or value == AUTO:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise UserError(f"--max-parallel {value}: expected 1 or more, or {AUTO}")
    return int(value)


def max_parallel_option(
    meaning: str, default: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives a command --max-parallel (P_jmax, the trainers admitted at
    once).

    The value is None if it is not a number; the help describes that as ``default``.
    """
    return click.option(
        "--max-parallel",
        metavar="P",
        callback=_max_parallel,
        help=f"{meaning}  [default: {default}]",
    )


admission_option = max_parallel_option(
    "Trainers admitted at once, P_jmax; or `auto`: the objective decides how many train.", AUTO
)
objective_option = click.option(
    "--objective",
    type=OBJECTIVE,
    metavar="NAME",
    help="fair, soon or most (these decide how many train), relative-speed, throughput, "
    "scaling-efficiency, priority, progress "
    "or module:function.  [default: fair; relative-speed with a number of trainers]",
)
forward_option = click.option(
    "--forward-s",
    type=float,
    metavar="S",
    help="Forward-looking time T_fwd.  [default: 240 for fair and most, else 120]",
)


def objective_and_forward(
    objective: str | None, forward_s: float | None, max_parallel: int | None
) -> tuple[Objective, float]:
    """Return the objective and T_fwd (s), by default those that suit ``max_parallel``.

    T_fwd is the time that a decision looks ahead. Raises :class:`UserError` for one that is
    negative or infinite.
    """
    from bftrainer.decide.allocation.objectives import usual_objective
    from bftrainer.plugins import find_objective

    chosen = find_objective(objective or usual_objective(max_parallel))
    chosen_s = chosen.forward_s if forward_s is None else forward_s
    if not 0 <= chosen_s < math.inf:
        raise UserError(f"--forward-s {chosen_s:g}: expected seconds, 0 or more")
    return chosen, chosen_s


def _parse_checkpoint(
    context: click.Context, parameter: click.Parameter, value: str
) -> float | None:
    """Read ``--checkpoint-s``; None for ``notice``."""
    if value == "notice":
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UserError(f"--checkpoint-s {value}: expected seconds above 0, or notice")
    return seconds


checkpoint_option = click.option(
    "--checkpoint-s",
    default="notice",
    metavar="S",
    callback=_parse_checkpoint,
    help="Time between checkpoints of a trainer, which repeats its work since the last one "
    "when it loses all its nodes; or "
    "`notice`: it writes one then.",
)


node_type_option = click.option(
    "--node-type",
    metavar="TEXT",
    help=(
        "Type of the nodes that --curves was measured on.  [default: the column node_type of "
        "that file]"
    ),
)


def origin_of_curves(table: WorkloadTable, node_type: str | None) -> tuple[str, str]:
    """Return two texts: where the trainers' throughput was measured, and a warning.

    The warning says that the rates are not those of the site's own nodes; it is empty for curves of
    a file, which are taken to be the site's own.
    """
    from bftrainer_replay.workload.curves import TABLE_2_NODES, node_types

    if table.curves is None:
        if node_type is not None:
            raise UserError(
                "--node-type requires --curves: the default curves are the paper's Table 2"
            )
        return (
            f"the paper's Table 2: seven models of ImageNet, on {TABLE_2_NODES}. Other nodes "
            "train at other rates",
            f"The training rates are those of {TABLE_2_NODES}, not measured on this cluster: "
            "on other nodes, training may "
            "achieve much more or less, without GPUs far less. The shares of node-hours depend "
            "on how well trainings scale, "
            "not on these rates. To use your own, measure them with bftrainer rehearse "
            "--curves FILE, and "
            "repeat this command with --curves FILE",
        )
    types = node_type or ", ".join(node_types(table.curves))
    if not types:
        return (
            f"{table.curves.name}, which does not name the nodes (column node_type, or "
            "--node-type)",
            "",
        )
    return f"{table.curves.name}, measured on: {types}", ""


def remarks_on(window: LogWindow, arrivals: Sequence[Arrival]) -> list[str]:
    """Return remarks on trainers that are submitted outside the window; empty if some are inside.

    Such trainers are valid, but probably not intended: the times of table and log do not fit.
    """
    from bftrainer_replay.logs.event_log import format_time

    first_s = min(arrival.at_s for arrival in arrivals)
    last_s = max(arrival.at_s for arrival in arrivals)
    start, end = format_time(window.start_s), format_time(window.end_s)
    if first_s > window.end_s:
        return [
            f"no trainer is submitted in the window {start} .. {end}: the first one is at "
            f"{format_time(first_s)} "
            f"(`bftrainer replay workload --start {start}` begins with the window)"
        ]
    if last_s < window.start_s:
        return [
            "all trainers are submitted before the window, so all of them are waiting when it "
            "starts"
        ]
    return []


def tell_remarks(inputs: Inputs) -> None:
    """Print the remarks on all replays of a sweep, every remark once."""
    remarks: list[str] = []
    for (log, _, _), arrivals in inputs.arrivals.items():
        remarks += remarks_on(inputs.windows[log], arrivals)
    for remark in dict.fromkeys(remarks):
        note(remark)
