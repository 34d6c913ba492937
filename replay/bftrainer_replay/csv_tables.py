"""CSV tables: how they are written, and rows that know their line, so that every error message has
a place.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bftrainer.errors import InputFileError, InvalidValueError
from bftrainer.system.printable import printable
from bftrainer_replay.text_files import read_text

MAX_COLUMNS = 10_000
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One data row: its cells by column, and its place in the file, ``where`` (FILE:LINE). All
    methods raise :class:`InputFileError`.
    """

    where: str
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """Return a cell without blanks around it; it must not be empty."""
        value = self.cells[column].strip()
        if not value:
            raise InputFileError(self.where, f"{column} is missing, expected a value")
        return value

    def number(self, column: str) -> float:
        """Read a cell that must be a finite number, 0 or more."""
        return self._parsed(number, column)

    def count(self, column: str) -> int:
        """Read a cell that must be a whole number (``64.0`` is one)."""
        return self._parsed(count, column)

    def _parsed(self, parse: Callable[[Mapping[str, str], str], _Number], column: str) -> _Number:
        """Return ``parse(cells, column)``, with the place of the row in its errors."""
        self.text(column)  # an empty cell has an error of its own
        try:
            return parse(self.cells, column)
        except InvalidValueError as error:
            raise InputFileError(self.where, str(error)) from error


def csv_bytes(header: Sequence[object], rows: Iterable[Sequence[object]]) -> bytes:
    """Write a table as a CSV file in UTF-8 with plain line feeds, the same bytes on any machine."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue().encode()


def read_table(path: Path) -> tuple[list[str], Iterator[CsvRow]]:
    """Return the header of a CSV file, and an iterator over its rows, which are read as it
    advances.

    Both raise :class:`InputFileError`.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        header = next(reader, None)
    except csv.Error as error:
        raise InputFileError(f"{path}:1", f"is not CSV ({error})") from error
    if header is None:
        raise InputFileError(str(path), "is empty, expected a header line")
    if len(header) > MAX_COLUMNS:
        raise InputFileError(
            f"{path}:1", f"has {len(header):,} columns, expected at most {MAX_COLUMNS:,}"
        )
    header = [column.strip() for column in header]
    if duplicates := [column for column in header if header.count(column) > 1]:
        raise InputFileError(f"{path}:1", f"duplicate column {duplicates[0]!r:.60}")
    return header, _rows(path, header, reader)


def _rows(path: Path, header: list[str], reader: Iterator[list[str]]) -> Iterator[CsvRow]:
    """Yield the rows; raises :class:`InputFileError` for one with another number of fields than the
    header.
    """
    line = 1
    try:
        for line, cells in enumerate(reader, start=2):
            if not cells:
                continue
            where = f"{path}:{line}"
            if len(cells) != len(header):
                expected = f"{len(header)} ({printable(','.join(header)):.300})"
                raise InputFileError(where, f"has {len(cells)} fields, expected {expected}")
            yield CsvRow(where, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise InputFileError(f"{path}:{line + 1}", f"is not CSV ({error})") from error


def number(
    cells: Mapping[str, str], column: str, least: float = 0.0, limit: float = math.inf
) -> float:
    """Return a cell as a finite number, at least ``least`` and below ``limit``.

    Raises :class:`InvalidValueError`, which names the column.
    """
    text = cells[column].strip()
    try:
        value = float(text)
    except ValueError as error:
        raise InvalidValueError(f"{column} is {text!r:.40}, expected a number") from error
    if not (math.isfinite(value) and least <= value < limit):
        raise InvalidValueError(
            f"{column} is {text:.40}, expected a finite number of {least:g} or more"
        )
    return value


def count(cells: Mapping[str, str], column: str, least: int = 0, limit: float = math.inf) -> int:
    """Read a cell that must be a whole number (``20.0`` is one), with the limits and errors of
    :func:`number`.
    """
    value = number(cells, column, least, limit)
    if value != int(value):
        raise InvalidValueError(f"{column} is {value:g}, expected a whole number")
    return int(value)
