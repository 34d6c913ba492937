"""``bftrainer replay workload``: a trainer table, generated or from real traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer.errors import UserError
from bftrainer_replay.cli.trace_workload import trace_options

if TYPE_CHECKING:
    from bftrainer_replay.workload.workload import RescaleCosts

_KINDS = ("hpo", "diverse", "trace")
_COUNT, _START = 1000, "2021-01-01T00:00:00"


@click.command()
@click.argument("kind", type=click.Choice(_KINDS), metavar="hpo|diverse|trace")
@click.option("--count", type=int, metavar="N", help=f"Number of trainers.  [default: {_COUNT}; trace: all jobs]")
@click.option("--spacing-s", default=36.0, show_default=True, metavar="S", help="Time between submissions.")
@click.option("--poisson", is_flag=True, help="Submit as a Poisson process whose mean spacing is --spacing-s.")
@click.option(
    "--start", metavar="ISO", help=f"First submission.  [default: {_START}; for a trace with dates: its start]"
)
@click.option("--model", default="shufflenet", show_default=True, metavar="NAME", help="hpo: the model of all trials.")
@click.option(
    "--seed",
    default=0,
    show_default=True,
    help="Random seed for rescale costs, Poisson submissions and values that a trace lacks.",
)
@click.option("--scale-up-s", default=18.0, show_default=True, metavar="S", help="hpo: stall of growing, R_up.")
@click.option("--scale-down-s", default=12.0, show_default=True, metavar="S", help="hpo: stall of shrinking, R_dw.")
@click.option(
    "--start-s",
    type=float,
    metavar="S",
    help="hpo: time in which new nodes start and old ones train on, for --cost-model overlap.  [default: none]",
)
@trace_options
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Trainer table to write.",
)
def workload(
    kind: str,
    count: int | None,
    spacing_s: float,
    poisson: bool,
    start: str | None,
    model: str,
    seed: int,
    scale_up_s: float,
    scale_down_s: float,
    start_s: float | None,
    out: Path,
    **traced: Any,
) -> None:
    """Write a trainer table: hpo, diverse or trace.

    hpo: identical trials of one model. diverse: cycles through the models in the paper's Table 2. In both, each trainer trains
    on 130 million samples (100 epochs of ImageNet), on 1 to 64 nodes, as in the paper. trace: the jobs of a real cluster with
    their submission times and with measured throughput curves, which are written to a second file.

    \b
    Example:
      bftrainer replay workload diverse --count 1000 --poisson --seed 1 --out trainers.csv
      bftrainer replay workload trace --arrivals philly.csv --curves sia-traces.tar.gz --hardware aws --out trainers.csv
    """
    from bftrainer_replay.cli.trace_workload import TraceOptions, from_trace
    from bftrainer_replay.logs.event_log import format_time
    from bftrainer_replay.workload.workload import RescaleCosts, write_workload

    _check(count, spacing_s, seed)
    costs = RescaleCosts(scale_up_s, scale_down_s, start_s)
    if kind != "hpo" and costs != RescaleCosts():
        raise UserError("--scale-up-s, --scale-down-s, --start-s: only for `replay workload hpo`")
    for option, value in (("scale-up", scale_up_s), ("scale-down", scale_down_s), ("start", start_s or 0.0)):
        if not 0 <= value < float("inf"):
            raise UserError(f"--{option}-s {value:g}: expected seconds, 0 or more")
    if kind == "trace":
        arrivals = from_trace(TraceOptions(**traced), count, _time(start), seed, out)
    elif given := [name for name, value in traced.items() if value not in (None, False, ())]:
        raise UserError(f"--{given[0].replace('_', '-')}: only for `replay workload trace`")
    else:
        arrivals = _generated(kind, count or _COUNT, spacing_s, poisson, _time(start or _START), model, seed, costs)
    try:
        write_workload(out, arrivals)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written: {error.strerror}") from error
    since = start or (format_time(arrivals[0].at_s) if kind == "trace" else _START)
    click.echo(f"{out}: {len(arrivals)} trainers ({kind}), first submission at {since}")


def _check(count: int | None, spacing_s: float, seed: int) -> None:
    if count is not None and count < 1:
        raise UserError(f"--count {count}: expected 1 or more")
    if not 0 < spacing_s < float("inf"):
        raise UserError(f"--spacing-s {spacing_s:g}: expected seconds above 0")
    if seed < 0:
        raise UserError(f"--seed {seed}: expected 0 or more")


def _time(start: str | None) -> Any:
    from bftrainer_replay.logs.event_log import parse_time

    try:
        return None if start is None else parse_time(start)
    except ValueError as error:
        raise UserError(f"--start {start!r:.40} is not ISO 8601, expected a time like 2021-01-01T00:00:00") from error


def _generated(
    kind: str, count: int, spacing_s: float, poisson: bool, start_s: float, model: str, seed: int, costs: RescaleCosts
) -> Any:
    from bftrainer_replay.workload.workload import diverse, hpo, submissions

    times = submissions(start_s, count, spacing_s, poisson_seed=seed if poisson else None)
    return hpo(model, times, costs=costs) if kind == "hpo" else diverse(times, seed)
