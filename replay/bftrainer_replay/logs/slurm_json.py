"""Slurm's ``sacct --json``: 22.05 (plain numbers, one state) to 26.05
(``{"set","infinite","number"}``, lists of states).

The file is read object by object: a job takes 5 KB of text, and a year of jobs does not fit in
memory. Times are epochs in all versions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from bftrainer.config.host_lists import expand
from bftrainer.counted import counted
from bftrainer.errors import InputFileError
from bftrainer_replay.logs.job_needs import JobFact, JobNeeds
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.slurm_needs import needs_of, use_of
from bftrainer_replay.logs.slurm_runs import JobRuns
from bftrainer_replay.logs.slurm_state import (
    RESIZING,
    check_state,
    eligible_from,
    is_running,
    never_started,
)
from bftrainer_replay.logs.source import Source

NAME = "sacct --json"
_JOBS = re.compile(r'"jobs"\s*:\s*\[')
_TOKENS = re.compile(r'\\.|["{}\[\]]')
"""An escape sequence is one token, so that an escaped quote does not end a string."""
_PIECE = 1024 * 1024
_LARGEST_JOB = 32 * 1024 * 1024
_KEY_LENGTH = 200
"""Characters at the end of a piece that are searched again, so that ``"jobs": [`` is recognized
across two pieces.
"""
_LATEST_S = 4102444800.0  # 2100
_NO_NODES = frozenset({"", "None assigned", "(null)"})
_REQUEUED = "REQUEUED"


def recognizes(head: str) -> bool:
    """Return whether the head is a JSON object with "jobs", or one that begins with Slurm's
    "meta".
    """
    start = head.lstrip()[:200]
    return start.startswith("{") and bool(
        _JOBS.search(head) or '"meta"' in start or '"openapi' in start
    )


def read(source: Source) -> None:
    """Add all jobs to the rows."""
    runs = JobRuns()
    for number, text in _Jobs(source).texts():
        source.tally.take(number, text, _add_job, source, text, runs)
    runs.remark(source)


class _Jobs:
    """Separates the output of sacct --json into jobs, the members of the lists "jobs" of all files.
    It reads piece by piece and counts brackets outside of strings, so no file is in memory as a
    whole.
    """

    def __init__(self, source: Source) -> None:
        """Begin before the first file's list of jobs."""
        self._source = source
        self._is_in_list = False  # of jobs
        self._is_in_string = False
        self._has_ended = False  # the list of jobs of this file or an earlier one
        self._depth = 0  # of brackets below the list of jobs: 0 between two jobs
        self._parts: list[str] = []  # of the text of a job that began in an earlier piece
        self._size = 0  # the characters of these parts
        self._line = 0  # the line on which the job begins
        self._carried = ""  # the end of a piece, which is read again with the next one

    def texts(self) -> Iterator[tuple[int, str]]:
        """Yield (line number, JSON text) of each job. Raises :class:`InputFileError` if a list of
        jobs does not end.
        """
        number = 0
        for number, piece in self._source.lines.pieces(_PIECE):
            yield from self._in_piece(number, self._carried + piece)
        if self._is_in_list or not self._has_ended:
            raise InputFileError(
                f"{self._source.lines.path}:{number}",
                f"{self._missing_end()}; expected the complete output of sacct --json",
            )

    def _missing_end(self) -> str:
        """Say what is missing at the end of the log."""
        if self._depth:
            return "ends within a job"
        return "ends within the list of jobs" if self._is_in_list else 'has no list "jobs"'

    def _in_piece(self, number: int, text: str) -> Iterator[tuple[int, str]]:
        """Yield (line number, JSON text) of each job that ends in this piece of the file.

        The beginning of a job that does not end in it is kept. ``text`` is the carried text (the
        end of the piece before) with the piece on line ``number``.
        """
        self._carried = ""
        if not self._is_in_list:
            list_start = _JOBS.search(text)
            if list_start is None:
                self._carried = text[-_KEY_LENGTH:]
                return
            self._is_in_list = True
            text = text[list_start.end() :]
        # A backslash at the end is carried: its escape sequence may go on in the next piece.
        complete = text.rstrip("\\")
        self._carried, text = text[len(complete) :], complete
        start = 0
        for token in _TOKENS.finditer(text):
            mark = token.group()
            # The order matters: brackets in a string do not count, nor do escaped quotes.
            if self._is_in_string:
                self._is_in_string = mark != '"'
            elif mark == '"':
                self._is_in_string = True
            elif mark in "{[":
                if not self._depth:
                    start, self._line = token.start(), number
                self._depth += 1
            elif mark in "}]" and not self._depth:
                self._end_of_list(text[token.start() :])
                return
            elif mark in "}]":
                self._depth -= 1
                if not self._depth:
                    yield self._line, "".join((*self._parts, text[start : token.end()]))
                    self._parts, self._size, start = [], 0, token.end()
        if self._depth:
            self._keep_part(text[start:])

    def _keep_part(self, part: str) -> None:
        """Keep a part of a job that goes on in the next piece; raises :class:`InputFileError` if
        the job is too large.
        """
        self._parts.append(part)
        self._size += len(part)
        if self._size > _LARGEST_JOB:
            raise InputFileError(
                f"{self._source.lines.path}:{self._line}",
                f"a job has more than {_LARGEST_JOB:,} characters",
            )

    def _end_of_list(self, rest: str) -> None:
        """Note the end of the list of jobs, and remark on errors that Slurm lists after it.

        Only ``rest``, the rest of the piece, is searched.
        """
        self._is_in_list = False
        self._has_ended = True
        self._source.lines.cut = False  # the list is complete, whether or not a newline follows
        if '"description"' in rest and '"errors": [{' in rest:
            self._source.remarks.append(
                "sacct reported errors at the end of its output; the log may be incomplete"
            )


def _add_job(source: Source, text: str, runs: JobRuns) -> str | None:
    """Add the job with this JSON text to the rows; return why it is ignored, or None.

    Raises ValueError for one that breaks the format. ``runs`` recognizes several records of one
    job.
    """
    job = _parsed_job(text)
    if source.is_of_another(_text_field(job, "cluster"), _text_field(job, "user")):
        return "of other clusters"
    times = job.get("time")
    if not isinstance(times, dict):
        raise BadLineError('a job has no "time", expected the output of sacct --json')
    state, reason = _state_and_reason(job)
    source.has_state(state)
    submit_s, eligible_s, start_s, end_s = (
        _job_time(times, key) for key in ("submission", "eligible", "start", "end")
    )
    if is_running(state, end_s):
        end_s = math.inf
        source.rows.runs_at(start_s, _slurm_number(times.get("elapsed")))
    elif never_started(state):
        # It waits, or was canceled while it waited.
        start_s, end_s = math.nan, math.inf
    job_id = str(job.get("job_id", ""))[:40]
    if job_id and source.rows.settles(job_id, start_s, end_s):
        return "that were running in an earlier record"
    has_run = start_s < end_s or (math.isnan(end_s) and not math.isnan(start_s))
    if job_id:
        start_s = runs.add(job_id, state, submit_s, start_s, end_s, _submission_id(job, job_id))
    nodes = _job_nodes(job) if has_run else []
    node_count = _node_count(job, nodes, has_run)
    if not node_count:
        return "without nodes"
    rows = source.rows
    source.facts |= set(JobFact)
    needs = rows.needs(_job_needs(job, reason, node_count))
    use = rows.use(use_of(_tres_text(job, "allocated"), node_count)) if has_run else 0
    if math.isinf(end_s) and job_id:
        rows.unfinished(job_id, start_s)
    rows.add(
        submit_s,
        eligible_from(eligible_s, start_s),
        start_s,
        end_s,
        node_count,
        rows.ids(nodes),
        # Slurm's limits are in minutes.
        limit_s=60 * _slurm_number(times.get("limit")),
        needs=needs,
        use=use,
    )
    return None


def _node_count(job: dict[str, Any], nodes: list[str], has_run: bool) -> int:
    """Return the number of nodes that a job held or asks for; ``nodes`` are those that it names.

    Raises :class:`BadLineError` if a job that ran names no nodes, or another number of nodes than
    it was allocated.
    """
    allocated = _slurm_number(job.get("allocation_nodes"))
    if has_run and not nodes:
        raise BadLineError("the job ran, but has an empty node list")
    if has_run and allocated > 0 and len(nodes) != allocated:
        raise BadLineError(
            f"the node list names {counted(len(nodes), 'node')}, the job has {allocated:.0f}"
        )
    return len(nodes) or int(allocated if allocated > 0 else _requested_nodes(job))


def _job_needs(job: dict[str, Any], reason: str, node_count: int) -> JobNeeds:
    """Return what the job needs of each of its ``node_count`` nodes, and why it waits."""
    return needs_of(
        partition=_text_field(job, "partition"),
        constraint=_text_field(job, "constraints"),
        reason=reason,
        tres=_tres_text(job, "requested"),
        nodes=node_count,
        account=_text_field(job, "account"),
        qos=_text_field(job, "qos"),
    )


def _parsed_job(text: str) -> dict[str, Any]:
    """Parse the text of one job; raises :class:`BadLineError` if it is not a JSON object."""
    try:
        job = json.loads(text)
    except ValueError as error:
        raise BadLineError(f"is not JSON ({error})") from None
    if not isinstance(job, dict):
        raise BadLineError(f"a job is {text[:40]!r}, expected an object")
    return job


def _text_field(job: dict[str, Any], key: str) -> str:
    """Return a text of the job; empty if it is missing or no text."""
    value = job.get(key)
    return value if isinstance(value, str) else ""


def _state_and_reason(job: dict[str, Any]) -> tuple[str, str]:
    """Return the state that says whether the job holds nodes, and the reason for which it waits.

    Since 23.02, the state is a list: a state, and flags such as RESIZING or REQUEUED. Like the text
    output of sacct, this function prefers the flag. Raises :class:`BadLineError`.
    """
    state = job.get("state")
    current, reason = state, ""
    if isinstance(state, dict):
        current, reason = state.get("current"), str(state.get("reason", ""))
    words: list[object] = current if isinstance(current, list) else [current]
    names = [check_state(str(word)) for word in words]
    if not names:
        raise BadLineError("a job has no state")
    for flag in (_REQUEUED, RESIZING):
        if flag in names:
            return flag, reason
    running = [name for name in names if is_running(name, math.nan)]
    waiting = [name for name in names if never_started(name)]
    return (running or waiting or names)[0], reason


def _submission_id(job: dict[str, Any], job_id: str) -> str:
    """Return the id that follows the order of submissions: that of the whole array for its tasks,
    which get ids of their own as they start.
    """
    array = job.get("array")
    number = _slurm_number(array.get("job_id")) if isinstance(array, dict) else math.nan
    return f"{number:.0f}" if number > 0 else job_id


def _slurm_number(value: object) -> float:
    """Return a number of Slurm; NaN where it is not set, infinity for "infinite".

    Slurm writes it as 5 or, in newer versions, as {"set": true, "number": 5}. Raises
    :class:`BadLineError`.
    """
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return math.inf
        value = value.get("number") if value.get("set", True) is True else None
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        raise BadLineError(f"{str(value)[:40]!r} is not a number")
    return float(value)


def _job_time(times: dict[str, Any], key: str) -> float:
    """Return one of a job's times, in seconds since 1970; NaN if it is not set. Raises
    :class:`BadLineError`.
    """
    value = _slurm_number(times.get(key))
    if value <= 0 or math.isinf(value):  # Slurm writes 0 for an event that has not happened
        return math.nan
    if value >= _LATEST_S:
        raise BadLineError(f"time {key} {value:.0f} is not a time from 1970 to 2099")
    return value


def _job_nodes(job: dict[str, Any]) -> list[str]:
    """Return the names in the job's node list; raises :class:`ValueError` for a broken one."""
    listed = job.get("nodes") or ""
    if not isinstance(listed, str):
        raise BadLineError(f"nodes are {str(listed)[:40]!r}, expected a list like node[1-4]")
    return [] if listed in _NO_NODES else expand(listed)


def _tres_list(job: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the TRES of a job under ``key``, "allocated" or "requested"; none if it has none."""
    tres = job.get("tres")
    listed = tres.get(key) if isinstance(tres, dict) else None
    if not isinstance(listed, list):
        return []
    return [resource for resource in listed if isinstance(resource, dict)]


def _tres_text(job: dict[str, Any], key: str) -> str:
    """Return the TRES of a job as sacct writes them in text: ``cpu=8,gres/gpu=2``.

    ``key`` is "allocated" or "requested".
    """
    words = []
    for resource in _tres_list(job, key):
        count = _slurm_number(resource.get("count"))
        if 0 <= count < 1e9:
            name = f"/{resource['name']}" if isinstance(resource.get("name"), str) else ""
            words.append(f"{resource.get('type')}{name}={count:.0f}")
    return ",".join(words)


def _requested_nodes(job: dict[str, Any]) -> float:
    """Return the number of nodes in the requested TRES of a waiting job; 0 if it has none."""
    for resource in _tres_list(job, "requested"):
        if resource.get("type") == "node":
            count = _slurm_number(resource.get("count"))
            return count if 0 <= count < 1e9 else 0.0
    return 0.0
