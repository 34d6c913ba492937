"""``bftrainer replay trace``: the jobs of a real deep-learning cluster on measured throughput
curves.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer.console.cli.choices import FILE
from bftrainer.console.cli.ending import ended_by_signals
from bftrainer.console.cli.output import note
from bftrainer.console.cli.topics import CommandWithTopics
from bftrainer.errors import UnknownNameError, UserError
from bftrainer_replay.cli.choices import new_file, write_errors_reported
from bftrainer_replay.cli.workload import TRAINERS, check_numbers, start_time, write_table

if TYPE_CHECKING:
    from bftrainer_papers.traces.arrivals import JobTrace
    from bftrainer_papers.traces.profiles import Profile, Profiles
    from bftrainer_papers.traces.scaling import MeasuredScaling
    from bftrainer_replay.simulation.replay_world import Arrival

_GPU_HOURS = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)-(\d{1,6}(?:\.\d{1,6})?)", re.ASCII)
_START_S = 1609459200.0  # 2021-01-01, for traces without dates
_GPUS = 1
SHAPE = click.Choice(["measured", "monotone", "concave"])


_TOPICS = {
    "Curves": (
        "--curves-out",
        "--hardware",
        "--models",
        "--shape",
        "--extrapolate-to",
        "--max-nodes",
    ),
    "Jobs": ("--member", "--from", "--hours", "--least-s", "--gpu-hours", "--skip-bad"),
}


@click.command(cls=CommandWithTopics, topics=_TOPICS)
@click.option(
    "--arrivals", required=True, type=FILE, help="Job submissions (a Philly or Pollux trace)."
)
@click.option("--curves", required=True, type=FILE, help="Measured throughput (Gavel's or Sia's).")
@click.option("--curves-out", type=FILE, help="Curves to write.  [default: OUT + .curves.csv]")
@click.option("--member", metavar="NAME", help="The file to read if --arrivals is an archive.")
@click.option(
    "--hardware",
    metavar="NAME",
    help="The hardware on which the curves were measured, like aws or v100.",
)
@click.option("--models", metavar="A,B", help="Use these models only.  [default: all with a curve]")
@click.option(
    "--gpus-per-node", type=int, metavar="G", help="GPUs per node of your cluster.  [default: 1]"
)
@click.option(
    "--shape",
    type=SHAPE,
    help="Curves as measured, made monotone or made concave.  [default: measured]",
)
@click.option(
    "--extrapolate-to",
    type=int,
    metavar="N",
    help="Extrapolate curves to N nodes; adds -extrapolated to their names.",
)
@click.option(
    "--max-nodes",
    type=int,
    metavar="N",
    help="Maximum nodes per trainer.  [default: end of its curve]",
)
@click.option("--count", type=int, metavar="N", help="Number of trainers.  [default: all jobs]")
@click.option("--start", metavar="ISO", help="First submission.  [default: the trace's first job]")
@click.option(
    "--from", "from_", metavar="ISO", help="Use jobs from this time on.  [default: the first job]"
)
@click.option(
    "--hours", type=float, metavar="H", help="Use only the first H hours of jobs.  [default: all]"
)
@click.option(
    "--least-s",
    type=float,
    metavar="S",
    help="Use jobs that ran for at least S seconds.  [default: any]",
)
@click.option(
    "--gpu-hours",
    metavar="LOW-HIGH",
    help="GPU-hours of jobs without durations, drawn log-uniformly from this range.",
)
@click.option("--skip-bad", is_flag=True, help="Skip and count lines that cannot be read.")
@click.option("--seed", default=0, help="Random seed for values that the trace lacks.")
@click.option("--out", type=FILE, help=f"Trainer table to write.  [default: {TRAINERS}]")
@ended_by_signals()
def trace(count: int | None, start: str | None, seed: int, out: Path | None, **traced: Any) -> None:
    """Write a trainer table with the jobs of a real deep-learning cluster.

    The jobs have their own submission times and measured throughput curves, which are written to a
    second file.

    \b
    Example:
      bftrainer replay trace --arrivals philly.csv --curves sia.tar.gz --hardware aws --out t.csv
    """
    out = new_file(out, TRAINERS)
    check_numbers(count, seed)
    arrivals = from_trace(
        TraceOptions(**traced), count, None if start is None else start_time(start), seed, out
    )
    write_table(out, arrivals, "trace")


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The options as typed; None is the default."""

    arrivals: Path
    curves: Path
    curves_out: Path | None
    member: str | None
    hardware: str | None
    models: str | None
    gpus_per_node: int | None
    shape: str | None
    extrapolate_to: int | None
    max_nodes: int | None
    from_: str | None
    hours: float | None
    least_s: float | None
    gpu_hours: str | None
    skip_bad: bool


