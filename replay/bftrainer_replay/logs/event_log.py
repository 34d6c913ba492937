"""The event log: ``time,joined,left`` as .csv or .csv.gz, node names separated by blanks, times ISO
8601 without a zone.

The first row is the state at the start of the record (usually joins only, or no node). A recorded
log (``bftrainer record``) has two more columns: ``nodes``, the number of nodes of the cluster, and
``waiting``, the number of nodes that the smallest waiting job asks for (empty: no job waits; ``?``:
the site hides jobs). A ``?`` as the only node that left begins a gap: the state is unknown until
the next row, which is a full state again.

A log whose unit is a GPU begins with the comment ``# unit=gpu node:k node:k ...``: all nodes with
their number of GPUs; without a list, they have the most that are idle at once. Its entries are
``node:k``, k GPUs of a node.

The comment ``# note=TEXT`` before the header says what may be wrong in the log from which this one
was converted.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from bftrainer.decide.domain.events import PoolChanged
from bftrainer.errors import InputFileError
from bftrainer.system.files import write_atomically
from bftrainer.system.printable import printable
from bftrainer_replay.csv_tables import csv_bytes
from bftrainer_replay.limited_file import MOST_BYTES, OnBytes
from bftrainer_replay.logs.annotations import LogAnnotations, gap_note
from bftrainer_replay.logs.gpus import counted
from bftrainer_replay.logs.lines import LONGEST_LINE, Lines
from bftrainer_replay.logs.model import OWN_CLOCK, EventLog, GpuFacts, PoolEvent, level

COLUMNS = ["time", "joined", "left"]
RECORDED = [*COLUMNS, "nodes", "waiting"]
UNKNOWN = "?"
UNIT_GPU = ["#", "unit=gpu"]
NOTE_COMMENT = "# note="
LONGEST_NOTE = 4096
"""Characters of a note; the rest is cut."""
MOST_GPUS = 1024
"""Limit for the GPUs of one node."""
NAME_BYTES = 64
"""Memory that a node's name in a row takes once it is read; all together are limited as the content
is.
"""
_EARLIEST_S, _LATEST_S = -62135596800.0, 253402300799.0


def read_event_log(
    path: Path,
    max_bytes: int | None = None,
    *,
    whole_lines_only: bool = False,
    on_bytes: OnBytes | None = None,
) -> EventLog:
    """Read and validate a whole event log of at most ``max_bytes`` bytes; raise
    :class:`InputFileError` at the first violation.

    ``whole_lines_only``: a last line without a newline is not read. ``on_bytes`` is told of the
    bytes that are read.
    """
    # By default csv rejects fields of more than 131,072 characters: an event of 16,000 nodes.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    rows = _rows(Lines(path, max_bytes, on_bytes=on_bytes), whole_lines_only)
    header = next(rows, None)
    if header is None:
        raise InputFileError(str(path), f"is empty, expected the header {','.join(COLUMNS)}")
    idle, line = None, 1
    if header and header[0].split()[:2] == UNIT_GPU:
        idle, line, header = _IdleGpus(_gpus(path, header)), 2, next(rows, [])
    note = ""
    if header and header[0].startswith(NOTE_COMMENT):
        note = printable(",".join(header)[len(NOTE_COMMENT) :])[:LONGEST_NOTE]
        line, header = line + 1, next(rows, [])
    if header not in (COLUMNS, RECORDED):
        raise InputFileError(
            f"{path}:{line}",
            f"columns are {','.join(header)!r:.80}, expected {','.join(COLUMNS)!r}",
        )
    notes = LogAnnotations()
    events = tuple(_events(path, header, rows, notes, max_bytes or MOST_BYTES, line, idle))
    if not events:
        raise InputFileError(
            str(path), "has a header and no rows, expected the initial state and its changes"
        )
    gaps, end_s = notes.gaps(events[-1].at_s), events[-1].at_s
    clock = "UTC" if header == RECORDED else OWN_CLOCK
    log = EventLog(
        events,
        str(path),
        _joined_notes(note, gap_note(gaps)),
        notes.queue(end_s),
        notes.machine_nodes,
        gaps=gaps,
        clock=clock,
    )
    if idle is None:
        return log
    return replace(
        log, queue=None, machine_nodes=sum(idle.per_node.values()), gpus=GpuFacts(idle.per_node)
    )


def _joined_notes(written: str, gaps: str) -> str:
    """The note of the comment and that on gaps, which a log that was converted twice names once."""
    if not gaps or gaps in written:
        return written
    return f"{written}; {gaps}" if written else gaps


def _gpus(path: Path, header: list[str]) -> dict[str, int]:
    """The GPUs of the nodes in the comment."""
    return dict(_counts(f"{path}:1", ",".join(header).split()[2:]))


def _counts(where: str, cells: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Parse cells ``node:k``: yield (node, k), each node once. Raises :class:`InputFileError`."""
    seen: set[str] = set()
    for cell in cells:
        node, _, count = cell.rpartition(":")
        if not node or not (
            count.isascii()
            and count.isdecimal()
            and len(count) <= 4
            and 0 < int(count) <= MOST_GPUS
        ):
            raise InputFileError(
                where, f"{cell!r:.80} is not node:k, expected the GPUs (1 to {MOST_GPUS}) of a node"
            )
        if node in seen:
            raise InputFileError(where, f"node {node:.80} is named twice, expected it once")
        seen.add(node)
        yield node, int(count)


