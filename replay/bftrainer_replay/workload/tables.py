"""Small CSV tables that people write: rows that know their line, so that every complaint has a place."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InputFileError


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One data row; ``where`` is FILE:LINE."""

    where: str
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """A cell that must not be empty."""
        value = self.cells[column].strip()
        if not value:
            raise InputFileError(self.where, f"{column} is missing, expected a value")
        return value

    def number(self, column: str) -> float:
        """A cell that must be a finite number, not negative."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError as error:
            raise InputFileError(self.where, f"{column} is {text!r}, expected a number") from error
        if not math.isfinite(value) or value < 0:
            raise InputFileError(self.where, f"{column} is {text}, expected a finite number that is not negative")
        return value

    def count(self, column: str) -> int:
        """A cell that must be a whole number (``64.0`` is one)."""
        value = self.number(column)
        if value != int(value):
            raise InputFileError(self.where, f"{column} is {value:g}, expected a whole number")
        return int(value)


def read_table(path: Path) -> tuple[list[str], Iterator[CsvRow]]:
    """Header and rows of a CSV file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputFileError(str(path), f"is not text in UTF-8 ({error.reason} at byte {error.start})") from error
    reader = csv.reader(io.StringIO(text, newline=""))
    header = next(reader, None)
    if header is None:
        raise InputFileError(str(path), "is empty, expected a header line")
    header = [column.strip() for column in header]
    if twice := [column for column in header if header.count(column) > 1]:
        raise InputFileError(f"{path}:1", f"column {twice[0]!r} stands twice, expected each once")
    return header, _rows(path, header, reader)


def _rows(path: Path, header: list[str], reader: Iterator[list[str]]) -> Iterator[CsvRow]:
    for line, cells in enumerate(reader, start=2):
        if not cells:
            continue
        where = f"{path}:{line}"
        if len(cells) != len(header):
            raise InputFileError(where, f"has {len(cells)} fields, expected {len(header)} ({','.join(header)})")
        yield CsvRow(where, dict(zip(header, cells, strict=True)))