def from_trace(
    options: TraceOptions, count: int | None, start_s: float | None, seed: int, out: Path
) -> tuple[Arrival, ...]:
    """Return trainers made of the jobs of a trace, and write their curves into a file.

    Prints how many jobs and models were read, used and ignored. ``start_s`` is when the first
    trainer is submitted (None: as in the trace), ``out`` the trainer table, beside which curves are
    written by default. Raises :class:`UserError` for a wrong option.
    """
    from bftrainer_papers.traces.arrivals import read_trace
    from bftrainer_papers.traces.profiles import read_profiles
    from bftrainer_papers.traces.trainers import TraceSelection, trainers_of, write_curves

    for name in ("gpus_per_node", "extrapolate_to", "max_nodes", "hours", "least_s"):
        value = getattr(options, name)
        least_value = 0 if name in ("hours", "least_s") else 1
        if value is not None and (
            not least_value <= value < math.inf or (name == "hours" and value == 0)
        ):
            raise UserError(
                f"--{name.replace('_', '-')} {value:g}: expected "
                f"{'a number above 0' if not least_value else '1 or more'}"
            )
    profiles = read_profiles(options.curves)
    scalings = _chosen_scalings(options, profiles, profiles.of(options.hardware))
    trace = read_trace(options.arrivals, options.member, options.skip_bad)
    if start_s is None and not trace.has_dates:
        # Times of such a trace count from 0, so a date has to be chosen.
        start_s = _START_S
    choice = TraceSelection(
        _from_s(options.from_, trace),
        options.hours,
        options.least_s or 0.0,
        count,
        start_s,
        _gpu_hours(options.gpu_hours),
        options.max_nodes,
        seed,
    )
    arrivals = trainers_of(trace, scalings, choice)
    for remark in trace.tally.remarks(trace.title):
        note(remark)
    _tell_curves(scalings, arrivals)
    path = options.curves_out or out.with_name(f"{out.name.removesuffix('.csv')}.curves.csv")
    used = {arrival.trainer.model for arrival in arrivals}
    with write_errors_reported(path, "--curves-out"):
        write_curves(
            path, {scaling.name: scaling.curve for scaling in scalings if scaling.name in used}
        )
    click.echo(
        f"{path}: {len(used)} curves; use this file as --curves together with --trainers {out}"
    )
    return arrivals


def _chosen_scalings(
    options: TraceOptions, profiles: Profiles, chosen: tuple[Profile, ...]
) -> list[MeasuredScaling]:
    """Return the throughput curves per node count of the chosen models.

    ``chosen`` are the measurements on the chosen hardware. Prints how many models were read, used
    and ignored. Raises :class:`UserError` if none is left.
    """
    from bftrainer_papers.traces.scaling import CurveShape, scaling_of
    from bftrainer_replay.workload.curves import plain_name

    names = {plain_name(profile.model): profile.model for profile in chosen}
    wanted = list(names)
    if options.models:
        wanted = [plain_name(name) for name in options.models.split(",")]
    for name in wanted:
        if name not in names:
            raise UnknownNameError("model", name, names.values())
    shape = CurveShape(options.shape or CurveShape.MEASURED)
    gpus = options.gpus_per_node or _GPUS
    selected = [profile for profile in chosen if plain_name(profile.model) in wanted]
    scalings_or_none = [
        scaling_of(profile, gpus, shape, options.extrapolate_to) for profile in selected
    ]
    scalings = [scaling for scaling in scalings_or_none if scaling is not None]
    unused = {
        "of other hardware": len(profiles.profiles) - len(chosen),
        "not in --models": len(chosen) - len(selected),
        f"not measured on {gpus} GPUs": len(scalings_or_none) - len(scalings),
    }
    reasons = ", ".join(f"{number} {why}" for why, number in unused.items() if number)
    total = len(profiles.profiles)
    ignored = f"{total - len(scalings)} ignored" + (f" ({reasons})" if reasons else "")
    failed = f", {profiles.failed:,} of them 0" if profiles.failed else ""
    note(
        f"{profiles.where} is {profiles.title}: {profiles.read:,} measurements read{failed}; "
        f"{total} combinations of "
        f"model and hardware, {len(scalings)} used, {ignored}"
    )
    if not scalings:
        raise UserError(f"{profiles.where}: no model was measured on the {gpus} GPUs of one node")
    return scalings


def _tell_curves(scalings: list[MeasuredScaling], arrivals: tuple[Arrival, ...]) -> None:
    """Print a remark on each curve that trainers use: what is unusual about it, and what is not
    measured.
    """
    from bftrainer_papers.traces.scaling import is_concave

    used = {arrival.trainer.model for arrival in arrivals}
    for scaling in scalings:
        if scaling.name not in used:
            continue
        odd = []
        if falls := scaling.curve.falls_at():
            odd.append(f"falls at {', '.join(map(str, falls))} nodes")
        if not is_concave(scaling.curve):
            odd.append("not concave")
        if scaling.interpolated:
            odd.append(f"{scaling.interpolated} of its points interpolated")
        if scaling.curve.nodes[-1] > scaling.measured_nodes:
            odd.append(
                f"extrapolated from {scaling.measured_nodes} to {scaling.curve.nodes[-1]} nodes"
            )
        jobs = sum(arrival.trainer.model == scaling.name for arrival in arrivals)
        remarks = f"; {', '.join(odd)}" if odd else ""
        note(
            f"{scaling.name}: {jobs:,} trainers, 1 to {scaling.curve.nodes[-1]} nodes, batch "
            f"size {scaling.batch}{remarks}"
        )


def _from_s(text: str | None, trace: JobTrace) -> float | None:
    """Parse the value of --from; None without it."""
    from bftrainer_replay.logs.event_log import format_time, parse_time

    if text is None:
        return None
    first, last = format_time(trace.jobs[0].at_s), format_time(trace.jobs[-1].at_s)
    try:
        return parse_time(text)
    except ValueError as error:
        raise UserError(
            f"--from {text!r:.40} is not ISO 8601; the trace covers {first} .. {last}"
        ) from error


def _gpu_hours(text: str | None) -> tuple[float, float] | None:
    """Parse the value of --gpu-hours: "1-100" -> (1.0, 100.0); None without it."""
    if text is None:
        return None
    match = _GPU_HOURS.fullmatch(text.strip())
    low, high = (float(match[1]), float(match[2])) if match else (0.0, 0.0)
    if not 0 < low <= high:
        raise UserError(
            f"--gpu-hours {text!r:.40}: expected LOW-HIGH with 0 < LOW <= HIGH, like 1-100"
        )
    return low, high
