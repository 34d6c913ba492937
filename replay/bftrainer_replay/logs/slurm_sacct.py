"""Slurm's ``sacct --parsable2`` (and ``--parsable``): a line per job, fields between bars, any columns in any order.

Checked with outputs of Slurm 22.05 (header, ``None`` for no start, ``None assigned``) and with dumps from 2016 to 2020 that
have no header. Steps (``123.batch``) repeat their job's nodes and are ignored. The parts of a heterogeneous job (``123+0``)
and the tasks of an array (``123_4``) are separate jobs; ``123_[5-9]`` stands for five waiting jobs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from bftrainer.config.hosts import expand
from bftrainer.errors import InputFileError, UserError
from bftrainer_replay.logs.fields import count_of
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.slurm_state import check_state, eligible_from, is_running, never_started
from bftrainer_replay.logs.source import Source

NAME = "sacct --parsable2"
_NEEDED = ("start", "end")
_FREE_TEXT = ("jobname", "comment", "admincomment", "systemcomment", "workdir", "submitline", "extra")
# The columns that XDMoD's resource manager shredder requests, without a header (seen in dumps from 2015 to 2020).
_XDMOD_HEADER = (
    "jobid|jobidraw|cluster|partition|qos|account|group|gid|user|uid|submit|eligible|start|end|elapsed|exitcode|state|"
    "nnodes|ncpus|reqcpus|reqmem|reqtres|alloctres|timelimit|nodelist|jobname"
)
_XDMOD = _XDMOD_HEADER.split("|")
_TIME = r"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*|Unknown|None|\d{9,10})"
_XDMOD_LINE = re.compile(rf"(?:[^|\n]*\|){{10}}{_TIME}\|{_TIME}\|{_TIME}\|{_TIME}\|(?:[^|\n]*\|){{11}}[^|\n]*$")
_NO_NODES = frozenset({"", "None assigned", "(null)", "None", "Unknown"})


def recognizes(head: str) -> bool:
    """A header with Start and End, or XDMoD's columns without a header."""
    line = _first_line(head)
    columns = line.lower().split("|")
    return (all(name in columns for name in _NEEDED) and len(columns) > 2) or bool(_XDMOD_LINE.match(line))


def _first_line(head: str) -> str:
    return next((line for line in head.splitlines() if line and not line.startswith("#")), "")


def read(source: Source) -> None:
    """Adds all lines."""
    columns: _Columns | None = None
    if source.options.columns is not None:
        columns = _Columns(source, source.options.columns.replace("|", ",").split(","))
    tally = source.tally
    for number, line in source.lines:
        if not line or line.startswith("#"):
            continue
        if columns is None:
            columns, is_header = _header(source, number, line)
            if is_header:
                continue
        tally.take(number, columns.job, line)


def _header(source: Source, number: int, line: str) -> tuple[_Columns, bool]:
    names = line.lower().split("|")
    if all(name in names for name in _NEEDED):
        return _Columns(source, names), True
    if _XDMOD_LINE.match(line):
        source.remarks.append(
            f"no header: assuming XDMoD's columns {','.join(_XDMOD[:3])},...,{_XDMOD[-1]} (specify others with --columns)"
        )
        return _Columns(source, _XDMOD), False
    problem = "is not a header of sacct --parsable2 with Start and End; if there is none, specify --columns"
    raise InputFileError(f"{source.path}:{number}", problem)


