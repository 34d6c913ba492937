"""Which columns a file of sacct has: from its header, from ``--columns``, or recognized by the
positions of its times.

``SACCT_COMMAND`` is the one command that the help, the messages and the documentation ask for.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bftrainer.errors import InputFileError, UserError
from bftrainer_replay.logs.source import Source

SACCT_COLUMNS = (
    "JobID,Cluster,User,Account,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,NNodes,NodeList,State,Partition,QOS,Reason,"
    "ReqTRES,AllocTRES,Constraints,Flags"
)
SACCT_COMMAND = f"sacct -a -D -X -P -S 2026-01-01 -E 2026-07-01 -o {SACCT_COLUMNS}"
NEEDED = ("start", "end")
# The columns that XDMoD's resource manager shredder requests, without a header, and those of its
# versions before 2019.
_XDMOD = [
    "jobid",
    "jobidraw",
    "cluster",
    "partition",
    "qos",
    "account",
    "group",
    "gid",
    "user",
    "uid",
    "submit",
    "eligible",
    "start",
    "end",
    "elapsed",
    "exitcode",
    "state",
    "nnodes",
    "ncpus",
    "reqcpus",
    "reqmem",
    "reqtres",
    "alloctres",
    "timelimit",
    "nodelist",
    "jobname",
]
_XDMOD_BEFORE = [name for name in _XDMOD if name not in ("reqtres", "alloctres")]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*|Unknown|None|\d{9,10}")
_XDMOD_TIMES = range(10, 14)
_RULE = re.compile(r"\s*-{2,}(?:\s+-{2,}){2,}\s*$")
_SACCT_NAMES = {
    "start": "start",
    "end": "end",
    "nodes": "nnodes",
    "nodelist": "nodelist",
    "submit": "submit",
    "job": "jobid",
    "user": "user",
    "account": "account",
    "qos": "qos",
    "partition": "partition",
    "limit": "timelimit",
    "state": "state",
    "wait": "wait",
    "run": "run",
    "cores": "cores",
    "gpus": "gpus",
}
"""Names in ``--columns NAME=COLUMN``, and the columns of sacct with the same content."""
_DELIMITERS = "|,;\t"


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table: their names in lower case, and the delimiter. ``is_header``: the line
    by which the layout was recognized is a header, not a job.
    """

    names: tuple[str, ...]
    delimiter: str = "|"
    is_header: bool = False

    def split(self, line: str) -> list[str]:
        """Return the fields of a line. Values between bars are never quoted; others may be, as in
        CSV.
        """
        if self.delimiter == "|" or '"' not in line:
            return line.split(self.delimiter)
        return next(csv.reader([line], delimiter=self.delimiter), [])


def recognizes(head: str) -> bool:
    """Return whether the head of a file is sacct output.

    It is with a header that has Start and End, with any delimiter or in columns; or if lines
    without a header hold times.
    """
    lines = [line for line in head.splitlines() if line and not line.startswith("#")][:2]
    if not lines:
        return False
    first = lines[0]
    return (
        header(first) is not None
        or _is_printed(lines)
        or _without_header(first)
        or known_layout(first) is not None
        or _lacks_times(first)
    )


def _lacks_times(line: str) -> bool:
    """Return whether a line is a header of sacct, even one without Start and End: the error can
    then say which columns are missing.
    """
    names = set(_column_names(line.split("|")))
    has_id = bool(names & {"jobid", "jobidraw"})
    return len(names) > 2 and has_id and bool(names & {"state", "nodelist", "nnodes", "submit"})


