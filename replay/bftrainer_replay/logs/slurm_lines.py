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
"""Limit for the text of a record. sbatch accepts scripts of 4 MB, but the kernel limits an argument
to 128 KB.
"""
_JOB_ID = re.compile(r"\d+(?:[_+].*|\..*)?")


@dataclass
class _Unfinished:
    """The first lines of a record that is still incomplete: their text, their count, and the number
    of the first.
    """

    path: Path
    number: int
    text: str
    lines: int = 1


class RecordLines:
    """Joins the lines of a table to records. ``layout`` has the columns of the table, of which the
    ``text_columns`` may hold line breaks.

    ``joined`` counts the lines that were joined to the line before.
    """

    def __init__(self, layout: Layout, text_columns: tuple[str, ...] = FREE_TEXT) -> None:
        """Work out from the layout which columns may hold line breaks; no line is read yet."""
        self._layout = layout
        self._n_fields = len(layout.names)
        text_indices = [k for k, name in enumerate(layout.names) if name in text_columns]
        self._first_text = text_indices[0] if text_indices else None
        self._ends_with_text = bool(text_indices) and text_indices[-1] == self._n_fields - 1
        self._job_id = layout.names.index("jobid") if "jobid" in layout.names else None
        self._unfinished: _Unfinished | None = None
        self._follows_record = False  # a complete record precedes the next line
        self.joined = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether the next line continues a record."""
        return self._unfinished is not None

    def record(self, path: Path, number: int, line: str) -> tuple[int, str] | None:
        """Take a line; return the record that it completes, or None if more lines are missing.

        A record is (number of its first line, text). Raises :class:`InputFileError` for lines of a
        text that may look like jobs.
        """
        if self._unfinished is not None:
            return self._append_line(self._unfinished, path, line)
        if len(line) > _MOST_CHARACTERS:
            return number, line  # too long for a part of a text: the reader of records refuses it
        if self._follows_record and self._continues_last_column(line):
            self.joined += 1
            return None
        if self._is_open(line):
            self._unfinished = _Unfinished(path, number, line)
            return None
        self._follows_record = True
        return number, line

    def rest(self) -> tuple[int, str] | None:
        """Return the record that is unfinished at the end of the log, with the number of its first
        line; None if there is none.
        """
        unfinished, self._unfinished = self._unfinished, None
        return None if unfinished is None else (unfinished.number, unfinished.text)

    def _append_line(
        self, unfinished: _Unfinished, path: Path, line: str
    ) -> tuple[int, str] | None:
        """Append a line to the unfinished record; return the record if it is now complete, else
        None.

        Raises :class:`InputFileError` if the line cannot belong to the record.
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
                f"{unfinished.path}:{unfinished.number}", self._unfinished_problem(unfinished.text)
            )
        unfinished.text = text
        self.joined += 1
        if self._is_open(text):
            return None
        self._unfinished = None
        self._follows_record = True
        return unfinished.number, text

    def _unfinished_problem(self, text: str) -> str:
        """Return what is wrong with an unfinished record that no line completes; ``text`` was read
        of it.
        """
        if self._layout.delimiter != "|":
            return "has a quote that is not closed, expected the complete table"
        assert self._first_text is not None  # only such records are joined
        column = self._layout.names[self._first_text]
        return (
            f"has {self._field_count(text)} fields, expected {self._n_fields}; "
            "with line breaks and "
            "bars in a text, other lines of it "
            f"may look like jobs: write the table without the column {column}"
        )

    def _field_count(self, text: str) -> int:
        """Return the number of fields in a text between bars."""
        return text.count("|") + 1

    def _is_open(self, text: str) -> bool:
        """Return whether the record goes on in the next line.

        In CSV, it does within quotes; between bars, if it breaks off within or after the first
        column of text.
        """
        if self._layout.delimiter != "|":
            return '"' in text and _has_open_quote(text, self._layout.delimiter)
        if self._first_text is None:
            return False
        return self._first_text < self._field_count(text) < self._n_fields

    def _has_surplus(self, text: str) -> bool:
        return self._layout.delimiter == "|" and self._field_count(text) > self._n_fields

    def _continues_last_column(self, line: str) -> bool:
        """Return whether the line is no record, but the rest of a text in the last column of the
        record before it.

        Such a record is complete before its text ends, so that only the next line can tell.
        """
        if (
            not self._ends_with_text
            or self._layout.delimiter != "|"
            or len(line) > _MOST_CHARACTERS
        ):
            return False
        fields = line.split("|", self._n_fields)
        return len(fields) < self._n_fields and not self._begins_job(fields)

    def _begins_job(self, fields: list[str]) -> bool:
        """Return whether these fields may be the first ones of a record that is cut off."""
        if self._job_id is None:
            return len(fields) > 1
        return (
            len(fields) > max(self._job_id, 1)
            and _JOB_ID.fullmatch(fields[self._job_id]) is not None
        )


def _has_open_quote(text: str, delimiter: str) -> bool:
    """Whether a text ends within a quoted field."""
    try:
        for _ in csv.reader([text], delimiter=delimiter, strict=True):
            pass
    except csv.Error as error:
        return "unexpected end of data" in str(error)
    return False
