"""Nodes that were out of service or reserved: ``sacctmgr show event``, ``scontrol show
reservation`` and their like.

Checked with the outputs of Slurm 22.05.8. An event has a node, a start and an end (``Unknown``
while it lasts); rows without a node are the cluster's own. ``scontrol`` shows reservations that
have not ended, in one line each with ``-o``; for earlier ones there is ``sacctmgr -P show
reservation format=Name,TimeStart,TimeEnd,NodeNames``. Several outputs in one file are fine.

The accounting files of PBS Pro and OpenPBS have reservations as well: B begins one (OpenPBS 23.06),
K and F end it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bftrainer.config.host_lists import expand
from bftrainer.errors import InputFileError
from bftrainer_replay.logs import pbs
from bftrainer_replay.logs.clock import LogClock
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.lines import Lines
from bftrainer_replay.logs.slurm_columns import Layout
from bftrainer_replay.logs.slurm_lines import RecordLines
from bftrainer_replay.logs.source import Source

EVENTS_COMMAND = "sacctmgr -P show event start=2026-01-01 end=2026-07-01"
RESERVATIONS_COMMAND = "scontrol show reservation"
_NAMES = {"nodename": "nodes", "nodenames": "nodes", "nodes": "nodes", "nodelist": "nodes"} | {
    "timestart": "start",
    "start": "start",
    "starttime": "start",
    "timeend": "end",
    "end": "end",
    "endtime": "end",
    "state": "state",
    "reason": "reason",
}
_PAIR = re.compile(r"(\w+)=(\S*)")
_NO_NODES = frozenset({"", "(null)", "ALL"})
_LONGEST_LINE = 1_000_000
_TEXT_COLUMNS = ("reason", "comment")


@dataclass(frozen=True, slots=True)
class NodeOutage:
    """Nodes that no job could get from ``start_s`` to ``end_s`` (infinite while it lasts)."""

    nodes: tuple[str, ...]
    start_s: float
    end_s: float


def read_events(source: Source, path: Path) -> list[NodeOutage]:
    """Read the periods in the output of ``sacctmgr show event``; raises :class:`InputFileError`."""
    return list(_outages_in_table(source, path, EVENTS_COMMAND))


def read_reservations(source: Source, path: Path) -> list[NodeOutage]:
    """Return the periods in which nodes were reserved, from the output of a command or from PBS.

    The command is ``scontrol show reservation`` or ``sacctmgr show reservation``; the files of PBS
    are its accounting files. Raises :class:`InputFileError`.
    """
    _, first_line = next(_table_lines(source, path), (0, ""))
    if pbs.recognizes(first_line):
        return _outages_in_accounting(source, path)
    if first_line.startswith(("ReservationName=", "No reservations")):
        return list(_outages_in_pairs(source, path))
    return list(_outages_in_table(source, path, RESERVATIONS_COMMAND))


def _table_lines(source: Source, path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of the lines that are neither blank nor comments."""
    for number, line in Lines(path, source.options.max_bytes):
        if len(line) > _LONGEST_LINE:
            raise InputFileError(f"{path}:{number}", f"is longer than {_LONGEST_LINE:,} characters")
        if line.strip() and not line.startswith("#"):
            yield number, line


