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
_SHORT_S = 21 * 86400.0
_KNOWN = 0.25  # of an hour or day: with less, its mean says nothing

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


def course(window: LogWindow, idle: PoolSizes, used: PoolSizes) -> Course:
    """Average idle nodes and nodes in training by the hour: over the whole log up to three weeks,
    else as a mean week.
    """
    first_s = window.start_s - (window.start_s + _offset_s(window)) % _HOUR_S
    edges_s = np.clip(
        np.arange(first_s, window.end_s + _HOUR_S, _HOUR_S), window.start_s, window.end_s
    )
    edges_s = np.unique(edges_s)
    known_s = np.diff(edges_s)
    for begin_s, end_s in union((*window.gaps, *window.outages)):
        known_s -= np.maximum(
            np.minimum(edges_s[1:], end_s) - np.maximum(edges_s[:-1], begin_s), 0.0
        )
    sums = np.array([np.diff(sizes.node_s_by(edges_s)) for sizes in (idle, used)])
    local = [datetime.fromtimestamp(at_s, window.zone or UTC) for at_s in edges_s[:-1].tolist()]
    if window.span_s <= _SHORT_S:
        return Course(tuple(local), *_means(sums, known_s, _HOUR_S))
    week = np.array([at.weekday() * 24 + at.hour for at in local])
    day = np.unique([at.toordinal() for at in local], return_inverse=True)[1]
    monday = next((at for at in local if at.weekday() == 0 and at.hour == 0), local[0])
    by_week = _means(_summed(sums, week, 168), _summed(known_s[None], week, 168)[0], _HOUR_S)
    by_day = _means(
        _summed(sums, day, day[-1] + 1), _summed(known_s[None], day, day[-1] + 1)[0], 86400.0
    )
    firsts = [local[place] for place in np.unique(day, return_index=True)[1].tolist()]
    return Course((monday,), *by_week, is_week=True, days=(Course(tuple(firsts), *by_day),))


def _offset_s(window: LogWindow) -> float:
    east = datetime.fromtimestamp(window.start_s, window.zone or UTC).utcoffset()
    return 0.0 if east is None else east.total_seconds()


def _summed(rows: Array, groups: Sequence[int] | NDArray[np.int64], count: int) -> Array:
    return np.array([np.bincount(groups, row, count) for row in rows])


def _means(sums: Array, known_s: Array, whole_s: float) -> tuple[Array, Array]:
    with np.errstate(invalid="ignore", divide="ignore"):
        idle, used = np.where(
            known_s >= _KNOWN * min(whole_s, known_s.max(initial=0.0)), sums / known_s, np.nan
        )
    return idle, used
