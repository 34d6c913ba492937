"""``bftrainer replay workload``: a generated trainer table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import FILE
from bftrainer.console.cli.ending import ended_by_signals
from bftrainer.counted import counted
from bftrainer.errors import UserError
from bftrainer_replay.cli.choices import new_file, write_errors_reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bftrainer_replay.simulation.replay_world import Arrival

_KINDS = ("hpo", "diverse")
TRAINERS = "trainers.csv"
_COUNT, _START = 1000, "2021-01-01T00:00:00"


@click.command()
@click.argument("kind", type=click.Choice(_KINDS), metavar="hpo|diverse")
@click.option("--count", default=_COUNT, metavar="N", help="Number of trainers.")
@click.option("--spacing-s", default=36.0, metavar="S", help="Time between submissions.")
@click.option(
    "--poisson", is_flag=True, help="Submit as a Poisson process whose mean spacing is --spacing-s."
)
@click.option("--start", default=_START, metavar="ISO", help="First submission.")
@click.option("--model", default="shufflenet", metavar="NAME", help="hpo: the model of all trials.")
@click.option("--seed", default=0, help="Random seed for rescale costs and Poisson submissions.")
@click.option("--scale-up-s", default=18.0, metavar="S", help="hpo: stall of growing, R_up.")
@click.option("--scale-down-s", default=12.0, metavar="S", help="hpo: stall of shrinking, R_dw.")
@click.option(
    "--start-s",
    type=float,
    metavar="S",
    help=(
        "hpo: time in which new nodes start and old ones train on, for --cost-model overlap.  "
        "[default: none]"
    ),
)
@click.option("--out", type=FILE, help=f"Trainer table to write.  [default: {TRAINERS}]")
@ended_by_signals()
def workload(
    kind: str,
    count: int,
    spacing_s: float,
    poisson: bool,
    start: str,
    model: str,
    seed: int,
    scale_up_s: float,
    scale_down_s: float,
    start_s: float | None,
    out: Path | None,
) -> None:
    """Write a trainer table: hpo or diverse.

    hpo: identical trials of one model. diverse: cycles through the models in the paper's Table 2.
    Each trainer trains on 130 million samples (100 epochs of ImageNet), on 1 to 64 nodes, as in the
    paper.

    \b
    Example:
      bftrainer replay workload diverse --count 1000 --poisson --seed 1 --out trainers.csv
    """
    from bftrainer_replay.workload.workload import (
        RescaleCosts,
        hpo,
        submissions,
        trainers_of_many_users,
    )

    out = new_file(out, TRAINERS)
    check_numbers(count, seed)
    if not 0 < spacing_s < float("inf"):
        raise UserError(f"--spacing-s {spacing_s:g}: expected seconds above 0")
    costs = RescaleCosts(scale_up_s, scale_down_s, start_s)
    if kind != "hpo" and costs != RescaleCosts():
        raise UserError("--scale-up-s, --scale-down-s, --start-s: only for `replay workload hpo`")
    for option, value in (
        ("scale-up", scale_up_s),
        ("scale-down", scale_down_s),
        ("start", start_s or 0.0),
    ):
        if not 0 <= value < float("inf"):
            raise UserError(f"--{option}-s {value:g}: expected seconds, 0 or more")
    times = submissions(start_time(start), count, spacing_s, poisson_seed=seed if poisson else None)
    write_table(
        out,
        hpo(model, times, costs=costs) if kind == "hpo" else trainers_of_many_users(times, seed),
        kind,
    )


def check_numbers(count: int | None, seed: int) -> None:
    """Refuse numbers that no table of trainers can have."""
    if count is not None and count < 1:
        raise UserError(f"--count {count}: expected 1 or more")
    if seed < 0:
        raise UserError(f"--seed {seed}: expected 0 or more")


def start_time(start: str) -> float:
    """Parse the value of ``--start`` in seconds."""
    from bftrainer_replay.logs.event_log import parse_time

    try:
        return parse_time(start)
    except ValueError as error:
        raise UserError(
            f"--start {start!r:.40} is not ISO 8601, expected a time like 2021-01-01T00:00:00"
        ) from error


def write_table(out: Path, arrivals: Sequence[Arrival], kind: str) -> None:
    """Write the table, and print how many trainers of which kind it has, and its first
    submission.
    """
    from bftrainer_replay.logs.event_log import format_time
    from bftrainer_replay.workload.workload import write_workload

    with write_errors_reported(out):
        write_workload(out, arrivals)
    click.echo(
        f"{out}: {counted(len(arrivals), 'trainer')} ({kind}), first submission at "
        f"{format_time(arrivals[0].at_s)}"
    )
