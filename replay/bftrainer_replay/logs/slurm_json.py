"""Slurm's ``sacct --json``: 22.05 (plain numbers, one state) up to 26.05 (``{"set","infinite","number"}``, lists of states).

The file is read object by object: a job takes 5 KB of text, and a year of jobs does not fit in memory. Times are epochs in
all versions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from bftrainer.config.hosts import expand
from bftrainer.errors import InputFileError
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.needs import Fact
from bftrainer_replay.logs.slurm_needs import needs_of, use_of
from bftrainer_replay.logs.slurm_state import check_state, eligible_from, is_running, never_started
from bftrainer_replay.logs.source import Source

NAME = "sacct --json"
_JOBS = re.compile(r'"jobs"\s*:\s*\[')
_STEP = 1024 * 1024
_LARGEST_JOB = 32 * 1024 * 1024
_TEXTS = ("partition", "constraints", "account", "qos")
_KEY = 200  # characters kept so that "jobs": [ is found across pieces


def recognizes(head: str) -> bool:
    """An object with "jobs", or that begins with Slurm's "meta"."""
    start = head.lstrip()[:200]
    return start.startswith("{") and bool(_JOBS.search(head) or '"meta"' in start or '"openapi' in start)


def read(source: Source) -> None:
    """Adds all jobs."""
    for number, text in _objects(source):
        source.tally.take(number, text, _job, source, text)


