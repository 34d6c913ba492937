"""How the commands print: text, tables, JSON lines, times.

Everything that reaches a terminal passes here. Text that others wrote (logs of trainers, comments
of other users, names in files) may contain terminal escapes and line breaks; they are shown as
escapes. JSON stays exact.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import click

from bftrainer.counted import counted as counted
from bftrainer.system.printable import printable

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line."
)
"""``--json``."""


def note(text: str) -> None:
    """Print on stderr what the user should know beside the result."""
    say(f"note: {text}", err=True)


def say(
    text: str = "",
    *,
    err: bool = False,
    nl: bool = True,
    keep: str = "\n",
    color: str | None = None,
    colored: int = 0,
    bold: bool = False,
) -> None:
    """Print text, on stderr with ``err``, with a line end unless ``nl`` is False.

    Control characters are shown as escapes, but for those in ``keep``. On a terminal, the first
    ``colored`` characters have a ``color``, and may be ``bold``.
    """
    head, rest = printable(text[:colored], keep), printable(text[colored:], keep)
    click.echo((click.style(head, fg=color, bold=bold) if head else "") + rest, err=err, nl=nl)


def show_json(rows: Sequence[dict[str, object]]) -> None:
    """Print one object per line."""
    for row in rows:
        click.echo(json.dumps(row))  # ASCII: control characters are escapes of JSON


def clock_time(at_s: float | None, form: str = "%m-%d %H:%M:%S") -> str:
    """Return a time as local time, to the second; a dash for None, an event that has not
    happened.
    """
    return "-" if at_s is None else datetime.fromtimestamp(at_s).astimezone().strftime(form)


def hours(node_s: float) -> str:
    """Node-hours."""
    return f"{node_s / 3600:,.2f}"


def number(value: float) -> str:
    """Return a number with three digits and a unit: 950, 1.23k, 45.6M."""
    for unit in ("", "k", "M", "G", "T"):
        if abs(value) < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1000
    # The largest unit has more digits rather than an exponent.
    return f"{value:.3g}P" if abs(value) < 999.5 else f"{value:.0f}P"


def length(seconds: float) -> str:
    """Return a duration as text: ``45 s``, ``12 min``, ``3 h 05``, ``2 d 03 h``."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d}"
    return f"{minutes // 1440} d {minutes % 1440 // 60:02d} h"
