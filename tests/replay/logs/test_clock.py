"""Local times, offsets, epochs; the hour that is repeated and the one that does not exist."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from bftrainer.errors import UserError
from bftrainer_replay.logs.clock import LogClock, zone_of

ZURICH = "Europe/Zurich"


def utc(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-07-01T12:00:00", utc(2026, 7, 1, 10)),
        ("2026-01-01T12:00:00", utc(2026, 1, 1, 11)),
        ("2026-07-01T12:00:00+00:00", utc(2026, 7, 1, 12)),
        ("2026-07-01T12:00:00Z", utc(2026, 7, 1, 12)),
        ("2026-07-01T12:00:00-05:00", utc(2026, 7, 1, 17)),
        ("2026-07-01T12:00:00.250", utc(2026, 7, 1, 10) + 0.25),
        ("1516304767", 1516304767.0),
        ("1516304767.5", 1516304767.5),
    ],
)
def test_local_offsets_and_epochs(text: str, expected: float) -> None:
    clock = LogClock(zone_of(ZURICH))
    assert clock.seconds(text) == expected
    assert clock.seconds(text) == expected  # and from the memory of times met


@pytest.mark.parametrize("text", ["Unknown", "None", "N/A", "", "(null)", "0"])
def test_no_time_is_nan(text: str) -> None:
    assert math.isnan(LogClock(zone_of(None)).seconds(text))


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2026-13-01T00:00:00",
        "-5",
        "1e300",
        "99999999999999",
        "2026-07-01T12:00:60",
        "1800-01-01T00:00:00",
        "9" * 10_000_000,
        "\uff12\uff10\uff12\uff16",
        "inf",
        "2026-07-01T12:0",
        "1_0",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        LogClock(zone_of(None)).seconds(text)


def test_the_missing_hour_is_refused_and_says_why() -> None:
    clock = LogClock(zone_of(ZURICH))
    clock.seconds("2026-03-29T01:59:59")
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"2026-03-29T02:30:00 does not exist in Europe/Zurich.*--timezone"
        ):
            clock.seconds("2026-03-29T02:30:00")
    assert LogClock(zone_of("UTC")).seconds("2026-03-29T02:30:00") == utc(2026, 3, 29, 2, 30)


def test_the_repeated_hour_follows_the_order_of_a_job() -> None:
    clock = LogClock(zone_of(ZURICH))
    # 02:30 happens at 00:30 and at 01:30 UTC. The job starts at 02:50 (first time) and ends at
    # 02:10: the second time.
    texts = (
        "2026-10-25T01:00:00",
        "2026-10-25T01:00:00",
        "2026-10-25T02:50:00",
        "2026-10-25T02:10:00",
    )
    assert clock.in_order(texts)[2:] == [utc(2026, 10, 25, 0, 50), utc(2026, 10, 25, 1, 10)]
    assert clock.repeated == 2


def test_a_thousand_jobs_across_both_changes_come_back_as_they_were() -> None:
    zone, draw = ZoneInfo(ZURICH), random.Random(4)
    clock = LogClock(zone)
    changes = (utc(2026, 3, 29, 1), utc(2026, 10, 25, 1))
    for _ in range(1000):
        times = sorted(draw.choice(changes) + draw.randrange(-9000, 9000) for _ in range(4))
        texts = [datetime.fromtimestamp(time, zone).strftime("%Y-%m-%dT%H:%M:%S") for time in times]
        found = clock.in_order((texts[0], texts[1], texts[2], texts[3]), times[3] - times[2])
        assert found[3] - found[2] == times[3] - times[2]
        assert all(abs(a - b) in (0, 3600) for a, b in zip(found, times, strict=True))
        assert found == sorted(found)
    assert clock.repeated > 100


def test_a_zone_that_shifts_by_half_an_hour() -> None:
    clock = LogClock(zone_of("Australia/Lord_Howe"))
    late = clock.in_order(
        ("2026-04-05T01:00:00", "Unknown", "2026-04-05T01:55:00", "2026-04-05T01:35:00")
    )
    assert late[3] - late[2] == timedelta(minutes=10).total_seconds()


def test_an_unknown_zone_names_the_nearest() -> None:
    with pytest.raises(
        UserError, match=r"--timezone Europe/Zurch: unknown, did you mean .*Europe/Zurich"
    ):
        zone_of("Europe/Zurch")
    for odd in ("../../etc/passwd", "/etc/localtime", "", "\0"):
        with pytest.raises(UserError, match="--timezone"):
            zone_of(odd)
