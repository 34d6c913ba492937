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
_MOST_SHARE, _MOST_FEW, _LEAST_JOBS = 0.001, 3, 10
_GRACE_S = 3600.0
"""OverTimeLimit, KillWait and a slow epilog let a job outlast its limit."""


def without_outliers(source: Source, table: JobTable) -> JobTable:
    """Leave out the few jobs whose times are further from all others than the log is long, and than
    30 days; add remarks.

    An end that far away is unknown rather than right: such a job counts as still running.
    """
    if source.options.outliers == KEEP or len(table.node_counts) < _LEAST_JOBS:
        return table
    at = Times.gathered(started_or(table.start_s, table.submit_s, part) for part in table.parts())
    first_s, last_s = _bulk(at.kept.copy())
    keep = (at.kept >= first_s) & (at.kept <= last_s) & (table.submit_s.kept <= last_s)
    if not keep.all():
        out = at[~keep]
        source.remarks.append(
            f"{counted(len(out), 'job')} left out, dated {format_time(float(out.min()))} to "
            f"{format_time(float(out.max()))}: all others "
            f"are from {format_time(first_s)} to {format_time(last_s)} (--outliers keep uses "
            "them, and the span that they make)"
        )
        table = table.chosen(keep)
    latest_s, ends = last_s + max(LEAST_GAP_S, last_s - first_s), table.end_s
    far = table.where(lambda part: np.isfinite(ends[part]) & (ends[part] > latest_s))
    if len(far):
        source.remarks.append(
            f"{counted(len(far), 'job ends', 'jobs end')} later than any job could "
            f"({format_time(float(ends[far].max()))} at the latest): "
            "their ends count as not recorded (--outliers keep uses them)"
        )
        table = replace(table, end_s=ends.changed(far, np.full(len(far), np.inf)))
    return table


def _bulk(at_s: NDArray[Any]) -> tuple[float, float]:
    """Return the first and the last time of the log without outliers: a few times at either end are
    cut off if the gap to the rest is longer than the rest itself.
    """
    few = max(_MOST_FEW, int(_MOST_SHARE * len(at_s)))
    at_s.partition((min(few + 1, len(at_s) - 1), max(len(at_s) - few - 2, 0)))
    times = np.sort(
        np.concatenate((at_s[: few + 2], at_s[max(len(at_s) - few - 2, few + 2) :]))
    )  # both ends
    first, last = 0, len(times) - 1
    gaps = np.diff(times)
    for place in range(len(gaps) - 1, max(len(gaps) - 1 - few, 0), -1):
        if gaps[place] > max(LEAST_GAP_S, times[place] - times[min(few, place)]):
            last = place
    for place in range(min(few, last)):
        if gaps[place] > max(LEAST_GAP_S, times[last] - times[place + 1]):
            first = place + 1
    return float(times[first]), float(times[last])


def with_ends(source: Source, table: JobTable) -> JobTable:
    """End jobs without a recorded end at their time limit, if the log goes on beyond that (unless
    ``--runaways keep``); add remarks.
    """
    running = table.where(lambda part: np.isinf(table.end_s[part]) & ~np.isnan(table.start_s[part]))
    if not len(running):
        return table
    start_s, limit_s = table.start_s[running], table.limit_s[running]
    over = (
        times[np.isfinite(times)]
        for part in table.parts()
        for times in (table.end_s[part], table.start_s[part])
    )
    finish = float(
        max(
            *(times.max(initial=0.0) for times in over),
            *(table.submit_s[p].max() for p in table.parts()),
        )
    )
    at_limit = start_s + limit_s
    runaway = at_limit + _GRACE_S < finish
    if runaway.any():
        late_h = (finish - at_limit[runaway]) / 3600
        held = float(np.dot(late_h, table.node_counts[running[runaway]]))
        kept = source.options.runaways == KEEP
        repair = (
            "; `sacctmgr show runawayjobs` lists and repairs them" if source.dialect.slurm else ""
        )
        source.remarks.append(
            f"{counted(int(runaway.sum()), 'job has', 'jobs have')} no end, and "
            "their time limit was over before "
            "the log's end: they "
            + (
                f"hold {held:,.0f} node-hours beyond it (--runaways keep)"
                if kept
                else f"end at their limit, which leaves {held:,.0f} node-hours to other jobs "
                "or idle (--runaways keep lets "
                f"them run to the log's end{repair})"
            )
        )
        if not kept:
            table = replace(table, end_s=table.end_s.changed(running[runaway], at_limit[runaway]))
    longest_s = max(
        (float((e - s)[np.isfinite(e)].max(initial=0.0)) for s, e, _ in table.runs()), default=0.0
    )
    endless = np.isnan(limit_s) & (finish - start_s > max(longest_s, 86400.0))
    if endless.any() and longest_s:
        source.remarks.append(
            f"{counted(int(endless.sum()), 'job has', 'jobs have')} no end and no "
            "time limit and have run longer "
            "than any job that ended; their "
            "nodes count as busy to the log's end (with "
            f"{source.dialect.name(JobFact.TIME_LIMIT)}, they would end at their "
            "limit; --runaways)"
        )
    return table
