"""squeue's output as records that no user can forge. Pure.

Slurm accepts any character but NUL in job names and comments: line breaks, bars, lines that look
like another user's job (22.05.8: ``sbatch -J $'a\\nb'``; U+2028, U+0085 and form feed as well).
Three rules keep them harmless. A decision rests on fields that only Slurm writes: ids, users,
states, nodes, times. A format ends with a mark that is drawn at random for each call: only Slurm
can end a record, and an answer without the last mark is truncated. Free text comes last in a
record, after fields without bars.

The format goes to squeue by its environment. The kernel shows the arguments of a process to every
user of the host: another user could read a mark there, and put it into a job's comment before
slurmctld was asked.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from bftrainer.errors import SchedulerError


def new_mark() -> str:
    """Return a mark for one call: 64 random bits in hexadecimal digits."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class MarkedQuery:
    """A squeue whose records end with the mark of this call. ``columns`` is its format without the
    mark.
    """

    argv: tuple[str, ...]
    columns: str
    mark: str = field(default_factory=new_mark)

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment that gives squeue the format, where no ``-o`` is given (22.05.8, 24.11.5,
        26.05.5; not with ``-s``).
        """
        return {"SQUEUE_FORMAT": f"{self.columns}|{self.mark}"}


def parse_records(text: str, mark: str, header: str, what: str) -> list[str]:
    """Split squeue's output into the records after the header, without their marks. ``what`` names
    the records in errors. Raises ``SchedulerError`` if the output is truncated or has another
    header.
    """
    if not text.strip():
        raise SchedulerError(f"Slurm printed nothing about {what}")
    first, *records = text.split(f"|{mark}\n")
    if first != header:
        raise SchedulerError(f"squeue's header is {first[:80]!r}, expected {header!r}")
    # After the last mark nothing follows: any text there is a record without its end.
    if not records or records.pop():
        raise SchedulerError(f"the output about {what} is truncated: ...{text[-60:]!r}")
    return records


def fields_of(record: str, count: int) -> list[str]:
    """Split a record that begins with a job id into ``count`` fields; the last one may contain
    bars. Raises ``SchedulerError`` for fewer fields, and without an id.
    """
    fields = record.split("|", count - 1)
    if len(fields) != count or not is_number(fields[0]):
        raise SchedulerError(f"squeue: record truncated or garbled: {record[:80]!r}")
    return fields


def number(text: str) -> int:
    """Convert a number that Slurm wrote. Raises ``SchedulerError`` for any other text."""
    if not is_number(text):
        raise SchedulerError(f"squeue: expected a number, got {text[:80]!r}")
    return int(text)


def is_number(text: str) -> bool:
    """Return whether this is a number as Slurm writes it; 19 digits hold all of its numbers."""
    return text.isascii() and text.isdecimal() and len(text) < 20