def _rows(lines: Lines, whole_lines_only: bool) -> Iterator[list[str]]:
    """Yield the lines as cells. Each line is checked as it is read: the file is never in memory as
    a whole.
    """
    path, line = lines.path, 1

    def texts() -> Iterator[str]:
        nonlocal line
        for line, text in lines:
            if whole_lines_only and lines.cut:
                return
            if "\0" in text:  # date parsing accepts text up to it
                raise InputFileError(f"{path}:{line}", "has a NUL character, expected text")
            if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
                raise InputFileError(f"{path}:{line}", "is not UTF-8 text")
            yield text

    try:
        yield from csv.reader(texts())
    except csv.Error as error:
        raise InputFileError(f"{path}:{line}", f"is not CSV ({error})") from error


def write_event_log(path: Path, log: EventLog) -> None:
    """Write a log by atomic rename, compressed if its name ends in .gz. Equal logs give equal
    bytes.
    """
    data = csv_bytes(COLUMNS, _cells(log))
    if log.note:
        data = _note_comment(log.note) + data
    if log.gpus is not None:
        data = gpu_comment(log.gpus.per_node) + data
    write_atomically(path, gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)


def _cells(log: EventLog) -> Iterable[Sequence[str]]:
    unknown_from = {start_s for start_s, _ in log.gaps}
    named = sorted if log.gpus is None else words
    for event in log.events:
        change = event.change
        left = UNKNOWN if event.at_s in unknown_from else " ".join(named(change.left))
        yield format_time(event.at_s), " ".join(named(change.joined)), left


def words(gpus: Iterable[str]) -> list[str]:
    """Return ``node:k`` for each node with k of the GPUs in ``names``."""
    return _words(counted(gpus))


def gpu_comment(per_node: Mapping[str, int]) -> bytes:
    """The first line of a log in GPUs."""
    return " ".join([*UNIT_GPU, *_words(per_node)]).encode() + b"\n"


def _note_comment(note: str) -> bytes:
    """The line before the header; quotes would begin a quoted cell of CSV."""
    text = " ".join(note.replace('"', "'").split())[:LONGEST_NOTE]
    return f"{NOTE_COMMENT}{text}\n".encode()


def _words(gpus: Mapping[str, int]) -> list[str]:
    return [f"{node}:{count}" for node, count in sorted(gpus.items())]


@dataclass
class _IdleGpus:
    """Counts the idle GPUs of each node. ``per_node`` is how many each node has; it grows with the
    counts if the log does not list them.
    """

    per_node: dict[str, int]
    count: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._are_listed = bool(self.per_node)

    def change(
        self, where: str, came: Mapping[str, int], went: Mapping[str, int]
    ) -> list[list[str]]:
        """Apply the counts of a row, of GPUs that ``came`` and ``went`` by node; return the names
        of the GPUs that join and of those that leave.
        """
        joined, left = list[str](), list[str]()
        for node, gpus in came.items():
            before = self.count[node]
            self.count[node] += gpus
            limit = self.per_node.get(node, 0) if self._are_listed else MOST_GPUS
            if before + gpus > limit:
                problem = (
                    f"{before + gpus} GPUs of node {node:.80} are idle, expected at most {limit}"
                )
                raise InputFileError(where, problem + " (line 1)" * self._are_listed)
            joined += (level(node, index) for index in range(before, before + gpus))
            self.per_node[node] = max(before + gpus, self.per_node.get(node, 0))
        for node, gpus in went.items():
            after = self.count[node] - gpus
            if after < 0:
                problem = (
                    f"{gpus} GPUs of node {node:.80} leave, expected at most the "
                    f"{after + gpus} that are idle"
                )
                raise InputFileError(where, problem)
            self.count[node] = after
            left += (level(node, index) for index in range(after, after + gpus))
        return [joined, left]


def parse_time(text: str) -> float:
    """Parse an ISO 8601 time as seconds since 1970. A time without an offset counts as UTC (the
    log's own clock).
    """
    moment = datetime.fromisoformat(text)
    at_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not _EARLIEST_S <= at_s <= _LATEST_S:  # an offset can lead out of the calendar
        raise ValueError(f"{text!r} is not within the years 1 to 9999")
    return at_s


