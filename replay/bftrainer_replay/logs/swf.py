"""The Standard Workload Format (Feitelson), 18 numbers per job, and its extension by a 19th field
``{node,node,...}``.

Submit times count from the header's UnixStartTime; without one they are epochs. -1 means "not
known". Sizes are in processors: nodes are processors divided by MaxProcs / MaxNodes of the header,
or by --processors-per-node.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence

import numpy as np

from bftrainer.counted import counted
from bftrainer.errors import InputFileError
from bftrainer_replay.logs.fields import is_node_name
from bftrainer_replay.logs.job_needs import JobFact, JobNeeds, JobUse
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.partial import missing_share
from bftrainer_replay.logs.source import Source

NAME = "Standard Workload Format"
_ROW = re.compile(r"\s*-?\d+(?:\s+-?\d+(?:\.\d+)?){17}(?:\s|$)")
_HEADER = re.compile(
    r";\s*(UnixStartTime|MaxNodes|MaxProcs|Version|Note|Removed)\s*:\s*(.*)", re.IGNORECASE
)
_NUMBER = re.compile(
    r"[+-]?\d{1,3}(?:[,'_]\d{3})+(?![\d.])|[+-]?\d{1,15}(?:\.\d{1,9})?(?:[eE][+]?\d{1,2})?(?=[\s.,;:()/]|$)"
)
_UNKNOWN_WORDS = ("unknown", "n/a", "none", "not known", "?")
_MOST_NUMBER = 10**12
_MOST_IDS = 10_000_000
_LONGEST_RUN_S = 10 * 365 * 86400


def recognizes(head: str) -> bool:
    """Return whether the head of a file is SWF: comments that begin with ``;``, and rows of 18
    numbers.
    """
    rows = [
        line
        for line in head.splitlines()[:-1] or head.splitlines()
        if line.strip() and not line.startswith(";")
    ]
    if rows:
        return bool(_ROW.match(rows[0]))
    return head.startswith(";") and bool(
        re.search(r"^;\s*(?:Version|UnixStartTime|MaxProcs|Computer)\s*:", head, re.M)
    )


def read(source: Source) -> None:
    """Read the header of an SWF log, and add all rows as jobs."""
    tally = source.tally
    header: dict[str, int] = {}
    reader: _Rows | None = None
    for number, line in source.lines:
        if not line.strip():
            continue
        if line.lstrip().startswith(";"):
            _header_line(source, header, number, line)
            continue
        reader = reader or _Rows(source, header)  # the header is complete at the first row
        tally.take(number, line, reader.row, line)
    if reader is not None:
        # A log of a part of the jobs has gaps in its job numbers.
        source.missing_ids = missing_share(np.frombuffer(reader.ids, dtype=np.float64))


def _header_line(source: Source, header: dict[str, int], number: int, line: str) -> None:
    """Read a comment of the header; keep ``UnixStartTime``, ``MaxNodes`` and ``MaxProcs``.

    They are added to ``header`` by their names in lower case. A remark tells if the log was
    cleaned, that is, if jobs were removed.
    """
    match = _HEADER.match(line.strip())
    if not match:
        return
    key, value = match[1].lower(), match[2].strip()
    if "cleaned version" in value.lower():
        source.remarks.append(
            "this is a cleaned log: real jobs were removed, so some nodes that appear idle "
            "were busy"
        )
    if key in ("unixstarttime", "maxnodes", "maxprocs"):
        header[key] = _header_number(f"{source.path}:{number}", match[1], value)


def _header_number(where: str, name: str, value: str) -> int:
    """Return the whole number that a header's value begins with; 0 if it is not known (``-1``).

    Such values are ``1,152``, ``128 (4 of them for logins)`` or ``1.0e3``. ``where`` is the file
    and line. Raises :class:`InputFileError`.
    """
    match = _NUMBER.match(value)
    if not value or value.casefold().startswith(_UNKNOWN_WORDS):
        return 0
    if match is None:
        raise InputFileError(where, f"{name} is {value[:40]!r}, expected a number")
    number = float(match[0].replace(",", "").replace("'", "").replace("_", ""))
    if number != int(number) or not -1 <= number < _MOST_NUMBER:
        raise InputFileError(where, f"{name} is {value[:40]!r}, expected a whole number")
    return max(int(number), 0)


class _Rows:
    """Adds the rows of an SWF log as jobs. Sizes in processors become nodes by the processors per
    node that the options or the header give (1 if neither does). ``ids`` are the job numbers.
    """

    def __init__(self, source: Source, header: dict[str, int]) -> None:
        """Take the sizes of the cluster and of a node from the options or the header."""
        self._source = source
        self._zero_s = float(header.get("unixstarttime", 0))
        nodes, processors = header.get("maxnodes", 0), header.get("maxprocs", 0)
        option = source.options.processors_per_node
        self._per_node = 1
        if option:
            self._per_node = option
        elif nodes and processors:
            self._per_node = max(1, round(processors / nodes))
        if nodes or processors:
            source.machine_nodes = nodes or -(-processors // self._per_node)
            source.machine_why = "the header's MaxNodes" if nodes else "the header's MaxProcs"
        if option or (nodes and processors):
            source.cores_per_node = float(self._per_node)
        source.counts_processors = not source.cores_per_node
        source.remarks.append(
            f"{counted(self._per_node, 'processor')} per node ({_origin_of_size(option, header)})"
        )
        # (number of the needs, number of the use) by partition, cores and account.
        self._numbers: dict[tuple[str, float, str], tuple[int, int]] = {}
        self.ids = array("d")

    def row(self, line: str) -> str | None:
        """Add the row's job; return why it is ignored, or None. Raises :class:`BadLineError`."""
        fields = line.split()
        if len(fields) < 18:
            raise BadLineError(f"has {len(fields)} fields, expected 18")
        submit_offset_s, wait_s, run_s, used, requested = (
            # Fields 2 to 5, and 8: submit time, wait, run time, used and requested processors.
            _parse_number(fields[k])
            for k in (1, 2, 3, 4, 7)
        )
        _check_durations(run_s, wait_s)
        nodes = self._node_list(fields)
        processors = used if used > 0 else requested
        if processors <= 0:
            return "without processors"
        node_count = len(nodes) if nodes else -(-math.ceil(processors) // self._per_node)
        if len(self.ids) < _MOST_IDS:
            # Field 1: the job's number.
            self.ids.append(_parse_number(fields[0]))
        # Field 12: the user.
        self._source.belongs_to(_text_or_empty(fields[11]))
        submit_s = math.nan
        if submit_offset_s >= 0:  # from the log's UnixStartTime on
            submit_s = self._source.clock.seconds(repr(self._zero_s + submit_offset_s))
        if math.isnan(submit_s):
            raise BadLineError(f"invalid submit time {submit_offset_s:g}")
        start_s = submit_s + max(wait_s, 0.0)
        # Field 9: the requested time.
        limit_s = _parse_number(fields[8])
        if limit_s > 0:
            self._source.facts.add(JobFact.TIME_LIMIT)
        else:
            limit_s = math.nan
        needs, use = self._needs_and_use(fields, processors / node_count, is_named=bool(nodes))
        # A job with no run time was canceled while it waited, or ended at once: it uses no
        # node-time.
        end_s = start_s + max(run_s, 0.0)
        self._source.rows.add(
            submit_s, submit_s, start_s, end_s, node_count, nodes, limit_s, needs, use
        )
        return None

    def _node_list(self, fields: list[str]) -> Sequence[int] | None:
        """Return the numbers of the nodes in the 19th field, an extension of some logs.

        None for a row without it. Raises :class:`BadLineError` for something else in that field.
        """
        if len(fields) == 18:
            return None
        if not fields[18].startswith("{"):
            raise BadLineError(
                f"has {len(fields)} fields, expected 18, or 19 with a list of nodes like {{1,2,3}}"
            )
        return self._node_ids(fields[18])

    def _needs_and_use(self, fields: list[str], cores: float, *, is_named: bool) -> tuple[int, int]:
        """Return the numbers (of :class:`JobRows`) of what a job needs and uses, ``cores`` on each
        node.

        Without node names (``is_named``), partition and processors say nothing of the nodes that
        the job needs, so they are no needs.
        """
        # Field 13: the group.
        group = _text_or_empty(fields[12])[:40]
        account = f"group {group}" if group else ""
        if is_named:
            return self._named_needs(fields, cores, account)
        rows = self._source.rows
        return rows.needs(JobNeeds(account=account)), rows.use(JobUse(cores))

    def _named_needs(self, fields: list[str], cores: float, account: str) -> tuple[int, int]:
        """Return the numbers of the needs and the use of a job on named nodes: its partition, else
        its queue (-1: not known), and its processors.
        """
        partition = ""
        # Field 16 is the partition, field 15 the queue.
        if fields[15] != "-1":
            partition = f"partition {fields[15]}"
        elif fields[14] != "-1":
            partition = f"queue {fields[14]}"
        key = (partition, cores, account)
        numbers = self._numbers.get(key)
        if numbers is None:
            rows, facts = self._source.rows, self._source.facts
            facts.update((JobFact.RESOURCES, JobFact.USE))
            if partition:
                facts.add(JobFact.PARTITION)
            if len(self._numbers) >= 10_000:
                self._numbers.clear()
            needs = JobNeeds(partition[:60], cores=cores, account=account)
            numbers = self._numbers[key] = (rows.needs(needs), rows.use(JobUse(cores)))
        return numbers

    def _node_ids(self, text: str) -> Sequence[int]:
        """Return the numbers of the nodes in a list that has an id per processor.

        {1241,1241,1240} gives those of node1241 and node1240. Raises :class:`BadLineError`.
        """
        if not text.endswith("}"):
            raise BadLineError(f"{text[:40]!r} is not a list of nodes like {{1,2,3}}")
        ids = dict.fromkeys(text[1:-1].split(","))
        for node in ids:
            if not is_node_name(node):
                raise BadLineError(f"{node[:40]!r} is not a node id")
        return self._source.rows.ids(f"node{node}" if node.isdecimal() else node for node in ids)


def _origin_of_size(option: int | None, header: dict[str, int]) -> str:
    """Say where the number of processors per node comes from: the option, the header or a guess."""
    if option:
        return "--processors-per-node"
    is_in_header = header.get("maxnodes", 0) and header.get("maxprocs", 0)
    return "MaxProcs / MaxNodes" if is_in_header else "guessed"


def _check_durations(run_s: float, wait_s: float) -> None:
    """Raise :class:`BadLineError` for an impossible run time or wait; -1 stands for an unknown
    one.
    """
    if run_s < -1 or run_s > _LONGEST_RUN_S:
        raise BadLineError(f"run time {run_s:g} s is out of range")
    if wait_s < -1 or wait_s > _LONGEST_RUN_S:
        raise BadLineError(f"wait time {wait_s:g} s is out of range")


def _text_or_empty(field: str) -> str:
    """Return a field that is a name; empty for -1, which stands for an unknown one."""
    return "" if field == "-1" else field


def _parse_number(text: str) -> float:
    """Parse a finite number; raises :class:`BadLineError`."""
    if len(text) > 32:
        raise BadLineError(f"{text[:20]!r}... is not a number")
    try:
        value = float(text)
    except ValueError:
        raise BadLineError(f"{text!r} is not a number") from None
    if not math.isfinite(value):
        raise BadLineError(f"{text!r} is not a finite number")
    return value
