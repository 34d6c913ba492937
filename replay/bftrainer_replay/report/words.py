"""Figures in words, rounded as far as they are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from bftrainer_replay.logs.model import LogWindow


def share_text(share: float) -> str:
    """Write a share in whole percent; a rounded figure must not claim all or nothing."""
    if 0.0 < share < 0.005:
        return "under 1%"
    return "over 99%" if 0.995 < share < 1.0 else f"{share:.0%}"


def precise(share: float) -> str:
    """Write a share in whole percent; with a decimal if it is near nothing or all."""
    return f"{share:.1%}" if share < 0.01 or 0.985 < share < 0.9995 else f"{share:.0%}"


def listed(words: Sequence[str]) -> str:
    """Write words as a list: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def three_digits(value: float) -> str:
    """Return a number with three digits as text: no log and no replay knows more."""
    # From here on, three digits round to a million.
    if value >= 999_500:
        return f"{value / 1e6:.3g} million" if value < 999.5e6 else f"{value / 1e6:,.0f} million"
    if value < 100:
        return f"{value:.3g}"
    digits = math.floor(math.log10(value)) - 2
    return f"{round(value, -digits):,.0f}"


def range_text(values: Sequence[float]) -> str:
    """Write the least and the largest value ("18 to 240"), rounded if they differ."""
    smallest, largest = min(values), max(values)
    if smallest == largest:
        return f"{smallest:g}"
    # Two values that are rounded to the same number become one.
    return " to ".join(dict.fromkeys((f"{smallest:.0f}", f"{largest:.0f}")))


def span_text(hours: float) -> str:
    """Write a span in hours or, from two days on, in days."""
    return f"{hours:.3g} hours" if hours < 48 else f"{hours / 24:.3g} days"


def dates(window: LogWindow) -> str:
    """Return the first and last day of a log in its own time zone: "January 1 to 31, 2026"."""
    first, last = (
        datetime.fromtimestamp(at, window.zone or UTC) for at in (window.start_s, window.end_s)
    )
    begin, end = f"{first:%B} {first.day}", f"{last:%B} {last.day}"
    if first.year != last.year:
        return f"{begin}, {first.year} to {end}, {last.year}"
    if first.date() == last.date():
        return f"{begin}, {last.year}"
    if first.month == last.month:
        # The month is not said twice.
        end = str(last.day)
    return f"{begin} to {end}, {last.year}"
