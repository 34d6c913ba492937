"""Times of a log as seconds since 1970 UTC, from local time, ISO offsets or epochs.

Local time is ambiguous. A time in the hour that is repeated when clocks go back has two meanings:
the earlier one is taken, unless the order of a job's times or its elapsed time asks for the later
one. The hour that is left out when clocks go forward does not exist: such a time means that the
zone is wrong, so it is rejected.
"""

from __future__ import annotations

import difflib
import itertools
import math
import zoneinfo
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from bftrainer.errors import UserError

# What sacct, jobcomp and others print for no time; sacct 22.05 prints None for a job that never
# started. Tables are written by pandas (NaT, nan, <NA>) and MySQL (NULL, \N).
NO_TIME = frozenset(
    {
        "Unknown",
        "None",
        "N/A",
        "(null)",
        "",
        "0",
        "NaT",
        "nan",
        "NaN",
        "<NA>",
        "NULL",
        "\\N",
        "null",
        "0.0",
    }
)
_EARLIEST_S, _LATEST_S = 0.0, 4102444800.0  # 1970 and 2100
# The last four characters of an ISO time ("M:SS"); its first 15 are looked up.
_TAILS = {
    f"{minute}:{second:02d}": 60 * minute + second for minute in range(10) for second in range(60)
}


def zone_of(name: str | None) -> tzinfo:
    """Return the time zone that ``--timezone`` names; UTC for None. Raises :class:`UserError`,
    which suggests the nearest names, for an unknown one.
    """
    if name is None or name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        if not zoneinfo.available_timezones():
            raise UserError(
                f"--timezone {name}: this system has no time zone data; install it with `pip "
                "install tzdata`"
            ) from error
        near = difflib.get_close_matches(name, sorted(zoneinfo.available_timezones()), n=3)
        hint = (
            f", did you mean {' or '.join(near)}?"
            if near
            else ", expected a name like Europe/Zurich or UTC"
        )
        raise UserError(f"--timezone {name}: unknown{hint}") from error


