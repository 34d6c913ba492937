"""The main jobs of a log, as far as a scheduler can be simulated with them: when each was
submitted, how long it ran, its time limit and its size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bftrainer.counted import counted
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.assemble import LEAST_SHARED
from bftrainer_replay.logs.model import LogWindow, Queue

LEAST_WITH_LIMIT = 0.95
"""Of the jobs that ran: with fewer limits, the plan of a scheduler is a guess."""
LEAST_JOBS = 100
"""A percentile of fewer jobs says nothing about the site."""


@dataclass(frozen=True, slots=True)
class MainJobs:
    """Main jobs in the order of their submission; times are seconds after the first submission.

    Job k comes at ``submit_s[k]``, runs for ``run_s[k]`` on ``nodes[k]`` of ``machine_nodes``
    nodes, and the scheduler plans with ``limit_s[k]``, which is at least the run time. Only jobs of
    ``is_counted`` count in results: the others ran or waited when the window began. ``notes`` are
    facts about the log that change what a reader may conclude.
    """

    submit_s: tuple[float, ...]
    run_s: tuple[float, ...]
    limit_s: tuple[float, ...]
    nodes: tuple[int, ...]
    machine_nodes: int
    is_counted: tuple[bool, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.is_counted:
            object.__setattr__(self, "is_counted", (True,) * len(self.nodes))

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def span_s(self) -> float:
        """From the first submission to the last."""
        return self.submit_s[-1] - self.submit_s[0] if self.submit_s else 0.0

    def first(self, count: int) -> MainJobs:
        """Return the first ``count`` jobs."""
        if count >= len(self):
            return self
        return replace(
            self,
            submit_s=self.submit_s[:count],
            run_s=self.run_s[:count],
            limit_s=self.limit_s[:count],
            nodes=self.nodes[:count],
            is_counted=self.is_counted[:count],
        )


@dataclass(frozen=True, slots=True)
class CannotTell:
    """Why no queue can be simulated from a log: a sentence with the remedy."""

    why: str


def main_jobs_of(window: LogWindow) -> MainJobs | CannotTell:
    """Return the main jobs of a window, or why the log does not tell what a scheduler would do.

    Jobs that run when the window begins are submitted at its beginning, before all others.
    """
    queue = window.queue
    if queue is None:
        return CannotTell(
            "the log has no times of submission, or jobs that never waited, so its queue is not "
            "known; take the scheduler's own job log (sacct: columns Submit and TimelimitRaw)"
        )
    columns = _columns_of(queue, window)
    if problem := _problem(columns, window):
        return CannotTell(problem)
    return _in_order(columns, window)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The jobs of a window that ran: arrays of the same length, times in seconds since 1970.
    ``without_run``: how many jobs were left out because they never ran.
    """

    eligible_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    limit_s: NDArray[np.float64]
    nodes: NDArray[np.int64]
    without_run: int

    def only(self, which: NDArray[np.bool_]) -> _Columns:
        """Return the chosen jobs."""
        return replace(
            self,
            eligible_s=self.eligible_s[which],
            start_s=self.start_s[which],
            end_s=self.end_s[which],
            limit_s=self.limit_s[which],
            nodes=self.nodes[which],
        )

    def node_h_in(self, start_s: float, end_s: float) -> float:
        """Return the node-hours of the jobs inside a span."""
        held_s = self.end_s.clip(start_s, end_s) - self.start_s.clip(start_s, end_s)
        return float((held_s * self.nodes).sum()) / 3600


def _columns_of(queue: Queue, window: LogWindow) -> _Columns:
    """Return the jobs that ran and came before the end of the window and had not ended before its
    start.
    """
    start_s, end_s = queue.start_s[:], queue.end_s[:]
    eligible_s = queue.eligible_s[:]
    is_inside = (eligible_s <= window.end_s) & (end_s > window.start_s)
    ran = np.isfinite(start_s) & np.isfinite(end_s) & (end_s > start_s)
    every = _Columns(
        eligible_s,
        start_s,
        end_s,
        queue.limit_s[:],
        queue.nodes.astype(np.int64),
        int((is_inside & ~ran).sum()),
    )
    return every.only(is_inside & ran)


