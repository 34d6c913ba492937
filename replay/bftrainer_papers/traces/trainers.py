"""Trainers from a trace and measured curves: when each is submitted, with how much work, on which
curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.errors import InvalidValueError, UserError
from bftrainer.system.files import write_atomically
from bftrainer_papers.traces.arrivals import JobTrace, TracedJob
from bftrainer_papers.traces.scaling import MeasuredScaling
from bftrainer_replay.csv_tables import csv_bytes
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.workload.curves import plain_name

_H = 3600.0


@dataclass(frozen=True, slots=True)
class TraceSelection:
    """Which jobs of a trace become trainers, and the values that the trace lacks.

    Selected are jobs from ``from_s`` on (None: the first), for ``hours``, that ran for at least
    ``least_s`` seconds, and of those the first ``count``. ``start_s`` is when the first of them is
    submitted (None: its time in the trace). ``gpu_hours`` (low, high) is the work of jobs without
    durations, log-uniform. ``max_nodes`` limits every trainer.
    """

    from_s: float | None = None
    hours: float | None = None
    least_s: float = 0.0
    count: int | None = None
    start_s: float | None = None
    gpu_hours: tuple[float, float] | None = None
    max_nodes: int | None = None
    seed: int = 0


def trainers_of(
    trace: JobTrace, scalings: Sequence[MeasuredScaling], choice: TraceSelection
) -> tuple[Arrival, ...]:
    """Return trainers made of the selected jobs of a trace, in order of submission.

    The trace's tally counts what became of every job. A trainer runs on 1 node up to the end of its
    curve. A job trains the model that the trace names, or one drawn at random. Its work is its run
    time at the curve's rate on the GPUs that it had. R_up is uniform in 17-19 s and R_dw in 11-13
    s, as in the paper's workload. Raises :class:`~bftrainer.errors.UserError` if no job is
    selected.
    """
    rng = np.random.default_rng(np.random.PCG64(choice.seed))
    by_model = {plain_name(scaling.model): scaling for scaling in scalings}
    jobs = _chosen_jobs(trace, choice, by_model)
    if not jobs:
        raise UserError(f"no job of the trace is selected: {trace.tally.remarks(trace.title)[0]}")
    shift_s = 0.0 if choice.start_s is None else choice.start_s - jobs[0].at_s
    arrivals = []
    for job in jobs:
        # Every job draws all four numbers, needed or not, so that one job does not change the
        # others' draws.
        model_draw, work_draw, up_draw, down_draw = rng.uniform(size=4).tolist()
        scaling = (
            scalings[int(model_draw * len(scalings))]
            if job.model is None
            else by_model[plain_name(job.model)]
        )
        samples = scaling.rate(job.gpus) * _run_s(job, choice, work_draw)
        arrivals.append(
            Arrival(
                # To milliseconds, as a trainer table has them.
                round(job.at_s + shift_s, 3),
                _trainer_of_job(job, scaling, samples, up_draw, down_draw, choice.max_nodes),
            )
        )
        trace.tally.used += 1
    return tuple(arrivals)


def _chosen_jobs(
    trace: JobTrace, choice: TraceSelection, by_model: dict[str, MeasuredScaling]
) -> list[TracedJob]:
    """Return the jobs that are selected, and count in the trace's tally why the others are not."""
    begin_s = trace.jobs[0].at_s if choice.from_s is None else choice.from_s
    end_s = np.inf if choice.hours is None else begin_s + choice.hours * _H
    chosen: list[TracedJob] = []
    for job in trace.jobs:
        if not begin_s <= job.at_s < end_s:
            trace.tally.ignore("outside the selected time")
        elif job.run_s is not None and (job.run_s < choice.least_s or job.run_s == 0):
            trace.tally.ignore("with too short a run time")
        elif job.model is not None and plain_name(job.model) not in by_model:
            trace.tally.ignore(f"of {job.model:.40}, which has no curve")
        elif choice.count is not None and len(chosen) >= choice.count:
            trace.tally.ignore("beyond --count")
        else:
            chosen.append(job)
    return chosen


def _run_s(job: TracedJob, choice: TraceSelection, drawn: float) -> float:
    """Return a job's run time in seconds; for a trace without, from GPU-hours of the range that was
    given, log-uniform by ``drawn`` in [0, 1).
    """
    if job.run_s is not None:
        return job.run_s
    if choice.gpu_hours is None:
        raise UserError(
            "this trace has no durations: specify the work of its jobs with --gpu-hours "
            "LOW-HIGH, like 1-100"
        )
    low, high = choice.gpu_hours
    return float(low * (high / low) ** drawn) * _H / job.gpus


def _trainer_of_job(
    job: TracedJob,
    scaling: MeasuredScaling,
    samples: float,
    up: float,
    down: float,
    cap: int | None,
) -> Trainer:
    """Return the trainer of a job with its work in ``samples``.

    ``up`` and ``down`` in [0, 1) draw its rescale costs, ``cap`` limits its nodes. Raises
    :class:`~bftrainer.errors.UserError`.
    """
    largest = scaling.curve.nodes[-1]
    try:
        return Trainer(
            id=job.id,
            curve=scaling.curve,
            min_nodes=1,
            max_nodes=largest if cap is None else min(largest, cap),
            scale_up_s=round(17.0 + 2.0 * up, 3),
            scale_down_s=round(11.0 + 2.0 * down, 3),
            samples_total=max(round(samples, 3), 0.001),
            model=scaling.name,
        )
    except InvalidValueError as error:
        raise UserError(f"job {job.id} of the trace cannot become a trainer: {error}") from error


def write_curves(path: Path, curves: dict[str, Curve]) -> None:
    """Write a curve file for :func:`bftrainer_replay.workload.curves.read_curves`; cells between
    breakpoints are empty.
    """
    counts = sorted({n for curve in curves.values() for n in curve.nodes})
    points = {
        name: dict(zip(curve.nodes, curve.per_s, strict=True))
        for name, curve in sorted(curves.items())
    }
    rows = ([name, *(values.get(n, "") for n in counts)] for name, values in points.items())
    write_atomically(path, csv_bytes(["model", *(f"nodes_{n}" for n in counts)], rows))
