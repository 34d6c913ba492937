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
"""Memory of a node's name in a row that has been read. The names of all rows together may take as
many bytes as the content of the file.
"""
_EARLIEST_S, _LATEST_S = -62135596800.0, 253402300799.0


def read_event_log(
    path: Path,
    max_bytes: int | None = None,
    *,
    whole_lines_only: bool = False,
    on_bytes: OnBytes | None = None,
) -> EventLog:
    """Return the event log of a file, checked by every rule of the format.

    The file may have ``max_bytes`` bytes; raises :class:`InputFileError` at the first violation.
    ``whole_lines_only``: a last line without a newline is not read. ``on_bytes`` is called with the
    numbers of bytes that are read, for a line of progress.
    """
    # By default csv rejects fields of more than 131,072 characters: an event of 16,000 nodes.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    rows = _read_rows(Lines(path, max_bytes, on_bytes=on_bytes), whole_lines_only)
    header = next(rows, None)
    if header is None:
        raise InputFileError(str(path), f"is empty, expected the header {','.join(COLUMNS)}")
    idle_gpus = None
    header_line = 1
    if header and header[0].split()[:2] == UNIT_GPU:
        idle_gpus = _IdleGpus(_gpus_in_comment(path, header))
        header_line, header = 2, next(rows, [])
    note = ""
    if header and header[0].startswith(NOTE_COMMENT):
        note = printable(",".join(header)[len(NOTE_COMMENT) :])[:LONGEST_NOTE]
        header_line, header = header_line + 1, next(rows, [])
    if header not in (COLUMNS, RECORDED):
        raise InputFileError(
            f"{path}:{header_line}",
            f"columns are {','.join(header)!r:.80}, expected {','.join(COLUMNS)!r}",
        )
    annotations = LogAnnotations()
    most_bytes = max_bytes or MOST_BYTES
    events = tuple(
        _parse_events(path, header, rows, annotations, most_bytes, header_line, idle_gpus)
    )
    if not events:
        raise InputFileError(
            str(path), "has a header and no rows, expected the initial state and its changes"
        )
    end_s = events[-1].at_s
    gaps = annotations.gaps(end_s)
    log = EventLog(
        events=events,
        source=str(path),
        note=_joined_notes(note, gap_note(gaps)),
        queue=annotations.queue(end_s),
        machine_nodes=annotations.machine_nodes,
        gaps=gaps,
        clock="UTC" if header == RECORDED else OWN_CLOCK,
    )
    if idle_gpus is None:
        return log
    per_node = idle_gpus.per_node
    return replace(log, queue=None, machine_nodes=sum(per_node.values()), gpus=GpuFacts(per_node))


def _joined_notes(comment: str, gaps: str) -> str:
    """Return the note of the comment followed by that on gaps; a log that was converted twice has
    the latter in its comment, and names it once.
    """
    if not gaps or gaps in comment:
        return comment
    return f"{comment}; {gaps}" if comment else gaps


def _gpus_in_comment(path: Path, cells: list[str]) -> dict[str, int]:
    """Return the GPUs of each node in the comment ``# unit=gpu``, the first line of the file, which
    was read as ``cells``.
    """
    return dict(_parse_counts(f"{path}:1", ",".join(cells).split()[2:]))