class _Columns:
    """The positions of the columns. ``job`` is called a million times, so it does little."""

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        names = [name.strip().lower().partition("%")[0] for name in names]
        self._trailing = names[-1] == ""  # --parsable ends each line with a bar
        names = names[:-1] if self._trailing else names
        if twice := [name for name in names if names.count(name) > 1]:
            raise UserError(f"{source.path}: duplicate column {twice[0]}")
        missing = [name for name in (*_NEEDED, "submit") if name not in names]
        if missing or not {"nodelist", "nnodes", "allocnodes"}.intersection(names):
            lacks = ", ".join(missing) or "NodeList or NNodes"
            raise UserError(
                f"{source.path}: the sacct columns lack {lacks}; run sacct with "
                "--format=JobID,Submit,Eligible,Start,End,NNodes,NodeList,State"
            )
        self._rows, self._clock = source.rows, source.clock
        self._count = len(names)
        free = [names.index(name) for name in _FREE_TEXT if name in names]
        self._free = free[0] if len(free) == 1 else None
        at = {name: place for place, name in enumerate(names)}
        self._submit, self._start, self._end = at["submit"], at["start"], at["end"]
        self._eligible = at.get("eligible", self._submit)
        self._id = at.get("jobid", at.get("jobidraw"))
        self._state, self._list = at.get("state"), at.get("nodelist")
        self._nodes = at.get("nnodes", at.get("allocnodes"))
        self._elapsed = at.get("elapsedraw")
        self._known: dict[str, Sequence[int]] = {}

    def job(self, line: str) -> str | None:
        """Add the line's job; returns why it is ignored, or None. Raises ValueError."""
        fields = line.split("|")
        if len(fields) != self._count:
            fields = self._rejoined(fields)
        tasks = 1
        if self._id is not None:
            job_id = fields[self._id]
            if "." in job_id:
                return "steps"
            tasks = _tasks(job_id)
        elapsed = fields[self._elapsed] if self._elapsed is not None else ""
        texts = (fields[self._submit], fields[self._eligible], fields[self._start], fields[self._end])
        submit_s, eligible_s, start_s, end_s = self._clock.in_order(
            texts, float(elapsed) if elapsed.isdecimal() and len(elapsed) < 12 else None
        )
        if self._state is not None:
            state = check_state(fields[self._state])
            if is_running(state):
                end_s = math.inf
            elif never_started(state):
                start_s, end_s = math.nan, math.inf
        ran = start_s < end_s or (math.isnan(end_s) and not math.isnan(start_s))
        nodes = self._ids(fields[self._list], ran) if self._list is not None else None
        asked = len(nodes or ()) if self._nodes is None else count_of(fields[self._nodes], "nodes")
        if nodes is not None and ran and len(nodes) != asked:
            raise BadLineError(f"the node list names {len(nodes)} nodes, the job has {asked}")
        if not asked:
            return "without nodes"
        if tasks > 1 and ran:
            raise BadLineError(
                f"job {fields[self._id or 0][:60]} represents {tasks} pending array tasks, but has already run"
            )
        if tasks > 1:  # a line of 12 characters may stand for 100,000 jobs: each counts four times
            self._rows.take_room(3 * tasks, 0)
        for _ in range(tasks):
            self._rows.add(submit_s, eligible_from(eligible_s, start_s), start_s, end_s, asked, nodes)
        return None

    def _rejoined(self, fields: list[str]) -> list[str]:
        """sacct does not escape bars: surplus ones belong to the free-text column, if there is exactly one."""
        if len(fields) == self._count + 1 and fields[-1] == "" and (self._trailing or self._free is None):
            return fields[:-1]
        surplus = len(fields) - self._count - self._trailing
        if surplus < 0 or self._free is None:
            raise BadLineError(f"has {len(fields)} fields, expected {self._count}")
        free = self._free
        return [*fields[:free], "|".join(fields[free : free + surplus + 1]), *fields[free + surplus + 1 :]]

    def _ids(self, text: str, ran: bool) -> Sequence[int]:
        known = self._known.get(text)
        if known is not None:
            return known
        if text in _NO_NODES:
            if ran:
                raise BadLineError(f"the job ran, but its node list is {text or 'empty'}")
            return ()
        if not ran:
            return ()  # some versions name nodes for canceled jobs
        nodes = self._rows.ids(expand(text))
        if len(self._known) >= 100_000:
            self._known.clear()
        if len(text) < 64:
            self._known[text] = nodes
        return nodes


def _tasks(job_id: str) -> int:
    """The number of waiting jobs that 123_[5-9,20%4] stands for; 1 for other job ids."""
    before, bracket, inside = job_id.partition("_[")
    if not bracket:
        return 1
    inside = inside.rstrip("]").partition("%")[0]
    if inside.endswith("..."):  # Slurm shortens long lists; the omitted tasks cannot be counted
        inside = inside[:-3].rstrip(",-")
    total = 0
    for piece in inside.split(","):
        first, _, last = piece.partition(":")[0].partition("-")
        step = piece.partition(":")[2] or "1"
        last = last or first
        if not (first.isdecimal() and last.isdecimal() and step.isdecimal()) or len(piece) > 40 or int(step) < 1:
            raise BadLineError(f"{job_id[:60]!r} is not a job id of an array")
        total += (int(last) - int(first)) // int(step) + 1
    if not 1 <= total <= 100_000:
        raise BadLineError(f"{before[:40]}_[...] has {total} tasks")
    return total