def _column_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Return the column names in lower case, without the widths of sacct's format ("NodeList%20" ->
    nodelist).
    """
    return tuple(cell.strip().lower().partition("%")[0] for cell in cells)


def header(line: str) -> Layout | None:
    """Return the layout if this line is a header of sacct, else None."""
    for delimiter in _DELIMITERS:
        names = _column_names(line.split(delimiter))
        if len(names) > 2 and all(name in names for name in NEEDED):
            return Layout(names, delimiter, is_header=True)
    return None


def known_layout(line: str) -> Layout | None:
    """Return the layout of a line without a header, recognized by where its times are; else None.

    It is that of XDMoD or of the documented command.
    """
    fields = line.split("|")
    for names in (_XDMOD, _XDMOD_BEFORE):
        # The job name comes last and may hold bars.
        has_columns = len(fields) >= len(names) and all(
            _TIME.fullmatch(fields[index]) for index in _XDMOD_TIMES
        )
        # The node list before it tells the two layouts apart: at this position, the longer layout
        # may have a TRES, which has equals signs.
        if has_columns and "=" not in fields[len(names) - 2]:
            return Layout(tuple(names))
    documented = SACCT_COLUMNS.lower().split(",")
    time_indices = [documented.index(name) for name in ("submit", "start", "end")]
    if len(fields) == len(documented) and all(
        _TIME.fullmatch(fields[index]) for index in time_indices
    ):
        return Layout(tuple(documented))
    return None


def layout_of(source: Source, number: int, line: str) -> Layout:
    """Return the layout of the file whose first line is ``line``: its columns and the delimiter.

    Adds a remark if it is recognized without a header. Raises :class:`InputFileError`, which says
    what to do, for an unknown layout.
    """
    if (layout := header(line)) is not None:
        return layout
    if (layout := known_layout(line)) is not None:
        whose = (
            "XDMoD's columns"
            if layout.names[1] == "jobidraw"
            else "the columns of the documented command"
        )
        source.remarks.append(
            f"no header: assuming {whose} {','.join(layout.names[:3])},...,{layout.names[-1]} "
            "(specify others with --columns)"
        )
        return layout
    where = f"{source.path}:{number}"
    if _lacks_times(line):
        names = _column_names(line.split("|"))
        lacks = ", ".join(name.capitalize() for name in ("submit", *NEEDED) if name not in names)
        raise InputFileError(
            where, f"the sacct columns lack {lacks}; run sacct with --format={SACCT_COLUMNS}"
        )
    if "|" not in line:
        raise InputFileError(
            where,
            "is sacct output without --parsable2 (-P), which cuts off long values; run "
            f"{SACCT_COMMAND}",
        )
    problem = (
        "is not a header of sacct --parsable2 with Start and End; run sacct without -n, "
        "or name the columns with "
    )
    raise InputFileError(where, f"{problem}--columns {SACCT_COLUMNS}")


def specified_layout(columns: str) -> Layout:
    """Return the layout that ``--columns`` names in sacct's words."""
    return Layout(_column_names(columns.replace("|", ",").split(",")))


def renamed(source: Source, number: int, line: str) -> Layout:
    """Return the layout of a table whose columns the user names, as sacct's columns.

    They are named by ``--columns start=began,end=finished,nodes=n``; ``line`` is the table's
    header. Other columns are not read. The delimiter is the one that occurs most in the header.
    """
    sacct_name: dict[str, str] = {}  # by column
    for pair in (source.options.columns or "").split(","):
        name, _, column = (part.strip() for part in pair.partition("="))
        if name.lower() not in _SACCT_NAMES or not column:
            raise UserError(
                f"--columns {pair!r:.60}: expected NAME=COLUMN with NAME one of "
                f"{', '.join(_SACCT_NAMES)}"
            )
        sacct_name[column] = _SACCT_NAMES[name.lower()]
    delimiter = max(_DELIMITERS, key=line.count)
    columns = [name.strip() for name in Layout((), delimiter).split(line)]
    if missing := [column for column in sacct_name if column not in columns]:
        raise InputFileError(
            f"{source.path}:{number}",
            f"has no column {missing[0]!r:.60}; its columns are {', '.join(columns):.300}",
        )
    names = tuple(sacct_name.get(name, f"other {k}") for k, name in enumerate(columns))
    return Layout(names, delimiter, is_header=True)


def check(source: Source, layout: Layout) -> None:
    """Raise :class:`UserError` if columns are missing or named twice."""
    names = [name for name in layout.names if name]
    if duplicates := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{source.path}: duplicate column {duplicates[0]}")
    if "=" in (source.options.columns or ""):  # the user names the columns of a table
        has_start = "start" in names or {"submit", "wait"} <= set(names)
        has_end = "end" in names or "run" in names
        if not has_start or not has_end or not {"nodelist", "nnodes"} & set(names):
            raise UserError(
                f"{source.path}: --columns lacks start (or submit and wait), end (or run), or "
                "one of nodes (a number) and "
                "nodelist (names)"
            )
        return
    missing = [name for name in (*NEEDED, "submit") if name not in names]
    if missing or not {"nodelist", "nnodes", "allocnodes"}.intersection(names):
        lacks = ", ".join(missing) or "NodeList or NNodes"
        raise UserError(
            f"{source.path}: the sacct columns lack {lacks}; run sacct with "
            f"--format={SACCT_COLUMNS}"
        )


def _is_printed(lines: Sequence[str]) -> bool:
    """Return whether the first two lines are those of sacct's table for people: names over a rule
    of dashes.
    """
    names = lines[0].lower().split()
    has_rule = len(lines) > 1 and bool(_RULE.match(lines[1]))
    return has_rule and len(names) > 2 and "jobid" in names[0]


def _without_header(line: str) -> bool:
    """Return whether a line has three or more times between bars, as jobs of sacct have."""
    return sum(bool(_TIME.fullmatch(field)) for field in line.split("|")) > 2