def _parse(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadLineError(f"is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise BadLineError(f"a job is {text[:40]!r}, expected an object")
    return found


def _objects(source: Source) -> Iterator[tuple[int, str]]:
    """(line number, text) of every member of "jobs", found by counting brackets outside of strings."""
    inside, in_string, ended = False, False, False
    depth, size, number, line_of_start = 0, 0, 0, 0
    pieces: list[str] = []
    held = ""
    for number, line in source.lines.pieces(_STEP):
        text = held + line
        held = ""
        if not inside:
            found = _JOBS.search(text)
            if not found:
                held = text[-_KEY:]
                continue
            inside, text = True, text[found.end() :]
        if text.endswith("\\"):  # keep an escape sequence whole
            text, held = text.rstrip("\\"), text[len(text.rstrip("\\")) :]
        start = 0
        for token in _TOKENS.finditer(text):
            mark = token.group()
            if in_string:
                in_string = mark != '"'
            elif mark == '"':
                in_string = True
            elif mark in "{[":
                if not depth:
                    start, line_of_start = token.start(), number
                depth += 1
            elif mark in "}]":
                if not depth:
                    source.lines.cut = inside = False
                    ended = True  # of this file
                    _trailing(source, text[token.start() :])
                    break
                depth -= 1
                if not depth:
                    yield line_of_start, "".join((*pieces, text[start : token.end()]))
                    pieces, size, start = [], 0, token.end()
        if depth:
            pieces.append(text[start:])
            size += len(text) - start
            if size > _LARGEST_JOB:
                raise InputFileError(
                    f"{source.lines.path}:{line_of_start}", f"a job has more than {_LARGEST_JOB:,} characters"
                )
    if ended and not inside:
        return
    what = "ends within a job" if depth else "ends within the list of jobs" if inside else 'has no list "jobs"'
    raise InputFileError(f"{source.lines.path}:{number}", f"{what}; expected the complete output of sacct --json")


# An escape sequence is one token, so that an escaped quote does not end a string.
_TOKENS = re.compile(r'\\.|["{}\[\]]')


def _trailing(source: Source, rest: str) -> None:
    """Slurm may list errors after the jobs; only the rest of the line is searched."""
    if '"description"' in rest and '"errors": [{' in rest:
        source.remarks.append("sacct reported errors at the end of its output; the log may be incomplete")


def _number(value: object) -> float:
    """A number in the layout of any version; NaN where it is not set."""
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return math.inf
        value = value.get("number") if value.get("set", True) is True else None
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        raise BadLineError(f"{str(value)[:40]!r} is not a number")
    return float(value)


def _job(source: Source, text: str) -> str | None:
    job = _parse(text)
    whose = [value if isinstance(value := job.get(key), str) else "" for key in ("cluster", "user")]
    if source.is_of_another(*whose):
        return "of other clusters"
    times = job.get("time")
    if not isinstance(times, dict):
        raise BadLineError('a job has no "time", expected the output of sacct --json')
    state = job.get("state")
    current = state.get("current") if isinstance(state, dict) else state
    flags: list[object] = current if isinstance(current, list) else [current]
    names = [check_state(str(flag)) for flag in flags]
    submit_s, eligible_s, start_s, end_s = (_time(times, key) for key in ("submission", "eligible", "start", "end"))
    if any(is_running(name) for name in names):
        end_s = math.inf
        source.rows.runs_at(start_s, _number(times.get("elapsed")))
    elif any(never_started(name) for name in names):
        start_s, end_s = math.nan, math.inf
    job_id = str(job.get("job_id", ""))[:40]
    if job_id and source.rows.settles(job_id, start_s, end_s):
        return "that were running in an earlier record"
    ran = not math.isnan(start_s) and (math.isnan(end_s) or start_s < end_s)
    listed = job.get("nodes") or ""
    if not isinstance(listed, str):
        raise BadLineError(f"nodes are {str(listed)[:40]!r}, expected a list like node[1-4]")
    nodes = expand(listed) if listed and listed not in ("None assigned", "(null)") and ran else []
    asked = _number(job.get("allocation_nodes"))
    if ran and not nodes:
        raise BadLineError("the job ran, but has an empty node list")
    if ran and asked > 0 and len(nodes) != asked:
        raise BadLineError(f"the node list names {len(nodes)} nodes, the job has {asked:.0f}")
    count = len(nodes) or (int(asked) if asked > 0 else _asked(job))
    if not count:
        return "without nodes"
    source.facts |= set(Fact)
    rows = source.rows
    reason = str(state.get("reason", "")) if isinstance(state, dict) else ""
    texts = [value if isinstance(value := job.get(key), str) else "" for key in _TEXTS]
    needs = rows.needs(needs_of(texts[0], texts[1], reason, _tres(job, "requested"), count, *texts[2:]))
    use = rows.use(use_of(_tres(job, "allocated"), count)) if ran else 0
    eligible_s, limit_s = eligible_from(eligible_s, start_s), 60 * _number(times.get("limit"))
    if math.isinf(end_s) and job_id:
        rows.unfinished(job_id, start_s)
    rows.add(submit_s, eligible_s, start_s, end_s, count, rows.ids(nodes), limit_s, needs, use)
    return None


def _tres(job: dict[str, Any], key: str) -> str:
    """TRES of a job as sacct writes them in text."""
    tres = job.get("tres")
    listed = tres.get(key) if isinstance(tres, dict) else None
    words = []
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict) and (count := _number(each.get("count"))) == count and 0 <= count < 1e9:
            name = f"/{each['name']}" if isinstance(each.get("name"), str) else ""
            words.append(f"{each.get('type')}{name}={count:.0f}")
    return ",".join(words)


def _time(times: dict[str, Any], key: str) -> float:
    value = _number(times.get(key))
    if value <= 0 or math.isinf(value):  # Slurm writes 0 for an event that has not happened
        return math.nan
    if value >= 4102444800:
        raise BadLineError(f"time {key} {value:.0f} is not a time from 1970 to 2099")
    return value


def _asked(job: dict[str, Any]) -> int:
    """The number of nodes that a waiting job asks for, from its requested TRES."""
    tres = job.get("tres")
    requested = tres.get("requested") if isinstance(tres, dict) else None
    for each in requested if isinstance(requested, list) else []:
        if isinstance(each, dict) and each.get("type") == "node":
            count = _number(each.get("count"))
            return int(count) if count == count else 0
    return 0