def _table_rows(source: Source, path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of the headers and rows of a table.

    The lines of a reason with line breaks are joined to one row.
    """
    rows: RecordLines | None = None  # None: before the first header
    for number, line in Lines(path, source.options.max_bytes):
        if len(line) > _LONGEST_LINE:
            raise InputFileError(f"{path}:{number}", f"is longer than {_LONGEST_LINE:,} characters")
        is_inside = rows is not None and rows.is_unfinished
        if not is_inside and (not line.strip() or line.startswith("#")):
            continue
        names = tuple(name.strip().lower() for name in line.split("|"))
        if not is_inside and _is_header(names):
            rows = RecordLines(Layout(names), _TEXT_COLUMNS)
            yield number, line
        elif rows is None:
            yield number, line
        elif (record := rows.record(path, number, line)) is not None:
            yield record
    if rows is not None and (record := rows.rest()) is not None:
        yield record


def _is_header(names: Sequence[str]) -> bool:
    return {"nodes", "start", "end"} <= {_NAMES[name] for name in names if name in _NAMES}


def _outages_in_table(source: Source, path: Path, command: str) -> Iterator[NodeOutage]:
    """Yield the periods of the rows of a table, whose fields stand between bars.

    A header names them; there may be several in a file. ``command`` is the one whose output is
    expected, for messages. Raises :class:`InputFileError`.
    """
    columns: dict[str, int] = {}  # the index of each column, as the latest header has them
    for number, line in _table_rows(source, path):
        fields = [field.strip() for field in line.split("|")]
        names = {
            _NAMES[name.lower()]: index
            for index, name in enumerate(fields)
            if name.lower() in _NAMES
        }
        if _is_header([field.lower() for field in fields]):
            columns = names
            continue
        if not columns:
            problem = (
                "is not a header with the nodes, start and end of each; expected the "
                f"output of {command}"
            )
            raise InputFileError(f"{path}:{number}", problem)
        if len(fields) <= max(columns.values()):
            raise InputFileError(
                f"{path}:{number}",
                f"has {len(fields)} fields, expected at least {max(columns.values()) + 1}",
            )
        values = {name: fields[index] for name, index in columns.items()}
        if (outage := _parsed_outage(source, f"{path}:{number}", values)) is not None:
            yield outage


def _outages_in_pairs(source: Source, path: Path) -> Iterator[NodeOutage]:
    """Yield the periods of reservations in key=value text.

    A reservation is one line, or several until the next ReservationName.
    """
    values: dict[str, str] = {}
    where = str(path)
    for number, line in _table_lines(source, path):
        pairs = {key.lower(): value for key, value in _PAIR.findall(line)}
        if "reservationname" in pairs:
            if values and (outage := _parsed_outage(source, where, values)) is not None:
                yield outage
            values, where = {}, f"{path}:{number}"
        values |= {
            _NAMES[key]: value for key, value in pairs.items() if key in _NAMES and key != "state"
        }
    if values and (outage := _parsed_outage(source, where, values)) is not None:
        yield outage


def _outages_in_accounting(source: Source, path: Path) -> list[NodeOutage]:
    """Return the periods of the reservations in accounting records of PBS.

    A record begins or ends a reservation. One that is deleted ends then; one that is not, at the
    end that it was made with.
    """
    begun: dict[str, NodeOutage] = {}  # by reservation, until its end
    outages: list[NodeOutage] = []
    for number, line in _table_lines(source, path):
        try:
            record = pbs.reservation_record(source, line)
        except ValueError as problem:
            raise InputFileError(f"{path}:{number}", str(problem)) from problem
        if record is None:
            continue
        if (earlier := begun.pop(record.id, None)) is not None:
            ends_s = max(min(earlier.end_s, record.at_s), earlier.start_s)
            outages.append(NodeOutage(earlier.nodes, earlier.start_s, ends_s))
        if record.nodes:
            source.rows.take_room(0, 1 + len(record.nodes))
            begun[record.id] = NodeOutage(record.nodes, record.start_s, record.end_s)
    outages += begun.values()
    return [outage for outage in outages if outage.end_s > outage.start_s]


def _parsed_outage(source: Source, where: str, values: Mapping[str, str]) -> NodeOutage | None:
    """Return the period of a row (``values`` by column); None for a row that takes no node.

    Such rows are without nodes, as the registration of the whole cluster, or of a period without
    length. ``where`` is the file and line. Raises :class:`InputFileError`.
    """
    clock: LogClock = source.clock
    if values.get("nodes", "") in _NO_NODES:
        return None
    try:
        nodes = _expanded_nodes(values["nodes"])
        start_s = clock.seconds(values.get("start", ""))
        end_s = clock.seconds(values.get("end", ""))
        if math.isnan(start_s):
            raise BadLineError("has no start")
    except ValueError as problem:
        text = " ".join(str(problem).encode("ascii", "backslashreplace").decode().split())
        raise InputFileError(where, text) from problem
    source.rows.take_room(0, 1 + len(nodes))
    end_s = math.inf if math.isnan(end_s) else end_s  # it still lasts
    return NodeOutage(tuple(nodes), start_s, end_s) if end_s > start_s else None


def _expanded_nodes(text: str) -> Sequence[str]:
    nodes = expand(text)
    if not all(name.isascii() and name.isprintable() for name in nodes):
        raise BadLineError(f"{text[:40]!r} is not a list of nodes")
    return nodes
