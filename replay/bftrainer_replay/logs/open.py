"""Any log, by its content: :func:`open_log` is what every command that takes LOG calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bftrainer.errors import InputFileError, UnknownNameError
from bftrainer_replay.logs import (
    alcf_csv,
    authors_pickle,
    lsf_acct,
    lsf_text,
    pbs,
    slurm_jobcomp,
    slurm_json,
    slurm_sacct,
    swf,
)
from bftrainer_replay.logs.assemble import event_log_of
from bftrainer_replay.logs.event_log import COLUMNS, read_event_log
from bftrainer_replay.logs.first_fit import NOTE, PREFIX
from bftrainer_replay.logs.lines import read_head
from bftrainer_replay.logs.model import EventLog
from bftrainer_replay.logs.source import ImportOptions, Source


@dataclass(frozen=True, slots=True)
class LogFormat:
    """One kind of job log: ``recognises`` its head, ``read`` fills a :class:`Source`."""

    name: str
    title: str
    recognises: Callable[[str], bool]
    read: Callable[[Source], None]


FORMATS = (
    LogFormat("sacct", slurm_sacct.NAME, slurm_sacct.recognises, slurm_sacct.read),
    LogFormat("sacct-json", slurm_json.NAME, slurm_json.recognises, slurm_json.read),
    LogFormat("jobcomp", slurm_jobcomp.NAME, slurm_jobcomp.recognises, slurm_jobcomp.read),
    LogFormat("lsb.acct", lsf_acct.NAME, lsf_acct.recognises, lsf_acct.read),
    LogFormat("bhist", lsf_text.NAME, lsf_text.recognises, lsf_text.read),
    LogFormat("pbs", pbs.NAME, pbs.recognises, pbs.read),
    LogFormat("alcf", alcf_csv.NAME, alcf_csv.recognises, alcf_csv.read),
    LogFormat("swf", swf.NAME, swf.recognises, swf.read),
)
EVENTS, PICKLE = "events", "pickle"
NAMES = (EVENTS, *(each.name for each in FORMATS), PICKLE)


@dataclass(frozen=True, slots=True)
class Opened:
    """A log, what of the file was read and used, and what else to tell the user about how it was read.

    Every row of an event log is used or refused, so its totals say nothing and commands may keep them to themselves.
    """

    log: EventLog
    totals: tuple[str, ...]
    remarks: tuple[str, ...]
    is_event_log: bool = False


def open_log(path: Path, options: ImportOptions | None = None) -> Opened:
    """Read a log of any known format; raises :class:`InputFileError` with file and line."""
    options = options or ImportOptions()
    found = options.format or _recognise(path)
    if found == EVENTS:
        return _events(path, read_event_log(path))
    if found == PICKLE:
        return _events(path, authors_pickle.read(path))
    for each in FORMATS:
        if each.name == found:
            source = Source(path, options)
            each.read(source)
            log = event_log_of(source, each.title)
            return Opened(log, tuple(source.tally.remarks(each.title)), tuple(source.remarks))
    raise UnknownNameError("format", found, NAMES)


def _events(path: Path, log: EventLog) -> Opened:
    """Rows of an event log are all used or refused; names tell whether the nodes were simulated."""
    rows = len(log.events)
    totals = f"{path} is an event log: {rows:,} rows read, {rows:,} used, 0 skipped"
    if any(name.startswith(PREFIX) for event in log.events[:10] for name in event.change.joined):
        source, note = f"{log.source} ({NOTE.partition(':')[0]})", "; ".join(filter(None, (NOTE, log.note)))
        return Opened(replace(log, source=source, note=note), (totals,), (note,), True)
    return Opened(log, (totals,), (log.note,) if log.note else (), True)


def _recognise(path: Path) -> str:
    data = read_head(path)
    if not data:
        raise InputFileError(str(path), "is empty, expected a log")
    if authors_pickle.recognises(path, data):
        return PICKLE
    head = data.decode("utf-8-sig", errors="surrogateescape")
    if "\0" in head:
        raise InputFileError(str(path), f"is not text in UTF-8 and no log of a known format ({', '.join(NAMES)})")
    if head.startswith(",".join(COLUMNS)):
        return EVENTS
    for each in FORMATS:
        if each.recognises(head):
            return each.name
    start = head.split("\n", 1)[0].encode("ascii", "backslashreplace").decode()
    raise InputFileError(
        f"{path}:1", f"{start[:60]!r} begins no log of a known format; --format says which: {', '.join(NAMES)}"
    )