class LogClock:
    """Reads the times of one log.

    ``zone`` is that of times without one. Afterwards, ``used_local`` tells whether any time had no
    zone, ``repeated`` counts times in a repeated hour, and ``shifted`` counts the jobs that ran
    exactly half an hour or an hour longer or shorter than their elapsed time: clocks changed at
    another time than in this zone.
    """

    def __init__(self, zone: tzinfo) -> None:
        """Prepare to read times; those without a time zone are in ``zone``."""
        self.zone = zone
        self.used_local = False
        self.repeated = 0
        self.shifted = 0
        # Keys are the first 15 characters of a time, which name ten minutes: the seconds at their
        # beginning and, if they are repeated, the time from the first occurrence to the second.
        self._ten_minutes_s: dict[str, float] = {}
        self._repeated_after: dict[str, timedelta] = {}

    def seconds(self, text: str) -> float:
        """Return a time of the log in seconds since 1970 UTC; NaN where the scheduler had no time.

        Raises ValueError for anything else.
        """
        # Nearly all times of a log are YYYY-MM-DDTHH:MM:SS: the start of ten minutes is looked up,
        # the rest is added.
        if len(text) == 19 and (tail := _TAILS.get(text[15:])) is not None:
            ten_minutes_s = self._ten_minutes_s.get(text[:15])
            if ten_minutes_s is not None:
                return ten_minutes_s + tail
        return self._parsed(text)

    def forget(self) -> None:
        """Drop the table of ten minutes, which saves time only while a log is read. Times can still
        be parsed, slowly at first.
        """
        self._ten_minutes_s.clear()

    def in_order(
        self, texts: tuple[str, str, str, str], elapsed_s: float | None = None
    ) -> list[float]:
        """Return submit, eligible, start and end of one job in seconds since 1970, from their
        texts.

        A time in the hour that is repeated when clocks go back has two meanings: those that put the
        four in order are chosen. ``elapsed_s``, where the log has it, decides between the two
        meanings of start and end.
        """
        times_s = [self.seconds(text) for text in texts]
        if not self._repeated_after:
            return times_s
        shifts = [self._repeated_after.get(text[:15]) for text in texts]
        n_ambiguous = sum(shift is not None for shift in shifts)
        if not n_ambiguous:
            return times_s
        self.repeated += n_ambiguous
        meanings = [
            (time_s,) if shift is None else (time_s, time_s + shift.total_seconds())
            for time_s, shift in zip(times_s, shifts, strict=True)
        ]
        # The readings are ordered from the earliest to the latest, and max() returns the first of
        # the best: the earlier meaning wins a tie.
        readings = itertools.product(*meanings)
        return list(max(readings, key=lambda reading: _reading_score(list(reading), elapsed_s)))

    def compare(self, start_s: float, end_s: float, elapsed_s: float) -> None:
        """Count a job whose run time differs from its elapsed time by a change of clocks.
        (Suspended time is not elapsed.)
        """
        difference_s = abs(end_s - start_s - elapsed_s)
        self.shifted += abs(difference_s - 3600) <= 1 or abs(difference_s - 1800) <= 1

    def _parsed(self, text: str) -> float:
        """Parse a time of any format that logs use: seconds since 1970, or ISO 8601 with or without
        a zone.
        """
        if text in NO_TIME:
            return math.nan
        if len(text) > 40:
            raise ValueError(f"{text[:20]!r}... is not a time")
        # Other digits than 0 to 9, which float() would also accept, are no time.
        if text.replace(".", "", 1).isdecimal() and text.isascii():
            return _checked_seconds(float(text), text)
        try:
            moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
        except ValueError:
            expected = "expected a time like 2026-01-31T23:59:59 or seconds since 1970"
            raise ValueError(f"{text!r} is not a time, {expected}") from None
        if moment.tzinfo is not None:
            return _checked_seconds(moment.timestamp(), text)
        return self._local_seconds(moment, text)

    def _local_seconds(self, moment: datetime, text: str) -> float:
        """Return the seconds since 1970 of a time in the log's zone; raises ValueError for a
        skipped time.

        Clocks skip an hour when they go forward. The ten minutes of the time are kept, so that
        :meth:`seconds` finds later times in them by a look-up.
        """
        self.used_local = True
        if not 1970 <= moment.year < 2100:
            raise ValueError(f"{text!r} is not a time from 1970 to 2099")
        # The offsets of the two readings (fold 0 and 1) are equal but for an hour that is repeated
        # or skipped: then the first is the larger or the smaller one.
        early, late = (moment.replace(tzinfo=self.zone, fold=fold) for fold in (0, 1))
        repeated_after = _zone_offset(early) - _zone_offset(late)
        seconds = early.timestamp()
        if repeated_after < timedelta(0):
            raise ValueError(
                f"{text} does not exist in {self.zone} (clocks went forward); check --timezone"
            )
        ten_minutes = moment.isoformat()[:15] if len(text) == 19 else ""
        if ten_minutes == text[:15]:  # the text has the format that seconds() looks up
            if repeated_after:
                self._repeated_after[ten_minutes] = repeated_after
            offset_s = 60 * (moment.minute % 10) + moment.second
            self._ten_minutes_s[ten_minutes] = seconds - offset_s
        return seconds


def _zone_offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta(0)


def _reading_score(times: Sequence[float], elapsed_s: float | None) -> int:
    """Return how plausible one reading of submit, eligible, start and end is; higher is better.

    It has 2 points if the run time is the elapsed time, and 1 point if the times are in order.
    """
    recorded_times = [time for time in times if not math.isnan(time)]
    run_s = times[3] - times[2]
    score = 0
    if elapsed_s is not None and abs(run_s - elapsed_s) < 1:
        score += 2
    if recorded_times == sorted(recorded_times):
        score += 1
    return score


def _checked_seconds(seconds: float, text: str) -> float:
    if not _EARLIEST_S <= seconds < _LATEST_S:
        raise ValueError(f"{text!r} is not a time from 1970 to 2099")
    return seconds
