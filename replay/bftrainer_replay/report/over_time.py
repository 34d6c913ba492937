"""Idle nodes and nodes in training by the hour: of all hours of a short log, of a mean week and of
every day of a long one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.analysis.window_fragments import PoolSizes
from bftrainer_replay.logs.model import LogWindow, union

_HOUR_S = 3600.0
_MAX_PLAIN_SPAN_S = 21 * 86400.0
_MIN_KNOWN_SHARE = 0.25  # of an hour or day: with less, its mean says nothing

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """Mean idle nodes and nodes in training in bins that begin at ``begins`` (local time); NaN
    where nothing is known.

    ``is_week``: the bins are the hours of a mean week from Monday on; ``days`` are then the means
    of each day of the log, else empty.
    """

    begins: tuple[datetime, ...]
    idle: Array
    used: Array
    is_week: bool = False
    days: tuple[Course, ...] = ()

    @property
    def weekdays(self) -> list[int]:
        """The weekday of each bin, from 0 for Monday."""
        if self.is_week:
            return [k // 24 for k in range(len(self.idle))]
        return [at.weekday() for at in self.begins]

    @property
    def clock_hours(self) -> list[int]:
        """The hour of the day of each bin."""
        if self.is_week:
            return [k % 24 for k in range(len(self.idle))]
        return [at.hour for at in self.begins]


def hourly_means(window: LogWindow, idle: PoolSizes, used: PoolSizes) -> Course:
    """Return the mean numbers of idle nodes and of nodes in training by the hour.

    Of a log up to three weeks long, these are all its hours; of a longer one, the hours of a mean
    week, with the means of each day beside them. ``idle`` and ``used`` are the numbers over time.
    """
    # Hours begin with the full hours of local time.
    first_s = window.start_s - (window.start_s + _utc_offset_s(window)) % _HOUR_S
    edges_s = np.clip(
        np.arange(first_s, window.end_s + _HOUR_S, _HOUR_S), window.start_s, window.end_s
    )
    edges_s = np.unique(edges_s)
    known_s = np.diff(edges_s)  # of each hour, without gaps and outages
    for begin_s, end_s in union((*window.gaps, *window.outages)):
        known_s -= np.maximum(
            np.minimum(edges_s[1:], end_s) - np.maximum(edges_s[:-1], begin_s), 0.0
        )
    sums_node_s = np.array([np.diff(sizes.node_s_by(edges_s)) for sizes in (idle, used)])
    hours = [datetime.fromtimestamp(at_s, window.zone or UTC) for at_s in edges_s[:-1].tolist()]
    if window.span_s <= _MAX_PLAIN_SPAN_S:
        return Course(tuple(hours), *_bin_means(sums_node_s, known_s, _HOUR_S))
    week_hour = np.array([at.weekday() * 24 + at.hour for at in hours])
    _, first_index, day = np.unique(
        [at.toordinal() for at in hours], return_index=True, return_inverse=True
    )
    day_count = day[-1] + 1
    monday = next((at for at in hours if at.weekday() == 0 and at.hour == 0), hours[0])
    by_week = _bin_means(
        _group_sums(sums_node_s, week_hour, 168),
        _group_sums(known_s[None], week_hour, 168)[0],
        _HOUR_S,
    )
    by_day = _bin_means(
        _group_sums(sums_node_s, day, day_count),
        _group_sums(known_s[None], day, day_count)[0],
        86400.0,
    )
    days = Course(tuple(hours[index] for index in first_index.tolist()), *by_day)
    return Course((monday,), *by_week, is_week=True, days=(days,))


def _utc_offset_s(window: LogWindow) -> float:
    """Return the seconds by which the log's zone is east of UTC at the log's start."""
    east = datetime.fromtimestamp(window.start_s, window.zone or UTC).utcoffset()
    return 0.0 if east is None else east.total_seconds()


def _group_sums(rows: Array, groups: Sequence[int] | NDArray[np.int64], count: int) -> Array:
    """Return the sums of each row by group; ``groups`` gives the group of each column."""
    return np.array([np.bincount(groups, row, count) for row in rows])


def _bin_means(sums: Array, known_s: Array, whole_s: float) -> tuple[Array, Array]:
    """Return the mean idle and used nodes of bins of ``whole_s`` seconds, as two arrays.

    ``sums`` are node-seconds, and ``known_s`` the seconds of each bin that are known. The mean is
    NaN where too little of a bin is.
    """
    min_known_s = _MIN_KNOWN_SHARE * min(whole_s, known_s.max(initial=0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        idle, used = np.where(known_s >= min_known_s, sums / known_s, np.nan)
    return idle, used
