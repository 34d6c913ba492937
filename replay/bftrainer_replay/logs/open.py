"""Opens a log of any format, recognized by its content. Every command that takes LOG calls
:func:`open_log`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bftrainer.counted import counted
from bftrainer.errors import InputFileError, UnknownNameError, UserError
from bftrainer_replay.limited_file import OnBytes
from bftrainer_replay.logs import (
    alcf_csv,
    dialect,
    lsf_acct,
    lsf_text,
    pbs,
    slurm_columns,
    slurm_jobcomp,
    slurm_json,
    slurm_sacct,
    swf,
)
from bftrainer_replay.logs.assemble import event_log_of
from bftrainer_replay.logs.event_log import COLUMNS, NOTE_COMMENT, UNIT_GPU, read_event_log
from bftrainer_replay.logs.first_fit import NOTE, PREFIX
from bftrainer_replay.logs.jobs import LISTED
from bftrainer_replay.logs.model import EventLog
from bftrainer_replay.logs.source import FORMAT_NAMES, ImportOptions, Source
from bftrainer_replay.text_files import read_head


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A format of job logs: ``recognizes(head)`` says whether the head of a file has this format,
    ``read`` fills a :class:`Source`, and ``dialect`` has the words of the format. ``name`` is the
    value of --format, ``title`` the name in messages.
    """

    name: str
    title: str
    recognizes: Callable[[str], bool]
    read: Callable[[Source], None]
    dialect: dialect.Dialect


