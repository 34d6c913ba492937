"""The event log: ``time,joined,left`` as .csv or .csv.gz, node names separated by blanks, times ISO 8601 without a zone.

The first row is the state at the start of the record (usually joins only, or no node). A recorded log (``bftrainer record``)
has two more columns: ``nodes``, the number of nodes of the cluster, and ``waiting``, the number of nodes that the smallest
waiting job asks for (empty: no job waits; ``?``: the site hides jobs). A ``?`` as the only node that left begins a gap: the
state is unknown until the next row, which is a full state again.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone, tzinfo
from pathlib import Path

from bftrainer.domain.events import PoolChanged
from bftrainer.errors import InputFileError
from bftrainer.system.files import write_atomically
from bftrainer_replay.csv_tables import csv_bytes
from bftrainer_replay.limited_file import MOST_BYTES
from bftrainer_replay.logs.annotations import LogAnnotations, gap_note
from bftrainer_replay.logs.lines import LONGEST_LINE, Lines
from bftrainer_replay.logs.model import OWN_CLOCK, EventLog, PoolEvent

COLUMNS = ["time", "joined", "left"]
RECORDED = [*COLUMNS, "nodes", "waiting"]
UNKNOWN = "?"
NAME_BYTES = 64
"""Memory that a node's name in a row takes once it is read; all together are limited as the content is."""
_EARLIEST_S, _LATEST_S = -62135596800.0, 253402300799.0


def read_event_log(path: Path, most: int | None = None) -> EventLog:
    """Read and validate a whole log of at most ``most`` bytes. The first violation raises :class:`InputFileError`."""
    # By default csv rejects fields of more than 131,072 characters: an event of 16,000 nodes.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    rows = _rows(path, most)
    header = next(rows, None)
    if header is None:
        raise InputFileError(str(path), f"is empty, expected the header {','.join(COLUMNS)}")
    if header not in (COLUMNS, RECORDED):
        raise InputFileError(f"{path}:1", f"columns are {','.join(header)!r:.80}, expected {','.join(COLUMNS)!r}")
    notes = LogAnnotations()
    events = tuple(_events(path, header, rows, notes, most or MOST_BYTES))
    if not events:
        raise InputFileError(str(path), "has a header and no rows, expected the initial state and its changes")
    gaps, end_s = notes.gaps(events[-1].at_s), events[-1].at_s
    clock = "UTC" if header == RECORDED else OWN_CLOCK
    return EventLog(events, str(path), gap_note(gaps), notes.queue(end_s), notes.machine_nodes, gaps=gaps, clock=clock)


def _rows(path: Path, most: int | None) -> Iterator[list[str]]:
    """The lines as cells. Each line is checked as it is read: the file is never in memory as a whole."""
    line = 1

    def texts() -> Iterator[str]:
        nonlocal line
        for line, text in Lines(path, most):
            if "\0" in text:  # csv rejects it up to Python 3.10; date parsing accepts text up to it
                raise InputFileError(f"{path}:{line}", "has a NUL character, expected text")
            if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
                raise InputFileError(f"{path}:{line}", "is not UTF-8 text")
            yield text

    try:
        yield from csv.reader(texts())
    except csv.Error as error:
        raise InputFileError(f"{path}:{line}", f"is not CSV ({error})") from error


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
    at_s = (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    if not _EARLIEST_S <= at_s <= _LATEST_S:  # an offset can lead out of the calendar
        raise ValueError(f"{text!r} is not within the years 1 to 9999")
    return at_s


def format_time(at_s: float, zone: tzinfo | None = None) -> str:
    """The inverse of :func:`parse_time`, without a zone; milliseconds are written only where there are any.

    ``zone`` is for readers only: the local time of the hour that is repeated in autumn stands for two.
    """
    moment = datetime.fromtimestamp(at_s, zone or timezone.utc).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")


def _events(
    path: Path, header: list[str], rows: Iterator[list[str]], notes: LogAnnotations, most: int
) -> Iterator[PoolEvent]:
    """The rows as events. Every rule of the format is checked here, once; annotations go to ``notes``."""
    pool: set[str] = set()
    names: dict[str, str] = {}
    room = most // NAME_BYTES
    before: tuple[float, str] | None = None
    for line, row in enumerate(rows, start=2):
        where = f"{path}:{line}"
        if len(row) != len(header):
            raise InputFileError(where, f"has {len(row)} fields, expected {len(header)} ({','.join(header)})")
        try:
            at_s = parse_time(row[0])
        except (ValueError, OverflowError) as error:
            problem = f"time {row[0]!r:.40} is not ISO 8601, expected a time like 2021-02-10T20:21:15"
            raise InputFileError(where, problem) from error
        if before is not None and at_s <= before[0]:
            raise InputFileError(where, f"time {row[0]} is not later than {before[1]} on the previous line")
        named = sum(cell.count(" ") + 1 for cell in row[1:3])
        room -= named
        if room < 0:
            raise InputFileError(
                where, f"the nodes of all rows take more than {most:,} bytes; --max-bytes sets another limit"
            )
        joined, left = (tuple(names.setdefault(name, name) for name in cell.split()) for cell in row[1:3])
        notes.add(where, at_s, left == (UNKNOWN,), *row[len(COLUMNS) :])
        if left == (UNKNOWN,):
            left = tuple(sorted(pool))
            if joined:
                problem = f"node {joined[0]:.80} joins at the start of a gap, expected no joins there"
                raise InputFileError(where, problem)
        comes, goes = frozenset(joined), frozenset(left)
        if both := comes & goes:
            raise InputFileError(where, f"node {min(both):.80} joins and leaves in one row, expected one or the other")
        if strange := [name for name in left if name not in pool]:
            problem = f"node {strange[0]:.80} leaves but is not in the pool, expected an earlier join"
            raise InputFileError(where, problem)
        if twice := [name for name in joined if name in pool]:
            problem = f"node {twice[0]:.80} joins but is already in the pool, expected a leave between two joins"
            raise InputFileError(where, problem)
        if len(comes) < len(joined) or len(goes) < len(left):
            again = next(name for name, count in Counter(joined + left).items() if count > 1)
            what = "joins" if again in comes else "leaves"
            raise InputFileError(where, f"node {again:.80} {what} twice, expected it once in a row")
        pool -= goes
        pool |= comes
        before = (at_s, row[0])
        yield PoolEvent(at_s, PoolChanged(comes, goes))
