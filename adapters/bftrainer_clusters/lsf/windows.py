"""How long hosts are free: the backfill windows of bslots and the advance reservations of brsvs.
Pure.

bslots -l lists, for each length of time, the slots that are free for it, host by host. The window
of a node is the longest one that lists it *with all its slots*. Recorded shapes: ``25 hours 42
minutes 51 seconds`` (Summit), ``6 hours 37 minutes 0 seconds`` with ``HOSTS:`` (COSMA),
``UNLIMITED``.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bftrainer.cluster.model import Reservation
from bftrainer.counted import counted
from bftrainer.errors import SchedulerError
from bftrainer_clusters.lsf.text import says_nothing

_UNITS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_LENGTH = re.compile(r"(\d+) (day|hour|minute|second)s?")
_SLOTS = re.compile(r"(\d+)\*(\S+)")
_RESERVATION_HEADER = ["RSVID", "TYPE", "USER", "NCPUS", "RSV_HOSTS", "TIME_WINDOW"]
_ONCE = re.compile(r"(?:(\d{4})/)?(\d+)/(\d+)/(\d+)/(\d+)-(?:(\d{4})/)?(\d+)/(\d+)/(\d+)/(\d+)")
_WEEKLY = re.compile(r"(?:(\d):)?(\d+):(\d+)-(?:(\d):)?(\d+):(\d+)")
_RESERVED_HOST = re.compile(r"[^:/\s]+:(?:\d+|-)(?:/\d+)?")
_DAY_S, _WEEK_S = 86_400.0, 604_800.0


@dataclass(frozen=True, slots=True)
class BackfillWindow:
    """The slots that are free for ``length_s`` seconds (infinite: UNLIMITED)."""

    length_s: float
    hosts: Mapping[str, int]
    """Number of free slots, by host."""


def parse_length(text: str) -> float:
    """Parse a length of time in seconds: ``1 hours 11 minutes 50 seconds``, ``44 minutes``,
    ``UNLIMITED`` (infinite).
    """
    words = " ".join(text.split())
    if words.upper() == "UNLIMITED":
        return math.inf
    parts = _LENGTH.findall(words) if len(words) <= 200 else []  # the search takes quadratic time
    if not parts or _LENGTH.sub("", words).strip():
        raise SchedulerError(f"bslots: unrecognized RUNTIME {text[:60]!r}")
    return float(sum(int(number) * _UNITS[unit] for number, unit in parts))


def parse_windows(text: str) -> tuple[BackfillWindow, ...]:
    """Parse ``bslots -l``: paragraphs of SLOTS, RUNTIME and HOSTS, whose hosts (``16*n1``) are
    wrapped onto several lines.
    """
    if says_nothing(text):
        return ()
    if not text.endswith("\n"):
        raise SchedulerError(f"bslots: output truncated: ...{text[-60:]!r}")
    paragraphs = re.split(r"^(?=\s*SLOTS:)", text, flags=re.MULTILINE)
    windows = tuple(_parsed_window(paragraph) for paragraph in paragraphs if paragraph.strip())
    if not windows:
        raise SchedulerError(f"bslots -l printed no backfill windows: {text[:60]!r}")
    return windows


def _parsed_window(paragraph: str) -> BackfillWindow:
    """Parse one paragraph of ``bslots -l``. Raises ``SchedulerError`` if its hosts do not have the
    slots that it announces.
    """
    match = re.fullmatch(
        r"\s*SLOTS:\s*(\d+)\s*RUNTIME:([^\n]*)\n\s*HOSTS:(.*)", paragraph, re.DOTALL
    )
    if match is None:
        raise SchedulerError(f"bslots -l: unrecognized output {paragraph.strip()[:80]!r}")
    announced, length, hosts_text = match.groups()
    slots_by_host: dict[str, int] = {}
    for word in hosts_text.split():
        slots_on_host = _SLOTS.fullmatch(word)
        if slots_on_host is None:
            raise SchedulerError(f"bslots lists {word[:60]!r}, expected SLOTS*HOST")
        slots, host = int(slots_on_host[1]), slots_on_host[2]
        slots_by_host[host] = slots_by_host.get(host, 0) + slots
    # Only the sum shows whether the end is missing.
    listed_slots = sum(slots_by_host.values())
    if listed_slots != int(announced):
        raise SchedulerError(
            f"bslots announces {counted(int(announced), 'slot')} and lists {listed_slots}: "
            "output truncated"
        )
    return BackfillWindow(parse_length(length), slots_by_host)


def longest_by_host(
    windows: tuple[BackfillWindow, ...], slots_of: Callable[[str], int]
) -> dict[str, float]:
    """Return, for each host with a window of all its slots, the longest time for which they stay
    free, in seconds. ``slots_of`` returns the number of slots of a host.
    """
    lengths: dict[str, float] = {}
    for window in windows:
        for host, slots in window.hosts.items():
            if slots >= slots_of(host):
                lengths[host] = max(lengths.get(host, 0.0), window.length_s)
    return lengths


def parse_reservations(text: str, now_s: float) -> tuple[Reservation, ...]:
    """Parse ``brsvs -w``: one-time windows ``month/day/hour/minute``, mostly without a year, and
    weekly ones ``day:hour:minute`` with a ``*``.

    Times are in the local time zone; ``now_s`` is the present, in seconds since 1970. A weekly
    reservation becomes its current, or else its next window. Raises ``SchedulerError``.
    """
    if says_nothing(text):
        return ()
    # -w prints blanks around the slash in NCPUS and RSV_HOSTS.
    header, *lines = [re.sub(r" +/ +", "/", line) for line in text.split("\n") if line.strip()] or [
        ""
    ]
    if header.split() != _RESERVATION_HEADER:
        raise SchedulerError(
            f"brsvs printed the header {header[:80]!r}, expected {' '.join(_RESERVATION_HEADER)!r}"
        )
    if not text.endswith("\n"):
        raise SchedulerError(f"the output about reservations is truncated: ...{text[-60:]!r}")
    # Name, (start, end) in seconds since 1970, and hosts of each reservation.
    reservations: list[tuple[str, tuple[float, float], set[str]]] = []
    for line in lines:
        words = line.split()
        hosts = {word.partition(":")[0] for word in words if _RESERVED_HOST.fullmatch(word)}
        if line[0].isspace():  # one more host of the reservation in the line before
            if not reservations or not hosts or len(words) != 1:
                raise SchedulerError(f"brsvs: unrecognized line {line[:80]!r}")
            reservations[-1][2].update(hosts)
            continue
        # A planned reservation (brsvsub) has neither hosts nor a window yet.
        if len(words) in (3, 4):
            continue
        is_weekly = words[-1] == "*"
        n_columns = len(_RESERVATION_HEADER) + (1 if is_weekly else 0)
        if len(words) != n_columns or not hosts:
            raise SchedulerError(f"brsvs: unrecognized line {line[:80]!r}")
        times = _weekly_window(words[5], now_s) if is_weekly else _one_time_window(words[5], now_s)
        reservations.append((words[0], times, hosts))
    return tuple(Reservation(name, *times, frozenset(hosts)) for name, times, hosts in reservations)


def _one_time_window(text: str, now_s: float) -> tuple[float, float]:
    """Parse a one-time window, ``11/24/8/0-11/24/20/0``, into (start, end) in seconds since 1970.
    Without a year, the first such window that is not over is meant.
    """
    match = _ONCE.fullmatch(text)
    if match is None:
        raise SchedulerError(f"brsvs: unrecognized TIME_WINDOW {text[:60]!r}")
    numbers = [int(digits or "0") for digits in match.groups()]
    start_year, end_year = numbers[0], numbers[5]  # 0: not given
    start_date, end_date = numbers[1:5], numbers[6:10]  # month, day, hour, minute
    this_year = time.localtime(now_s).tm_year
    for year in (this_year - 1, this_year, this_year + 1):
        starts_s = _local_seconds(start_year or year, *start_date)
        ends_s = _local_seconds(end_year or start_year or year, *end_date)
        if ends_s < starts_s:  # over New Year's Eve
            ends_s = _local_seconds(year + 1, *end_date)
        # The first that is not over; none lasts a year.
        if ends_s > now_s and starts_s > now_s - 300 * _DAY_S:
            return starts_s, ends_s
    return starts_s, ends_s


def _weekly_window(text: str, now_s: float) -> tuple[float, float]:
    """Parse a weekly or daily window, ``1:8:0-5:18:0`` or ``8:00-18:00``, into (start, end) of the
    window that is open at ``now_s``, or else of the next one, in seconds since 1970.
    """
    match = _WEEKLY.fullmatch(text)
    if match is None:
        raise SchedulerError(f"brsvs: unrecognized TIME_WINDOW {text[:60]!r}")
    start_day, end_day = _weekday(match[1]), _weekday(match[4])
    hour, minute, end_hour, end_minute = (int(match[index]) for index in (2, 3, 5, 6))
    now = time.localtime(now_s)
    today = (now.tm_wday + 1) % 7  # LSF: 0 is Sunday
    offset_days = 0 if start_day is None else start_day - today
    starts_s = _local_seconds(now.tm_year, now.tm_mon, now.tm_mday + offset_days, hour, minute)
    n_days = 0 if start_day is None or end_day is None else (end_day - start_day) % 7
    length_s = n_days * _DAY_S + (end_hour - hour) * 3600.0 + (end_minute - minute) * 60.0
    period_s = _DAY_S if start_day is None else _WEEK_S
    if length_s <= 0:  # it ends on the next day, or in the next week
        length_s += period_s
    # The start of this day or week may be off by some periods, into either direction.
    while starts_s > now_s:
        starts_s -= period_s
    while starts_s + length_s <= now_s:
        starts_s += period_s
    return starts_s, starts_s + length_s


def _weekday(digits: str | None) -> int | None:
    """Parse a day of the week, 0 for Sunday; None means every day."""
    return None if digits is None else int(digits)


def _local_seconds(year: int, month: int, day: int, hour: int, minute: int) -> float:
    """Convert a local time to seconds since 1970. A day outside of its month is in a neighboring
    one.
    """
    if not (1 <= month <= 12 and hour <= 24 and minute < 60):
        raise SchedulerError(f"brsvs: {year}/{month}/{day} {hour}:{minute} is not a time")
    try:
        return time.mktime((year, month, day, hour, minute, 0, 0, 0, -1))
    except (OverflowError, ValueError) as error:
        raise SchedulerError(
            f"brsvs: {year}/{month}/{day} {hour}:{minute} is not a time"
        ) from error
