"""Idle nodes by weekday and hour of the day, and by month, in the reader's time zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timezone

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.analysis.fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_STEP_S = 1800  # every zone's hours begin on a half or quarter hour of UTC; half hours are exact for nearly all


@dataclass(frozen=True, slots=True, eq=False)
class IdleHours:
    """Mean idle share by (weekday from Monday, hour of the day); NaN where the log has no such hour.

    ``days`` is the number of dates behind each of these shares; ``by_date`` has the idle share by (date, hour).
    """

    shares: NDArray[np.float64]
    days: NDArray[np.int64]
    by_date: NDArray[np.float64]

    @property
    def by_hour(self) -> NDArray[np.float64]:
        """Mean over the weekdays that the log has."""
        return _mean(self.shares, axis=0)

    @property
    def by_day(self) -> NDArray[np.float64]:
        """Mean over the hours."""
        return _mean(self.shares, axis=1)


def _mean(shares: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """The mean of what is known; NaN where nothing is."""
    known = ~np.isnan(shares)
    with np.errstate(invalid="ignore"):
        found: NDArray[np.float64] = np.where(known, shares, 0.0).sum(axis=axis) / known.sum(axis=axis)
    return found


def hours_of_week(window: LogWindow) -> IdleHours:
    """The idle share of each hour of the week; outages and gaps do not count."""
    sums: dict[date, NDArray[np.float64]] = {}
    for moment, idle, seconds in _steps(window):
        sums.setdefault(moment.date(), np.zeros((2, 24)))[:, moment.hour] += (idle, seconds)
    weeks, days = np.zeros((2, 7, 24)), np.zeros((7, 24), dtype=np.int64)
    for day, hours in sums.items():
        weeks[:, day.weekday()] += hours
        days[day.weekday()] += hours[1] > 0
    each = np.array(list(sums.values())).reshape(-1, 2, 24)
    with np.errstate(invalid="ignore"):
        shares, by_date = (node_s / known_s / window.machine_nodes for node_s, known_s in (weeks, each.swapaxes(0, 1)))
    return IdleHours(shares, days, by_date)


def idle_by_month(window: LogWindow) -> list[tuple[str, float]]:
    """(YYYY-MM, idle share) of each month; outages and gaps do not count."""
    sums: dict[str, tuple[float, float]] = {}
    for moment, idle, seconds in _steps(window):
        month = f"{moment:%Y-%m}"
        before = sums.get(month, (0.0, 0.0))
        sums[month] = (before[0] + idle, before[1] + seconds)
    return [(month, idle / seconds / window.machine_nodes) for month, (idle, seconds) in sums.items() if seconds]


def _steps(window: LogWindow) -> Iterator[tuple[datetime, float, float]]:
    """(local time, idle node-seconds, seconds in service and on record) of each half hour."""
    sizes = pool_sizes_of(window)
    first_s = _STEP_S * np.ceil((window.start_s + 1) / _STEP_S)
    edges_s = np.concatenate(([window.start_s], np.arange(first_s, window.end_s, _STEP_S), [window.end_s]))
    node_s = np.concatenate(([0.0], np.cumsum(sizes.nodes * sizes.duration_s)))
    idle = np.diff(np.interp(edges_s, np.append(sizes.start_s, window.end_s), node_s))
    seconds = np.diff(edges_s)
    for begin_s, end_s in (*window.outages, *window.gaps):
        seconds -= np.maximum(np.minimum(edges_s[1:], end_s) - np.maximum(edges_s[:-1], begin_s), 0.0)
    zone = window.zone or timezone.utc
    for at_s, each, known_s in zip(edges_s[:-1].tolist(), idle.tolist(), seconds.tolist(), strict=True):
        if known_s > 0:
            yield datetime.fromtimestamp(at_s, zone), each, known_s
