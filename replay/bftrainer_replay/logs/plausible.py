"""Records that would bend every figure: jobs dated years away from all others, and jobs without a
recorded end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bftrainer.counted import counted
from bftrainer_replay.logs.columns import Times, started_or
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.job_needs import JobFact
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.source import KEEP, Source

LEAST_GAP_S = 30 * 86400.0
_MAX_OUTLIER_SHARE = 0.001
_MAX_OUTLIERS_OF_FEW = 3
"""Outliers at either end of a log in which the share above is less."""
_LEAST_JOBS = 10
_GRACE_S = 3600.0
"""OverTimeLimit, KillWait and a slow epilog let a job outlast its limit."""


def without_outliers(source: Source, table: JobTable) -> JobTable:
    """Return the table without the few jobs dated far away from all others; add remarks.

    Far is further than the log of the others is long, and further than 30 days: such dates bend
    every figure. An end that is this late is assumed to be wrong: its job counts as still running.
    With --outliers keep, all jobs stay.
    """
    if source.options.outliers == KEEP or len(table.node_counts) < _LEAST_JOBS:
        return table
    # The time of a job is its start or, if it never started, its submission.
    times = Times.from_parts(
        started_or(table.start_s, table.submit_s, part) for part in table.parts()
    )
    first_s, last_s = _range_without_outliers(times.packed.copy())
    in_bulk = (times.packed >= first_s) & (times.packed <= last_s)
    # A submission after the last time of all others is as wrong.
    keep = in_bulk & (table.submit_s.packed <= last_s)
    if not keep.all():
        outliers_s = times[~keep]
        source.remarks.append(
            f"{counted(len(outliers_s), 'job')} left out, dated "
            f"{format_time(float(outliers_s.min()))} to {format_time(float(outliers_s.max()))}: "
            f"all others are from {format_time(first_s)} to {format_time(last_s)} "
            "(--outliers keep uses them, and the span that they make)"
        )
        table = table.selected(keep)
    latest_s = last_s + max(LEAST_GAP_S, last_s - first_s)
    ends = table.end_s
    too_late = table.jobs_where(lambda part: np.isfinite(ends[part]) & (ends[part] > latest_s))
    if len(too_late):
        source.remarks.append(
            f"{counted(len(too_late), 'job ends', 'jobs end')} later than any job could "
            f"({format_time(float(ends[too_late].max()))} at the latest): "
            "their ends count as not recorded (--outliers keep uses them)"
        )
        table = replace(table, end_s=ends.replaced(too_late, np.full(len(too_late), np.inf)))
    return table


def _range_without_outliers(times_s: NDArray[Any]) -> tuple[float, float]:
    """Return the first and the last time of the log without outliers.

    A few times at either end are cut off if the gap to the rest is longer than the rest itself, and
    than 30 days. The array is reordered.
    """
    n_times = len(times_s)
    max_outliers = max(_MAX_OUTLIERS_OF_FEW, int(_MAX_OUTLIER_SHARE * n_times))
    # Only the times at both ends are sorted: possible outliers, and one or two of the rest.
    times_s.partition((min(max_outliers + 1, n_times - 1), max(n_times - max_outliers - 2, 0)))
    latest = times_s[max(n_times - max_outliers - 2, max_outliers + 2) :]
    edges_s = np.sort(np.concatenate((times_s[: max_outliers + 2], latest)))
    first, last = 0, len(edges_s) - 1
    gaps_s = np.diff(edges_s)
    # From the end backwards, each gap may be the one before the late outliers. The rest is measured
    # from the time after the largest possible number of early outliers.
    for k in range(len(gaps_s) - 1, max(len(gaps_s) - 1 - max_outliers, 0), -1):
        rest_s = edges_s[k] - edges_s[min(max_outliers, k)]
        if gaps_s[k] > max(LEAST_GAP_S, rest_s):
            last = k
    # Each gap from the beginning may be the one after the early outliers.
    for k in range(min(max_outliers, last)):
        rest_s = edges_s[last] - edges_s[k + 1]
        if gaps_s[k] > max(LEAST_GAP_S, rest_s):
            first = k + 1
    return float(edges_s[first]), float(edges_s[last])


def with_ends(source: Source, table: JobTable) -> JobTable:
    """Return the table with an end for each job that has none but must have ended by its time
    limit.

    Such a job's limit is over before the log's end; the end is then at the limit (unless
    ``--runaways keep``). Adds remarks, also on jobs that have neither an end nor a limit.
    """
    running = table.jobs_where(
        lambda part: np.isinf(table.end_s[part]) & ~np.isnan(table.start_s[part])
    )
    if not len(running):
        return table
    start_s, limit_s = table.start_s[running], table.limit_s[running]
    finish_s = _latest_time(table)
    limit_end_s = start_s + limit_s
    is_runaway = limit_end_s + _GRACE_S < finish_s
    if is_runaway.any():
        jobs = running[is_runaway]
        beyond_h = (finish_s - limit_end_s[is_runaway]) / 3600
        _remark_on_runaways(source, len(jobs), float(np.dot(beyond_h, table.node_counts[jobs])))
        if source.options.runaways != KEEP:
            ends = table.end_s.replaced(jobs, limit_end_s[is_runaway])
            table = replace(table, end_s=ends)
    longest_s = max(
        (float((end - start)[np.isfinite(end)].max(initial=0.0)) for start, end, _ in table.runs()),
        default=0.0,
    )
    # It has run longer than every job that ended, and for a day.
    is_endless = np.isnan(limit_s) & (finish_s - start_s > max(longest_s, 86400.0))
    if is_endless.any() and longest_s:
        source.remarks.append(
            f"{counted(int(is_endless.sum()), 'job has', 'jobs have')} no end and no "
            "time limit and have run longer "
            "than any job that ended; their "
            "nodes count as busy to the log's end (with "
            f"{source.dialect.name(JobFact.TIME_LIMIT)}, they would end at their "
            "limit; --runaways)"
        )
    return table


def _latest_time(table: JobTable) -> float:
    """Return the latest submission, start or end in the log."""
    latest_s = max(table.submit_s[part].max() for part in table.parts())
    for part in table.parts():
        for times_s in (table.end_s[part], table.start_s[part]):
            latest_s = max(latest_s, times_s[np.isfinite(times_s)].max(initial=0.0))
    return float(latest_s)


def _remark_on_runaways(source: Source, n_jobs: int, beyond_node_h: float) -> None:
    """Add a remark on jobs without an end whose time limit was over before the end of the log.

    ``beyond_node_h`` are the node-hours that they would hold beyond it.
    """
    if source.options.runaways == KEEP:
        consequence = f"hold {beyond_node_h:,.0f} node-hours beyond it (--runaways keep)"
    else:
        repair = ""
        if source.dialect.slurm:
            repair = "; `sacctmgr show runawayjobs` lists and repairs them"
        consequence = (
            f"end at their limit, which leaves {beyond_node_h:,.0f} node-hours to other jobs "
            f"or idle (--runaways keep lets them run to the log's end{repair})"
        )
    source.remarks.append(
        f"{counted(n_jobs, 'job has', 'jobs have')} no end, and their time limit was over before "
        f"the log's end: they {consequence}"
    )
