"""The lines of a table of jobs as records: a job's name or its command may hold line breaks, which
sacct prints as they are.

Lines are joined until the record has all its fields. Where this is not possible, a text holds both
line breaks and delimiters, and lines inside of it may look like jobs: nothing tells them from real
ones, so the log is refused.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer_replay.logs.slurm_columns import Layout

FREE_TEXT = (
    "jobname",
    "comment",
    "admincomment",
    "systemcomment",
    "workdir",
    "submitline",
    "extra",
    "container",
    "wckey",
    "stdin",
    "stdout",
    "stderr",
    "stdinexpanded",
    "stdoutexpanded",
    "stderrexpanded",
)
"""Columns of sacct that hold text of users."""
_MOST_LINES = 10_000
_MOST_CHARACTERS = 1024 * 1024
"""Of a text. sbatch takes scripts of 4 MB, but the kernel no longer arguments than 128 KB."""
_JOB_ID = re.compile(r"\d+(?:[_+].*|\..*)?")


@dataclass
class _Unfinished:
    """The lines of a record so far, of which more are missing."""

    path: Path
    number: int
    text: str
    lines: int = 1


class RecordLines:
    """Joins lines to records, of a table with this layout in which the ``text_columns`` may hold
    line breaks.

    ``joined`` counts the lines that were appended to the one before.
    """

    def __init__(self, layout: Layout, text_columns: tuple[str, ...] = FREE_TEXT) -> None:
        self._layout = layout
        self._fields = len(layout.names)
        places = [place for place, name in enumerate(layout.names) if name in text_columns]
        self._first_text = places[0] if places else None
        self._ends_with_text = bool(places) and places[-1] == self._fields - 1
        self._job_id = layout.names.index("jobid") if "jobid" in layout.names else None
        self._unfinished: _Unfinished | None = None
        self._follows_record = False
        self.joined = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether the next line continues a record."""
        return self._unfinished is not None

    def record(self, path: Path, number: int, line: str) -> tuple[int, str] | None:
        """Take a line; return the record that it completes, with the number of its first line, or
        None if more lines are missing.

        Raises :class:`InputFileError` for lines that cannot be told from jobs.
        """
        if self._unfinished is not None:
            return self._continued(self._unfinished, path, line)
        if len(line) > _MOST_CHARACTERS:  # no part of a text: the reader of records refuses it
            return number, line
        if self._follows_record and self._continues_last_column(line):
            self.joined += 1
            return None
        if self._is_open(line):
            self._unfinished = _Unfinished(path, number, line)
            return None
        self._follows_record = True
        return number, line

    def rest(self) -> tuple[int, str] | None:
        """The record that is unfinished at the end of the log."""
        unfinished, self._unfinished = self._unfinished, None
        return None if unfinished is None else (unfinished.number, unfinished.text)

    def _continued(self, unfinished: _Unfinished, path: Path, line: str) -> tuple[int, str] | None:
        """Append a line to the unfinished record, and return it if it is now complete. Raises
        :class:`InputFileError` if the line cannot belong to it.
        """
        text = f"{unfinished.text}\n{line}"
        unfinished.lines += 1
        if (
            path != unfinished.path
            or unfinished.lines > _MOST_LINES
            or len(text) > _MOST_CHARACTERS
            or self._has_surplus(text)
        ):
            raise InputFileError(
                f"{unfinished.path}:{unfinished.number}", self._problem(unfinished.text)
            )
        unfinished.text = text
        self.joined += 1
        if self._is_open(text):
            return None
        self._unfinished = None
        self._follows_record = True
        return unfinished.number, text

    def _problem(self, text: str) -> str:
        """Say what is wrong with an unfinished record that cannot be completed."""
        if self._layout.delimiter != "|":
            return "has a quote that is not closed, expected the complete table"
        assert self._first_text is not None  # only such records are joined
        column = self._layout.names[self._first_text]
        return (
            f"has {self._count(text)} fields, expected {self._fields}; with line breaks and "
            "bars in a text, other lines of it "
            f"may look like jobs: write the table without the column {column}"
        )

    def _count(self, text: str) -> int:
        return text.count("|") + 1

    def _is_open(self, text: str) -> bool:
        """Whether the record goes on in the next line."""
        if self._layout.delimiter != "|":
            return '"' in text and _has_open_quote(text, self._layout.delimiter)
        if self._first_text is None:
            return False
        return self._first_text < self._count(text) < self._fields

    def _has_surplus(self, text: str) -> bool:
        return self._layout.delimiter == "|" and self._count(text) > self._fields

    def _continues_last_column(self, line: str) -> bool:
        """Return whether the line is no record, but the rest of a text in the last column of the
        one before.
        """
        if (
            not self._ends_with_text
            or self._layout.delimiter != "|"
            or len(line) > _MOST_CHARACTERS
        ):
            return False
        fields = line.split("|", self._fields)
        return len(fields) < self._fields and not self._begins_job(fields)

    def _begins_job(self, fields: list[str]) -> bool:
        """Return whether these may be the first fields of a record that is cut off."""
        if self._job_id is None:
            return len(fields) > 1
        return (
            len(fields) > max(self._job_id, 1)
            and _JOB_ID.fullmatch(fields[self._job_id]) is not None
        )


def _has_open_quote(text: str, delimiter: str) -> bool:
    try:
        for _ in csv.reader([text], delimiter=delimiter, strict=True):
            pass
    except csv.Error as error:
        return "unexpected end of data" in str(error)
    return False