FORMATS = (
    LogFormat("sacct", slurm_sacct.NAME, slurm_columns.recognizes, slurm_sacct.read, dialect.SACCT),
    LogFormat("sacct-json", slurm_json.NAME, slurm_json.recognizes, slurm_json.read, dialect.SACCT),
    LogFormat(
        "jobcomp", slurm_jobcomp.NAME, slurm_jobcomp.recognizes, slurm_jobcomp.read, dialect.JOBCOMP
    ),
    LogFormat("lsb.acct", lsf_acct.NAME, lsf_acct.recognizes, lsf_acct.read, dialect.LSF),
    LogFormat("bhist", lsf_text.NAME, lsf_text.recognizes, lsf_text.read, dialect.LSF),
    LogFormat("pbs", pbs.NAME, pbs.recognizes, pbs.read, dialect.PBS),
    LogFormat("alcf", alcf_csv.NAME, alcf_csv.recognizes, alcf_csv.read, dialect.ALCF),
    LogFormat("swf", swf.NAME, swf.recognizes, swf.read, dialect.SWF),
)
TABLE = LogFormat(
    "columns", "a table with --columns", lambda head: False, slurm_sacct.read, dialect.GENERIC
)
"""A table whose columns the user names."""
EVENTS = "events"
_ONE_FILE_FORMATS = (EVENTS, "swf")
"""Formats whose files begin with a state or a header that holds for the rest of this file."""
_SQL_DUMP = re.compile(r"^(?:-- (?:MySQL|MariaDB) dump|INSERT INTO `|CREATE TABLE `)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log, the number of records that were read and used, and remarks on how it was read.

    Every row of an event log is used, or the log is rejected; its totals have no information and
    need not be printed.
    """

    log: EventLog
    totals: tuple[str, ...]
    remarks: tuple[str, ...]
    is_event_log: bool = False


def open_log(
    path: Path, options: ImportOptions | None = None, on_bytes: OnBytes | None = None
) -> OpenedLog:
    """Return the log of a file of any format of :data:`FORMAT_NAMES`, recognized by its content.

    Raises :class:`InputFileError` with file and line. ``on_bytes`` is called with the numbers of
    bytes that are read, for a line of progress.
    """
    options = options or ImportOptions()
    name = _format_name(path, options)
    if name == EVENTS:
        log = read_event_log(path, options.max_bytes, on_bytes=on_bytes)
        return _opened_event_log(path, log)
    log_format = next((entry for entry in (*FORMATS, TABLE) if entry.name == name), None)
    if log_format is None:
        raise UnknownNameError("format", name, FORMAT_NAMES)
    source = Source(path, options, log_format.dialect, on_bytes)
    log_format.read(source)
    _check_skipped(source)
    source.release()
    log = event_log_of(source, log_format.title)
    totals = source.tally.remarks(log_format.title, source.name)
    return OpenedLog(log, tuple(totals), tuple(source.remarks))


def _format_name(path: Path, options: ImportOptions) -> str:
    """Return the name of the format that all files of the log have.

    It is that of the options, or the one that the contents show. Raises :class:`UserError` for
    files of several formats.
    """
    name = _given_format(options) or _format_of(path)
    for other in options.more_files:
        other_name = _given_format(options) or _format_of(other)
        if other_name != name:
            raise UserError(
                f"{other}: is a log of format {other_name}, but {path} is {name}; expected "
                "files of one log"
            )
    if options.more_files and name in _ONE_FILE_FORMATS:
        raise UserError(
            f"{path}: only one file of format {name} is read at a time, got "
            f"{1 + len(options.more_files)}"
        )
    return name


def _given_format(options: ImportOptions) -> str | None:
    """Return the format that --format or, without it, --columns specifies; None if neither does."""
    if options.format:
        return options.format
    if not options.columns:
        return None
    return TABLE.name if "=" in options.columns else "sacct"


def _check_skipped(source: Source) -> None:
    """Raise :class:`UserError` if more records were skipped as bad than --most-bad allows.

    A few skipped records are all listed to the user, and a log without any job is refused with a
    better message later.
    """
    tally, limit = source.tally, source.options.most_bad
    if not tally.used or tally.skipped <= LISTED or tally.bad_share <= limit:
        return
    raise UserError(
        f"{source.path}: {tally.skipped:,} of {counted(tally.skipped + tally.used, 'job')} cannot "
        "be read "
        f"({tally.bad_share:.1%}), so the "
        f"idle share would be wrong; expected at most {limit:.0%}, or "
        f"--most-bad {tally.bad_share + 0.01:.2f}. "
        f"{tally.examples[0]}"
    )


def _opened_event_log(path: Path, log: EventLog) -> OpenedLog:
    """Return an opened event log with its totals.

    If its nodes were simulated, as the prefix of their names tells, the log gets a note on this.
    """
    n_rows = len(log.events)
    totals = f"{path} is an event log: {counted(n_rows, 'row')} read, {n_rows:,} used, 0 skipped"
    is_simulated = any(
        name.startswith(PREFIX) for event in log.events[:10] for name in event.change.joined
    )
    if is_simulated:
        source = f"{log.source} ({NOTE.partition(':')[0]})"
        # A log that was converted by `replay convert` has the note in its first lines.
        note = log.note if NOTE in log.note else "; ".join(filter(None, (NOTE, log.note)))
        log = replace(log, source=source, note=note)
    remarks = (log.note,) if log.note else ()
    return OpenedLog(log, (totals,), remarks, is_event_log=True)


def _format_of(path: Path) -> str:
    """Return the name of a file's format, recognized by its head; raises :class:`InputFileError`.

    For known files that are no logs, the message says how to convert them.
    """
    head_bytes = read_head(path)
    if not head_bytes:
        raise InputFileError(str(path), "is empty, expected a log")
    head = head_bytes.decode("utf-8-sig", errors="surrogateescape")
    # The byte order marks with which UTF-16 text begins.
    if head_bytes[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputFileError(
            str(path),
            f"is UTF-16 text, expected UTF-8; convert it: iconv -f utf-16 -t utf-8 {path}",
        )
    # The first bytes of a zstd file.
    if head_bytes[:4] == b"\x28\xb5\x2f\xfd":
        raise InputFileError(
            str(path),
            f"is compressed by zstd, expected text, gzip, bzip2 or xz; run zstd -d {path}",
        )
    if head.lstrip().startswith("{") and not slurm_json.recognizes(head):
        raise InputFileError(
            str(path),
            "is JSON without a list of jobs; for Slurm, run the sacct command of docs/site-logs.md",
        )
    if _SQL_DUMP.search(head):
        raise InputFileError(
            str(path),
            "is a dump of a database in SQL; read the job table of slurmdbd with "
            "the mysql command of "
            "docs/site-logs.md, or run the sacct command there",
        )
    if "\0" in head:
        raise InputFileError(
            str(path), f"unrecognized log format: not UTF-8 text ({', '.join(FORMAT_NAMES)})"
        )
    if head.startswith((",".join(COLUMNS), " ".join(UNIT_GPU), NOTE_COMMENT)):
        return EVENTS
    for log_format in FORMATS:
        if log_format.recognizes(head):
            return log_format.name
    first_line = head.split("\n", 1)[0].encode("ascii", "backslashreplace").decode()
    raise InputFileError(
        f"{path}:1",
        f"unrecognized log format {first_line[:60]!r}; specify one with --format "
        f"({', '.join(FORMAT_NAMES)})",
    )
