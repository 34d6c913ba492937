"""LSF's ``lsb.acct``, records JOB_FINISH of LSF 5 to 10: blank-separated fields, strings in double quotes.

The field that counts the execution hosts stands behind a list of asked hosts of any length, so positions are counted on.
A host stands once for each slot ("h1" "h1") or, with SHORT_EVENTFILE=Y, once with a factor ("16*h1").
"""

from __future__ import annotations

import math
import re

from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.source import Source

NAME = "LSF lsb.acct"
_FIELD = re.compile(r'"((?:[^"]|"")*)"(?=\s|$)|([^\s"]+)')
_MOST_HOSTS = 5_000_000
# Places in the record (LSF 9.1 and 10.1 references, lsb.acct).
_VERSION, _EVENT_TIME, _PROCESSORS, _SUBMIT, _BEGIN, _START, _ASKED_HOSTS = 1, 2, 6, 7, 8, 10, 22


def recognises(head: str) -> bool:
    """A first record in quotes with a version in quotes."""
    line = next((line for line in head.splitlines() if line and not line.startswith("#")), "")
    return bool(re.match(r'"[A-Z_0-9]+" "\d+\.\d+" \d+ ', line))


def read(source: Source) -> None:
    """All JOB_FINISH records into rows; other records are counted by their kind."""
    waiting: list[tuple[int, float, float, float, int]] = []
    tally = source.tally
    per_host: dict[int, int] = {}
    for number, line in source.lines:
        if not line or line.startswith("#"):
            continue
        tally.read += 1
        try:
            if not line.startswith('"JOB_FINISH" '):
                kind = line.split(" ", 1)[0][:30].strip('"')
                if not re.fullmatch(r"[A-Z][A-Z_0-9]*", kind):
                    raise BadLineError(f"{line[:30]!r} begins no record of lsb.acct")
                tally.pass_over(f"{kind} records")
                continue
            never = _job(source, line, per_host)
        except ValueError as problem:
            tally.bad(number, problem)
            continue
        if never is not None:
            waiting.append((number, *never))
        tally.used += 1
    slots = max(per_host, key=lambda each: (per_host[each], each), default=1)
    for _, submit_s, eligible_s, end_s, processors in waiting:
        source.rows.add(submit_s, eligible_s, math.nan, end_s, -(-processors // slots), ())
    if waiting:
        source.remarks.append(
            f"{len(waiting):,} jobs never started and name no nodes: taken to ask for their slots over {slots} "
            "(the most frequent number of slots a job has on a host)"
        )


def _job(source: Source, line: str, per_host: dict[int, int]) -> tuple[float, float, float, int] | None:
    """Add a job that started; give back (submit, eligible, end, processors) of one that did not."""
    fields = _fields(line)
    if len(fields) < _ASKED_HOSTS + 1:
        raise BadLineError(f"has {len(fields)} fields, too few for JOB_FINISH")
    place = _ASKED_HOSTS + 1 + _count(fields[_ASKED_HOSTS], "asked hosts")
    if place >= len(fields):
        raise BadLineError("ends inside of the asked hosts")
    count = _count(fields[place], "execution hosts")
    hosts = fields[place + 1 : place + 1 + count]
    if len(hosts) < count or place + 1 + count >= len(fields):
        raise BadLineError(f"ends inside of its {count} execution hosts")
    if fields[place + 1 + count] not in ("32", "64"):
        raise BadLineError(f"job status {fields[place + 1 + count][:20]!r} is unknown, expected 64 (done) or 32 (exit)")
    submit_s, begin_s, start_s, end_s = (
        source.clock.seconds(fields[each]) for each in (_SUBMIT, _BEGIN, _START, _EVENT_TIME)
    )
    processors = _count(fields[_PROCESSORS], "processors")
    if math.isnan(start_s):
        return submit_s, begin_s if begin_s > submit_s else submit_s, end_s, max(1, processors)
    slots_of: dict[str, int] = {}
    for host in hosts:
        factor, star, name = host.partition("*")
        if not star:
            factor, name = "1", host
        if not name or not name.isascii() or not name.isprintable() or not factor.isdecimal() or len(factor) > 6:
            raise BadLineError(f"{host[:40]!r} is no execution host")
        slots_of[name] = slots_of.get(name, 0) + int(factor)
    if not slots_of:
        raise BadLineError("the job ran, on no execution host")
    for slots in slots_of.values():
        per_host[slots] = per_host.get(slots, 0) + 1
    source.rows.add(submit_s, begin_s, start_s, end_s, len(slots_of), source.rows.ids(slots_of))
    return None


def _fields(line: str) -> list[str]:
    fields: list[str] = []
    place, length = 0, len(line)
    while place < length:
        if line[place] in " \t":
            place += 1
            continue
        found = _FIELD.match(line, place)
        if not found:
            raise BadLineError(f"field {len(fields) + 1} at character {place + 1} has quotes that do not match")
        fields.append(found.group(2) or (found.group(1) or "").replace('""', '"'))
        place = found.end()
        if place < length and line[place] not in " \t":
            raise BadLineError(f"no blank behind field {len(fields)} at character {place + 1}")
    return fields


def _count(text: str, what: str) -> int:
    if not text.isdecimal() or len(text) > 8 or int(text) > _MOST_HOSTS:
        raise BadLineError(f"{text[:20]!r} is no number of {what}")
    return int(text)
