"""Idle nodes by hour, weekday and month in the reader's time zone, over a change of clocks and an outage."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from bftrainer.domain.events import PoolChanged
from bftrainer_replay.analysis.calendar import hours_of_week, idle_by_month
from bftrainer_replay.figures.calendar import hours_figure
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.report.page import offsets

ZURICH = ZoneInfo("Europe/Zurich")


def at(day: int, hour: int, month: int = 3) -> float:
    """Local time of Zurich in 2024, whose clocks go forward on March 31 at 2:00."""
    return datetime(2024, month, day, hour, tzinfo=ZURICH).timestamp()


def nightly(days: range) -> LogWindow:
    """Two of ten nodes idle from 22:00 to 23:00 local time, every night."""
    events = []
    for day in days:
        month, date = (3, day) if day <= 31 else (4, day - 31)
        events.append(PoolEvent(at(date, 22, month), PoolChanged(joined=frozenset("ab"))))
        events.append(PoolEvent(at(date, 23, month), PoolChanged(left=frozenset("ab"))))
    return LogWindow(at(25, 0), at(8, 0, 4), frozenset(), tuple(events), 10, "made", clock="UTC", zone=ZURICH)


def test_an_hour_of_the_day_is_the_same_on_both_sides_of_a_change_of_clocks() -> None:
    window = nightly(range(25, 39))
    by_hour = hours_of_week(window).by_hour
    assert by_hour[22] == pytest.approx(0.2)
    assert by_hour.sum() == pytest.approx(0.2)
    # Read as UTC, the nights before the change are at 21:00 and those after it at 20:00.
    in_utc = hours_of_week(replace(window, zone=None)).by_hour
    assert [hour for hour in range(24) if in_utc[hour] > 0] == [20, 21]
    assert idle_by_month(window) == [
        ("2024-03", pytest.approx(0.2 * 7 / (7 * 24 - 1))),  # the hour that is left out
        ("2024-04", pytest.approx(0.2 / 24)),
    ]


def test_an_outage_is_neither_idle_nor_busy() -> None:
    """Five of seven nights in March: without the outage, the idle share is the same."""
    window = nightly(range(27, 39))
    down = replace(window, outages=((at(25, 0), at(27, 0)),))
    monday = hours_of_week(down).shares[0]
    assert monday[22] == pytest.approx(0.2)  # the other Monday's
    assert hours_of_week(window).shares[0][22] == pytest.approx(0.1)
    assert np.isnan(hours_of_week(replace(down, end_s=at(28, 0), events=())).shares[4]).all()


def test_a_reader_sees_local_time() -> None:
    assert format_time(at(30, 12), ZURICH) == "2024-03-30T12:00:00"
    assert format_time(at(31, 12), ZURICH) == "2024-03-31T12:00:00"
    edges_s = [at(30, 12), at(31, 12)]
    assert offsets(edges_s, ZURICH) == [(at(30, 12), 3600), (at(31, 3), 7200)]


def test_weekdays_are_told_apart_from_four_of_each_on_and_their_number_is_said() -> None:
    fortnight = hours_of_week(nightly(range(25, 39)))
    assert (fortnight.days == 2).sum() == 7 * 24 - 1  # clocks go forward on one of the two Sundays
    assert fortnight.by_date.shape == (14, 24)
    few = hours_figure(fortnight, "UTC").texts
    assert few[0].get_text() == "Idle share by hour of the day"
    assert "averaged over 14 days, nodes are idle most between 22:00 and 23:00 (20.0% of them)" in few[1].get_text()
    weeks = LogWindow(at(1, 0), at(8, 0, 4), frozenset("ab"), (), 10, "made", clock="UTC", zone=ZURICH)
    many = hours_figure(hours_of_week(weeks), "UTC").texts
    assert many[0].get_text() == "Idle share by weekday and hour of the day"
    assert "Each field is the mean of 5 to 6 days." in many[1].get_text().replace("\n", " ")