def _parse_counts(where: str, words: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield (node, number of GPUs) for words like ``node:4``.

    Raises :class:`InputFileError`, also for a node that is named twice.
    """
    named: set[str] = set()
    for word in words:
        node, _, count = word.rpartition(":")
        if not node or not (
            count.isascii()
            and count.isdecimal()
            and len(count) <= 4
            and 0 < int(count) <= MOST_GPUS
        ):
            raise InputFileError(
                where, f"{word!r:.80} is not node:k, expected the GPUs (1 to {MOST_GPUS}) of a node"
            )
        if node in named:
            raise InputFileError(where, f"node {node:.80} is named twice, expected it once")
        named.add(node)
        yield node, int(count)


def _read_rows(lines: Lines, whole_lines_only: bool) -> Iterator[list[str]]:
    """Yield the lines as lists of cells, each checked as it is read.

    The file is never in memory as a whole. ``whole_lines_only``: a last line without a newline is
    left out, because a recorder may be about to complete it.
    """
    path, line = lines.path, 1

    def checked_texts() -> Iterator[str]:
        """Yield the text of each line, which has to be UTF-8 without NUL."""
        nonlocal line
        for line, text in lines:
            if whole_lines_only and lines.cut:
                return
            if "\0" in text:  # date parsing accepts text up to it
                raise InputFileError(f"{path}:{line}", "has a NUL character, expected text")
            # Bytes that are not UTF-8 are read as these characters.
            if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
                raise InputFileError(f"{path}:{line}", "is not UTF-8 text")
            yield text

    try:
        yield from csv.reader(checked_texts())
    except csv.Error as error:
        raise InputFileError(f"{path}:{line}", f"is not CSV ({error})") from error


def write_event_log(path: Path, log: EventLog) -> None:
    """Write a log by atomic rename, compressed if its name ends in .gz. Equal logs give equal
    bytes.
    """
    data = csv_bytes(COLUMNS, _event_cells(log))
    if log.note:
        data = _note_comment(log.note) + data
    if log.gpus is not None:
        data = gpu_comment(log.gpus.per_node) + data
    write_atomically(path, gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)


def _event_cells(log: EventLog) -> Iterable[Sequence[str]]:
    """Yield the rows (time, joined, left) of the events; an event at the start of a gap has ``?``
    in place of the nodes that left.
    """
    gap_starts_s = {start_s for start_s, _ in log.gaps}
    as_words = sorted if log.gpus is None else words
    for event in log.events:
        change = event.change
        left = UNKNOWN if event.at_s in gap_starts_s else " ".join(as_words(change.left))
        yield format_time(event.at_s), " ".join(as_words(change.joined)), left


def words(gpus: Iterable[str]) -> list[str]:
    """Return ``node:k`` for each node, where k is the number of its GPUs among the names ``gpus``;
    the words are in order of node names.
    """
    return _gpu_words(counted(gpus))


def gpu_comment(per_node: Mapping[str, int]) -> bytes:
    """Return the first line of a log in GPUs, which lists the GPUs of each node."""
    return " ".join([*UNIT_GPU, *_gpu_words(per_node)]).encode() + b"\n"


def _note_comment(note: str) -> bytes:
    """Return the line of the note, which precedes the header. It has single quotes only: a double
    quote would begin a quoted cell of CSV.
    """
    text = " ".join(note.replace('"', "'").split())[:LONGEST_NOTE]
    return f"{NOTE_COMMENT}{text}\n".encode()


def _gpu_words(gpus: Mapping[str, int]) -> list[str]:
    return [f"{node}:{count}" for node, count in sorted(gpus.items())]


@dataclass
class _IdleGpus:
    """Counts the idle GPUs of each node (``n_idle``). ``per_node`` is the number of GPUs of each
    node; it grows with the counts if the log does not list it.
    """

    per_node: dict[str, int]
    n_idle: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._are_listed = bool(self.per_node)

    def change(
        self, where: str, arrivals: Mapping[str, int], departures: Mapping[str, int]
    ) -> list[list[str]]:
        """Apply a row with the number of GPUs that join and leave by node; return the names of
        these GPUs.

        The result is a list of the names that join and one of those that leave. GPUs of a node have
        no identity: the last one that became idle is the first to leave. Raises
        :class:`InputFileError`.
        """
        joined, left = list[str](), list[str]()
        for node, count in arrivals.items():
            before = self.n_idle[node]
            after = before + count
            limit = self.per_node.get(node, 0) if self._are_listed else MOST_GPUS
            if after > limit:
                source = " (line 1)" if self._are_listed else ""
                raise InputFileError(
                    where,
                    f"{after} GPUs of node {node:.80} are idle, expected at most {limit}{source}",
                )
            self.n_idle[node] = after
            joined += (level(node, index) for index in range(before, after))
            self.per_node[node] = max(after, self.per_node.get(node, 0))
        for node, count in departures.items():
            before = self.n_idle[node]
            after = before - count
            if after < 0:
                problem = (
                    f"{count} GPUs of node {node:.80} leave, expected at most the "
                    f"{before} that are idle"
                )
                raise InputFileError(where, problem)
            self.n_idle[node] = after
            left += (level(node, index) for index in range(after, before))
        return [joined, left]


def parse_time(text: str) -> float:
    """Return an ISO 8601 time in seconds since 1970; raises ValueError for anything else.

    A time without an offset counts as UTC (the log's own clock).
    """
    moment = datetime.fromisoformat(text)
    at_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not _EARLIEST_S <= at_s <= _LATEST_S:  # an offset can lead out of the calendar
        raise ValueError(f"{text!r} is not within the years 1 to 9999")
    return at_s


def format_time(at_s: float, zone: tzinfo | None = None) -> str:
    """Return seconds since 1970 as an ISO 8601 time without a zone, the inverse of
    :func:`parse_time`.

    Milliseconds are written only where there are any. With a ``zone``, the text is for a user only:
    a local time in the hour that is repeated in autumn stands for two times, so it cannot be
    parsed.
    """
    moment = datetime.fromtimestamp(at_s, zone or UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")


def _parse_events(
    path: Path,
    header: list[str],
    rows: Iterator[list[str]],
    annotations: LogAnnotations,
    max_bytes: int,
    header_line: int,
    idle_gpus: _IdleGpus | None,
) -> Iterator[PoolEvent]:
    """Yield the rows as events; add gaps, sizes and waiting jobs to ``annotations``.

    Every rule of the format is checked here, once. ``header_line`` is the line number of the
    header. ``idle_gpus`` counts the GPUs of a log whose unit is a GPU; None for a log in nodes.
    """
    pool: set[str] = set()
    unique_names: dict[str, str] = {}  # each name is stored once, however often it occurs
    free_names = max_bytes // NAME_BYTES  # memory that is left, in names
    previous: tuple[float, str] | None = None
    for line, row in enumerate(rows, start=header_line + 1):
        where = f"{path}:{line}"
        at_s = _row_time(where, header, row, previous)
        cells = [cell.split() for cell in row[1:3]]
        gpu_counts = None
        if idle_gpus is not None and cells[1] != [UNKNOWN]:
            gpu_counts = [dict(_parse_counts(where, cell)) for cell in cells]
        free_names -= _names_in(cells, gpu_counts)
        if free_names < 0:
            raise InputFileError(
                where,
                f"the nodes of all rows take more than {max_bytes:,} bytes; --max-bytes sets "
                "another limit",
            )
        if idle_gpus is not None and gpu_counts is not None:
            cells = idle_gpus.change(where, *gpu_counts)
        elif idle_gpus is not None:
            idle_gpus.n_idle.clear()  # a gap begins, in which the pool is empty
        joined, left = (
            tuple(unique_names.setdefault(name, name) for name in cell) for cell in cells
        )
        begins_gap = left == (UNKNOWN,)
        annotations.add(where, at_s, begins_gap, *row[len(COLUMNS) :])
        if begins_gap:
            # All nodes leave, since nothing is known of them until the next row.
            left = tuple(sorted(pool))
            _check_gap(where, joined)
        change = _pool_change(where, pool, joined, left)
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


def _names_in(
    cells: Sequence[Sequence[str]], gpu_counts: Sequence[Mapping[str, int]] | None
) -> int:
    """Return how many names of nodes, or of GPUs, a row adds to memory; an empty cell counts as
    one. ``gpu_counts`` are the GPUs that join and leave by node; None: the cells are node names.
    """
    if gpu_counts is None:
        return sum(max(len(cell), 1) for cell in cells)
    return sum(sum(counts.values()) for counts in gpu_counts)


def _check_gap(where: str, joined: Sequence[str]) -> None:
    """Refuse nodes that join where the state becomes unknown."""
    if joined:
        problem = f"node {joined[0]:.80} joins at the start of a gap, expected no joins there"
        raise InputFileError(where, problem)


def _pool_change(
    where: str, pool: Set[str], joined: Sequence[str], left: Sequence[str]
) -> PoolChanged:
    """Return the change of the pool (the set of idle nodes) that a row describes.

    Raises :class:`InputFileError` for a node that both joins and leaves, that leaves but is not in
    the pool, that joins but is in the pool, or that is named twice.
    """
    arrivals, departures = frozenset(joined), frozenset(left)
    if in_both := arrivals & departures:
        raise InputFileError(
            where,
            f"node {min(in_both):.80} joins and leaves in one row, expected one or the other",
        )
    if absent := [name for name in left if name not in pool]:
        problem = f"node {absent[0]:.80} leaves but is not in the pool, expected an earlier join"
        raise InputFileError(where, problem)
    if present := [name for name in joined if name in pool]:
        problem = (
            f"node {present[0]:.80} joins but is already in the pool, expected a leave "
            "between two joins"
        )
        raise InputFileError(where, problem)
    if len(arrivals) < len(joined) or len(departures) < len(left):
        counts = Counter((*joined, *left))
        repeated = next(name for name, count in counts.items() if count > 1)
        verb = "joins" if repeated in arrivals else "leaves"
        raise InputFileError(where, f"node {repeated:.80} {verb} twice, expected it once in a row")
    return PoolChanged(arrivals, departures)
