"""CSV rows of a trace or profile, with their lines."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bftrainer.errors import InvalidValueError
from bftrainer_replay.workload.traces.texts import Text

Cells = dict[str, str]
_MOST = 1e15


def header_of(text: Text) -> list[str]:
    """The columns; empty where the first line is none."""
    return [column.strip() for column in text.text.partition("\n")[0].strip().split(",")]


def rows_of(text: Text) -> Iterator[tuple[int, Cells | str]]:
    """(line, cells by column), or (line, what is wrong with it); blank lines are none.

    None of these files needs quotes, so a line is a record: a stray quote cannot swallow the lines after it.
    """
    header = header_of(text)
    for line, content in enumerate(text.text.split("\n")[1:], start=2):
        cells = content.rstrip("\r").split(",")
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            yield line, f"has {len(cells)} fields, expected {len(header)} ({','.join(header)!r:.80})"
        else:
            yield line, dict(zip(header, cells, strict=True))


def number(cells: Cells, column: str, least: float = 0.0) -> float:
    """A cell that must be a finite number of at least ``least``; raises :class:`InvalidValueError`."""
    text = cells[column].strip()
    try:
        value = float(text)
    except ValueError as error:
        raise InvalidValueError(f"{column} is {text!r:.40}, expected a number") from error
    if not (math.isfinite(value) and least <= value < _MOST):
        raise InvalidValueError(f"{column} is {text:.40}, expected a number of {least:g} or more")
    return value


def count(cells: Cells, column: str, least: int = 1) -> int:
    """A cell that must be a whole number (``20.0`` is one)."""
    value = number(cells, column, least)
    if value != int(value):
        raise InvalidValueError(f"{column} is {value:g}, expected a whole number")
    return int(value)