def _problem(columns: _Columns, window: LogWindow) -> str:
    """Return why these jobs do not tell what a scheduler would do; empty if they do."""
    count = len(columns.nodes)
    if count < LEAST_JOBS:
        return (
            f"only {counted(count, 'job')} of the log ran, and no share of so few jobs tells how a "
            f"site is; take a log of at least {LEAST_JOBS}"
        )
    limited = float(np.isfinite(columns.limit_s).mean())
    if limited < LEAST_WITH_LIMIT:
        return (
            f"{1 - limited:.0%} of the jobs have no time limit, with which schedulers plan; take a "
            "log with time limits (sacct: column TimelimitRaw)"
        )
    too_large = int((columns.nodes > window.machine_nodes).sum())
    if too_large:
        return (
            f"{counted(too_large, 'job')} asked for more than the "
            f"{counted(window.machine_nodes, 'node')} of this part of the log; take all its nodes, "
            "or say how many there are with --machine-nodes"
        )
    shared = _jobs_per_busy_node(columns, window)
    if shared > LEAST_SHARED:
        return (
            f"jobs share nodes ({shared:.1f} jobs on a busy node), and this simulation gives each "
            "job nodes of its own; take a partition whose jobs have whole nodes (--partition)"
        )
    return ""


def _jobs_per_busy_node(columns: _Columns, window: LogWindow) -> float:
    """Return the mean number of jobs on a node with a job, by node-hours."""
    busy_h = window.service_node_h - pool_sizes_of(window).node_hours()
    return columns.node_h_in(window.start_s, window.end_s) / max(busy_h, 1e-9)


def _in_order(columns: _Columns, window: LogWindow) -> MainJobs:
    """Return the jobs in the order in which a scheduler sees them. What ran before the window
    began runs first and for its rest; a job that waited then comes at its start.
    """
    ran_before = columns.start_s < window.start_s
    begin_s = columns.start_s.clip(min=window.start_s)
    submit_s = np.where(ran_before, window.start_s, columns.eligible_s.clip(min=window.start_s))
    order = np.lexsort((columns.eligible_s, ~ran_before, submit_s))
    run_s = columns.end_s - begin_s
    limit_s = np.where(np.isfinite(columns.limit_s), columns.limit_s, run_s)
    rest_s = limit_s - (begin_s - columns.start_s)
    is_counted = columns.eligible_s >= window.start_s
    first_s = float(submit_s[order[0]])
    return MainJobs(
        tuple((submit_s[order] - first_s).tolist()),
        tuple(run_s[order].tolist()),
        tuple(np.maximum(rest_s, run_s)[order].tolist()),
        tuple(columns.nodes[order].tolist()),
        window.machine_nodes,
        tuple(is_counted[order].tolist()),
        _notes(columns, window),
    )


def _notes(columns: _Columns, window: LogWindow) -> tuple[str, ...]:
    """Return what a reader should know about the log besides its jobs."""
    notes = []
    if columns.without_run:
        jobs = counted(columns.without_run, "job that never ran", "jobs that never ran")
        notes.append(f"{jobs} or had no end are left out")
    over_limit = columns.end_s - columns.start_s > columns.limit_s + 60.0
    if over_limit.mean() > 0.01:
        notes.append(f"{over_limit.mean():.0%} of the jobs ran longer than their limit")
    closed_s = window.unknown_s + window.outage_s
    if closed_s > 0.01 * window.span_s:
        notes.append(
            f"{closed_s / 3600:,.0f} hours of outages and gaps: the simulated cluster works then"
        )
    all_needs = () if window.queue is None else window.queue.all_needs
    partitions = {needs.partition for needs in all_needs if needs.partition}
    if len(partitions) > 1:
        notes.append(
            f"jobs of {counted(len(partitions), 'partition')} count as one queue for all "
            "nodes (--partition NAME takes one)"
        )
    if window.site.bounds:
        notes.append("jobs may share nodes: each has its own here")
    return tuple(notes)
