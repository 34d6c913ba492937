"""LSF's ``lsb.acct``, records JOB_FINISH of LSF 5 to 10: fields separated by blanks, strings in
double quotes.

The number of execution hosts follows a list of asked hosts of any length, so its position is
computed. A host appears once per slot ("h1" "h1") or, with SHORT_EVENTFILE=Y, once with a factor
("16*h1").
"""

from __future__ import annotations

import math
import re

from bftrainer.counted import counted
from bftrainer_replay.logs.fields import count_of, slots_by_host
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.source import Source

NAME = "LSF lsb.acct"
_FIELD = re.compile(r'"((?:[^"]|"")*)"(?=\s|$)|([^\s"]+)')
_MOST_HOSTS = 5_000_000
# Positions in the record (LSF 9.1 and 10.1 references, lsb.acct).
_VERSION, _EVENT_TIME, _PROCESSORS, _SUBMIT, _BEGIN, _START, _ASKED_HOSTS = 1, 2, 6, 7, 8, 10, 22


def recognizes(head: str) -> bool:
    """The first record begins with a kind and a version (``10.1``; ``22`` in a descendant), both in
    quotes.
    """
    line = next((line for line in head.splitlines() if line and not line.startswith("#")), "")
    return bool(re.match(r'"[A-Z_0-9]+" "\d+(?:\.\d+)*" \d+ ', line))


def read(source: Source) -> None:
    """Adds all JOB_FINISH records to the rows; other records are counted by kind."""
    waiting: list[tuple[float, float, float, int]] = []
    per_host: dict[int, int] = {}
    for number, line in source.lines:
        if line and not line.startswith("#"):
            source.tally.take(number, line, _record, source, line, per_host, waiting)
    slots = max(per_host, key=lambda count: (per_host[count], count), default=1)
    for submit_s, eligible_s, end_s, processors in waiting:
        source.rows.add(submit_s, eligible_s, math.nan, end_s, -(-processors // slots), ())
    if waiting:
        source.remarks.append(
            f"{counted(len(waiting), 'job')} never started and named no nodes: "
            "assuming that each asks "
            f"for its slots at {slots} per "
            "node (the most frequent number of slots per host of a job)"
        )


def _record(
    source: Source,
    line: str,
    per_host: dict[int, int],
    waiting: list[tuple[float, float, float, int]],
) -> str | None:
    """Take one record: add a job that started to the rows, or (submit, eligible, end, processors)
    of one that did not to ``waiting``.

    Return why the record is ignored, or None. ``per_host`` counts how often jobs had so many slots
    on a host.
    """
    if not line.startswith('"JOB_FINISH" '):
        kind = line.split(" ", 1)[0][:30].strip('"')
        if not re.fullmatch(r"[A-Z][A-Z_0-9]*", kind):
            raise BadLineError(f"{line[:30]!r} is not the start of an lsb.acct record")
        return f"{kind} records"
    fields = _fields(line)
    if len(fields) < _ASKED_HOSTS + 1:
        raise BadLineError(f"has {len(fields)} fields, too few for JOB_FINISH")
    place = _ASKED_HOSTS + 1 + count_of(fields[_ASKED_HOSTS], "asked hosts", _MOST_HOSTS)
    if place >= len(fields):
        raise BadLineError("ends within the list of requested hosts")
    count = count_of(fields[place], "execution hosts", _MOST_HOSTS)
    hosts = fields[place + 1 : place + 1 + count]
    if len(hosts) < count or place + 1 + count >= len(fields):
        raise BadLineError(f"ends within the list of its {count} execution hosts")
    if fields[place + 1 + count] not in ("32", "64"):
        raise BadLineError(
            f"job status {fields[place + 1 + count][:20]!r} is unknown, expected 64 (done) or "
            "32 (exit)"
        )
    submit_s, begin_s, start_s, end_s = (
        source.clock.seconds(fields[field]) for field in (_SUBMIT, _BEGIN, _START, _EVENT_TIME)
    )
    processors = count_of(fields[_PROCESSORS], "processors", _MOST_HOSTS)
    if math.isnan(start_s):
        waiting.append(
            (submit_s, begin_s if begin_s > submit_s else submit_s, end_s, max(1, processors))
        )
        return None
    slots_of = slots_by_host(hosts)
    if not slots_of:
        raise BadLineError("the job ran, but names no execution host")
    for slots in slots_of.values():
        per_host[slots] = per_host.get(slots, 0) + 1
    source.rows.add(submit_s, begin_s, start_s, end_s, len(slots_of), source.rows.ids(slots_of))
    return None


def _fields(line: str) -> list[str]:
    """Split a record into its fields, without quotes: '"JOB_FINISH" "10.1" 5' -> JOB_FINISH, 10.1,
    5.
    """
    fields: list[str] = []
    place, length = 0, len(line)
    while place < length:
        if line[place] in " \t":
            place += 1
            continue
        match = _FIELD.match(line, place)
        if not match:
            raise BadLineError(
                f"field {len(fields) + 1} at character {place + 1} has unmatched quotes"
            )
        fields.append(match.group(2) or (match.group(1) or "").replace('""', '"'))
        place = match.end()
        if place < length and line[place] not in " \t":
            raise BadLineError(f"no space after field {len(fields)} at character {place + 1}")
    return fields
