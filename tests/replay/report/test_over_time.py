"""The mean week of a long log, in the reader's time zone, over a change of clocks and an outage."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from bftrainer.decide.domain.events import PoolChanged
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.report.over_time import hourly_means
from bftrainer_replay.report.page import offsets

ZURICH = ZoneInfo("Europe/Zurich")


def at(day: int, hour: int, month: int = 3) -> float:
    """Local time of Zurich in 2024, whose clocks go forward on March 31 at 2:00."""
    return datetime(2024, month, day, hour, tzinfo=ZURICH).timestamp()


def nightly(days: range) -> LogWindow:
    """Two of ten nodes idle from 22:00 to 23:00 local time on these days of March and April, of
    five weeks.
    """
    events = []
    for day in days:
        month, date = (3, day) if day <= 31 else (4, day - 31)
        events.append(PoolEvent(at(date, 22, month), PoolChanged(joined=frozenset("ab"))))
        events.append(PoolEvent(at(date, 23, month), PoolChanged(left=frozenset("ab"))))
    return LogWindow(
        at(4, 0), at(8, 0, 4), frozenset(), tuple(events), 10, "made", clock="UTC", zone=ZURICH
    )


def week_of(window: LogWindow) -> Any:
    """Mean idle nodes by weekday and hour."""
    idle = pool_sizes_of(window)
    found = hourly_means(window, idle, idle)
    assert found.is_week
    return found.idle.reshape(7, 24)


def test_an_hour_of_the_day_is_the_same_on_both_sides_of_a_change_of_clocks() -> None:
    window = nightly(range(4, 39))
    assert week_of(window)[:, 22] == pytest.approx(2)
    assert week_of(window).sum() == pytest.approx(14)
    # Read as UTC, the nights before the change are at 21:00 and those after it at 20:00.
    in_utc = week_of(replace(window, zone=None))
    assert [hour for hour in range(24) if in_utc[:, hour].any()] == [20, 21]


def test_an_outage_is_neither_idle_nor_busy() -> None:
    window = nightly(range(6, 39))
    down = replace(window, outages=((at(4, 0), at(6, 0)),))
    assert week_of(down)[:, 22] == pytest.approx(2)
    assert week_of(window)[:3, 22] == pytest.approx([2 * 4 / 5, 2 * 4 / 5, 2])


def test_a_reader_sees_local_time() -> None:
    assert format_time(at(30, 12), ZURICH) == "2024-03-30T12:00:00"
    assert format_time(at(31, 12), ZURICH) == "2024-03-31T12:00:00"
    edges_s = [at(30, 12), at(31, 12)]
    assert offsets(edges_s, ZURICH) == [(at(30, 12), 3600), (at(31, 3), 7200)]
