"""The event log: ``time,joined,left`` as .csv or .csv.gz, node names blank-separated, times ISO 8601 without zone.

The first row is the state at the start of the record (usually joins only, or nothing). A recorded log (``bftrainer record``)
has two columns more: ``nodes``, how many the machine has, and ``waiting``, how many nodes the smallest waiting job asks for
(empty: none waits; ``?``: nobody can tell). ``?`` as the only node that left: from there on nothing is known, until the next
row, which is a state again.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from bftrainer.domain.events import PoolChanged
from bftrainer.errors import InputFileError
from bftrainer.system.files import write_atomically
from bftrainer_replay.logs.marks import LogAnnotations, gap_note
from bftrainer_replay.logs.model import OWN_CLOCK, EventLog, PoolEvent

COLUMNS = ["time", "joined", "left"]
RECORDED = [*COLUMNS, "nodes", "waiting"]
UNKNOWN = "?"


def read_event_log(path: Path) -> EventLog:
    """Read and validate a whole log; the first broken rule is an :class:`InputFileError` with file and line."""
    text = _text_of(path)
    if "\0" in text:  # csv refuses it up to Python 3.10, and times are read up to it after that
        raise InputFileError(f"{path}:{text.count(chr(10), 0, text.index(chr(0))) + 1}", "has a NUL, expected text")
    # csv refuses fields of more than 131,072 letters, which is an event of 16,000 nodes.
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    rows = csv.reader(io.StringIO(text, newline=""))
    header = next(rows, None)
    if header is None:
        raise InputFileError(str(path), f"is empty, expected the header {','.join(COLUMNS)}")
    if header not in (COLUMNS, RECORDED):
        raise InputFileError(f"{path}:1", f"columns are {','.join(header)!r:.80}, expected {','.join(COLUMNS)!r}")
    marks = LogAnnotations()
    events = tuple(_events(path, header, rows, marks))
    if not events:
        raise InputFileError(str(path), "has a header and no rows, expected the initial state and its changes")
    gaps, end_s = marks.gaps(events[-1].at_s), events[-1].at_s
    clock = "UTC" if header == RECORDED else OWN_CLOCK
    return EventLog(events, str(path), gap_note(gaps), marks.queue(end_s), marks.machine_nodes, gaps=gaps, clock=clock)


def write_event_log(path: Path, log: EventLog) -> None:
    """Write a log by atomic rename, compressed if its name ends in .gz (equal logs, equal bytes)."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    unknown_from = {start_s for start_s, _ in log.gaps}
    for event in log.events:
        change = event.change
        left = UNKNOWN if event.at_s in unknown_from else " ".join(sorted(change.left))
        writer.writerow([format_time(event.at_s), " ".join(sorted(change.joined)), left])
    data = out.getvalue().encode()
    write_atomically(path, gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)


def parse_time(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 time; without an offset it is taken as it stands (the log's own clock)."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def format_time(at_s: float) -> str:
    """The inverse of :func:`parse_time`, without a zone; whole seconds stay whole."""
    moment = datetime.fromtimestamp(at_s, timezone.utc).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")


def _text_of(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return data.decode()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        problem = f"is a damaged or truncated gzip file ({error}); expected a whole one"
        raise InputFileError(str(path), problem) from error
    except UnicodeDecodeError as error:
        raise InputFileError(str(path), f"is not text in UTF-8 ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error


def _events(path: Path, header: list[str], rows: Iterator[list[str]], marks: LogAnnotations) -> Iterator[PoolEvent]:
    """The rows as events; every rule of the format is checked here, once. ``marks`` gets what is no event."""
    pool: set[str] = set()
    before: tuple[float, str] | None = None
    for line, row in enumerate(rows, start=2):
        where = f"{path}:{line}"
        if len(row) != len(header):
            raise InputFileError(where, f"has {len(row)} fields, expected {len(header)} ({','.join(header)})")
        try:
            at_s = parse_time(row[0])
        except ValueError as error:
            problem = f"time {row[0]!r:.40} is not ISO 8601, expected like 2021-02-10T20:21:15"
            raise InputFileError(where, problem) from error
        if before is not None and at_s <= before[0]:
            raise InputFileError(where, f"time {row[0]} is not after the line before ({before[1]}); times must rise")
        joined, left = row[1].split(), row[2].split()
        marks.add(where, at_s, left == [UNKNOWN], *row[len(COLUMNS) :])
        if left == [UNKNOWN]:
            left = sorted(pool)
            if joined:
                raise InputFileError(where, f"node {joined[0]} joins where nothing is known, expected no node")
        if both := sorted(set(joined).intersection(left)):
            raise InputFileError(where, f"node {both[0]} joins and leaves at once, expected one or the other")
        for name in left:
            if name not in pool:
                raise InputFileError(where, f"node {name} leaves but is not in the pool, expected a join before")
            pool.remove(name)
        stayed = frozenset(pool)
        for name in joined:
            if name in pool:
                what = "joins but is in the pool already" if name in stayed else "joins twice"
                raise InputFileError(where, f"node {name} {what}, expected a leave between two joins")
            pool.add(name)
        before = (at_s, row[0])
        yield PoolEvent(at_s, PoolChanged(frozenset(joined), frozenset(left)))
