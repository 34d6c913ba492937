"""The event log: ``time,joined,left`` as .csv or .csv.gz, node names separated by blanks, times ISO 8601 without a zone.

The first row is the state at the start of the record (usually joins only, or no node). A recorded log (``bftrainer record``)
has two more columns: ``nodes``, the number of nodes of the cluster, and ``waiting``, the number of nodes that the smallest
waiting job asks for (empty: no job waits; ``?``: the site hides jobs). A ``?`` as the only node that left begins a gap: the
state is unknown until the next row, which is a full state again.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from bftrainer.domain.events import PoolChanged
from bftrainer.errors import InputFileError
from bftrainer.system.files import write_atomically
from bftrainer_replay.csv_tables import csv_bytes
from bftrainer_replay.logs.annotations import LogAnnotations, gap_note
from bftrainer_replay.logs.model import OWN_CLOCK, EventLog, PoolEvent
from bftrainer_replay.text_files import read_text

COLUMNS = ["time", "joined", "left"]
RECORDED = [*COLUMNS, "nodes", "waiting"]
UNKNOWN = "?"


def read_event_log(path: Path) -> EventLog:
    """Read and validate a whole log. The first violation raises an :class:`InputFileError` with file and line."""
    text = read_text(path)
    # By default csv rejects fields of more than 131,072 characters: an event of 16,000 nodes.
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    rows = csv.reader(io.StringIO(text, newline=""))
    header = next(rows, None)
    if header is None:
        raise InputFileError(str(path), f"is empty, expected the header {','.join(COLUMNS)}")
    if header not in (COLUMNS, RECORDED):
        raise InputFileError(f"{path}:1", f"columns are {','.join(header)!r:.80}, expected {','.join(COLUMNS)!r}")
    notes = LogAnnotations()
    events = tuple(_events(path, header, rows, notes))
    if not events:
        raise InputFileError(str(path), "has a header and no rows, expected the initial state and its changes")
    gaps, end_s = notes.gaps(events[-1].at_s), events[-1].at_s
    clock = "UTC" if header == RECORDED else OWN_CLOCK
    return EventLog(events, str(path), gap_note(gaps), notes.queue(end_s), notes.machine_nodes, gaps=gaps, clock=clock)


def write_event_log(path: Path, log: EventLog) -> None:
    """Write a log by atomic rename, compressed if its name ends in .gz. Equal logs give equal bytes."""
    data = csv_bytes(COLUMNS, _cells(log))
    write_atomically(path, gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)


def _cells(log: EventLog) -> Iterable[Sequence[str]]:
    unknown_from = {start_s for start_s, _ in log.gaps}
    for event in log.events:
        change = event.change
        left = UNKNOWN if event.at_s in unknown_from else " ".join(sorted(change.left))
        yield format_time(event.at_s), " ".join(sorted(change.joined)), left


def parse_time(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 time. Without an offset, the time counts as UTC (the log's own clock)."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def format_time(at_s: float) -> str:
    """The inverse of :func:`parse_time`, without a zone; milliseconds are written only where there are any."""
    moment = datetime.fromtimestamp(at_s, timezone.utc).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")


def _events(path: Path, header: list[str], rows: Iterator[list[str]], notes: LogAnnotations) -> Iterator[PoolEvent]:
    """The rows as events. Every rule of the format is checked here, once; annotations go to ``notes``."""
    pool: set[str] = set()
    before: tuple[float, str] | None = None
    for line, row in enumerate(rows, start=2):
        where = f"{path}:{line}"
        if len(row) != len(header):
            raise InputFileError(where, f"has {len(row)} fields, expected {len(header)} ({','.join(header)})")
        try:
            at_s = parse_time(row[0])
        except ValueError as error:
            problem = f"time {row[0]!r:.40} is not ISO 8601, expected a time like 2021-02-10T20:21:15"
            raise InputFileError(where, problem) from error
        if before is not None and at_s <= before[0]:
            raise InputFileError(where, f"time {row[0]} is not later than {before[1]} on the previous line")
        joined, left = row[1].split(), row[2].split()
        notes.add(where, at_s, left == [UNKNOWN], *row[len(COLUMNS) :])
        if left == [UNKNOWN]:
            left = sorted(pool)
            if joined:
                raise InputFileError(where, f"node {joined[0]} joins at the start of a gap, expected no joins there")
        if both := sorted(set(joined).intersection(left)):
            raise InputFileError(where, f"node {both[0]} joins and leaves in one row, expected one or the other")
        for name in left:
            if name not in pool:
                raise InputFileError(where, f"node {name} leaves but is not in the pool, expected an earlier join")
            pool.remove(name)
        stayed = frozenset(pool)
        for name in joined:
            if name in pool:
                what = "joins but is already in the pool" if name in stayed else "joins twice"
                raise InputFileError(where, f"node {name} {what}, expected a leave between two joins")
            pool.add(name)
        before = (at_s, row[0])
        yield PoolEvent(at_s, PoolChanged(frozenset(joined), frozenset(left)))