def format_time(at_s: float, zone: tzinfo | None = None) -> str:
    """Write seconds since 1970 as an ISO 8601 time without a zone, the inverse of
    :func:`parse_time`; milliseconds are written only where there are any.

    ``zone`` is for readers only: the local time of the hour that is repeated in autumn stands for
    two.
    """
    moment = datetime.fromtimestamp(at_s, zone or UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")


def _events(
    path: Path,
    header: list[str],
    rows: Iterator[list[str]],
    notes: LogAnnotations,
    max_bytes: int,
    header_line: int,
    idle: _IdleGpus | None,
) -> Iterator[PoolEvent]:
    """Yield the rows as events. Every rule of the format is checked here, once; gaps, sizes and
    waiting jobs go to ``notes``.
    """
    pool: set[str] = set()
    names: dict[str, str] = {}
    room = max_bytes // NAME_BYTES
    previous: tuple[float, str] | None = None
    for line, row in enumerate(rows, start=header_line + 1):
        where = f"{path}:{line}"
        at_s = _row_time(where, header, row, previous)
        cells = [cell.split() for cell in row[1:3]]
        gpus = None
        if idle is not None and cells[1] != [UNKNOWN]:
            gpus = [dict(_counts(where, cell)) for cell in cells]
        room -= _names_in(cells, gpus)
        if room < 0:
            raise InputFileError(
                where,
                f"the nodes of all rows take more than {max_bytes:,} bytes; --max-bytes sets "
                "another limit",
            )
        if gpus is not None and idle is not None:
            cells = idle.change(where, *gpus)
        elif idle is not None:
            idle.count.clear()
        joined, left = (tuple(names.setdefault(name, name) for name in cell) for cell in cells)
        notes.add(where, at_s, left == (UNKNOWN,), *row[len(COLUMNS) :])
        if left == (UNKNOWN,):
            left = tuple(sorted(pool))
            _check_gap(where, joined)
        change = _change(where, pool, joined, left)
        pool -= change.left
        pool |= change.joined
        previous = (at_s, row[0])
        yield PoolEvent(at_s, change)


def _row_time(
    where: str, header: list[str], row: list[str], previous: tuple[float, str] | None
) -> float:
    """Return the time of a row; raise :class:`InputFileError` if fields are missing or it is not
    later than ``previous``, the (time, text) of the row before.
    """
    if len(row) != len(header):
        raise InputFileError(
            where, f"has {len(row)} fields, expected {len(header)} ({','.join(header)})"
        )
    try:
        at_s = parse_time(row[0])
    except (ValueError, OverflowError) as error:
        problem = f"time {row[0]!r:.40} is not ISO 8601, expected a time like 2021-02-10T20:21:15"
        raise InputFileError(where, problem) from error
    if previous is not None and at_s <= previous[0]:
        raise InputFileError(
            where, f"time {row[0]} is not later than {previous[1]} on the previous line"
        )
    return at_s


def _names_in(cells: Sequence[Sequence[str]], gpus: Sequence[Mapping[str, int]] | None) -> int:
    """Return how many names of nodes, or of GPUs, a row adds to memory; an empty cell counts as
    one.
    """
    if gpus is None:
        return sum(max(len(cell), 1) for cell in cells)
    return sum(sum(counts.values()) for counts in gpus)


def _check_gap(where: str, joined: Sequence[str]) -> None:
    """Refuse nodes that join where the state becomes unknown."""
    if joined:
        problem = f"node {joined[0]:.80} joins at the start of a gap, expected no joins there"
        raise InputFileError(where, problem)


def _change(where: str, pool: Set[str], joined: Sequence[str], left: Sequence[str]) -> PoolChanged:
    """Return the change of the pool in a row.

    Raises :class:`InputFileError` if it cannot be: a node that joins and leaves, leaves without
    being there, joins while it is there, or is named twice.
    """
    arrivals, departures = frozenset(joined), frozenset(left)
    if both := arrivals & departures:
        raise InputFileError(
            where,
            f"node {min(both):.80} joins and leaves in one row, expected one or the other",
        )
    if strange := [name for name in left if name not in pool]:
        problem = f"node {strange[0]:.80} leaves but is not in the pool, expected an earlier join"
        raise InputFileError(where, problem)
    if present := [name for name in joined if name in pool]:
        problem = (
            f"node {present[0]:.80} joins but is already in the pool, expected a leave "
            "between two joins"
        )
        raise InputFileError(where, problem)
    if len(arrivals) < len(joined) or len(departures) < len(left):
        counts = Counter((*joined, *left))
        again = next(name for name, count in counts.items() if count > 1)
        verb = "joins" if again in arrivals else "leaves"
        raise InputFileError(where, f"node {again:.80} {verb} twice, expected it once in a row")
    return PoolChanged(arrivals, departures)
