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
    """Return whether the first record begins with a kind and a version, both in quotes (``10.1``;
    ``22`` in a product derived from LSF).
    """
    line = next((line for line in head.splitlines() if line and not line.startswith("#")), "")
    return bool(re.match(r'"[A-Z_0-9]+" "\d+(?:\.\d+)*" \d+ ', line))


def read(source: Source) -> None:
    """Add all JOB_FINISH records to the rows, and count other records by kind."""
    never_started: list[tuple[float, float, float, int]] = []
    slots_frequency: dict[int, int] = {}
    for number, line in source.lines:
        if line and not line.startswith("#"):
            source.tally.take(
                number, line, _add_record, source, line, slots_frequency, never_started
            )
    # The most frequent number of slots per host; of several, the largest.
    slots = max(slots_frequency, key=lambda count: (slots_frequency[count], count), default=1)
    for submit_s, begin_s, end_s, processors in never_started:
        # Rounded up.
        source.rows.add(submit_s, begin_s, math.nan, end_s, -(-processors // slots), ())
    if never_started:
        source.remarks.append(
            f"{counted(len(never_started), 'job')} never started and named no nodes: "
            "assuming that each asks "
            f"for its slots at {slots} per "
            "node (the most frequent number of slots per host of a job)"
        )


def _add_record(
    source: Source,
    line: str,
    slots_frequency: dict[int, int],
    never_started: list[tuple[float, float, float, int]],
) -> str | None:
    """Take one record of lsb.acct; return why it is ignored, or None.

    A job that started is added to the rows; of a job that did not, (submit, begin, end, processors)
    are appended to ``never_started``, because its number of nodes is guessed at the end. The rows
    let a job wait from its begin time, or from its submission if that is later or no begin time was
    requested. ``slots_frequency[n]`` counts the hosts on which a job had n slots. Raises
    :class:`ValueError`.
    """
    if not line.startswith('"JOB_FINISH" '):
        kind = line.split(" ", 1)[0][:30].strip('"')
        if not re.fullmatch(r"[A-Z][A-Z_0-9]*", kind):
            raise BadLineError(f"{line[:30]!r} is not the start of an lsb.acct record")
        return f"{kind} records"
    fields = _split_record(line)
    if len(fields) < _ASKED_HOSTS + 1:
        raise BadLineError(f"has {len(fields)} fields, too few for JOB_FINISH")
    # A field with the number of execution hosts, then their names, then the job's status.
    hosts_index = _ASKED_HOSTS + 1 + count_of(fields[_ASKED_HOSTS], "asked hosts", _MOST_HOSTS)
    if hosts_index >= len(fields):
        raise BadLineError("ends within the list of requested hosts")
    n_hosts = count_of(fields[hosts_index], "execution hosts", _MOST_HOSTS)
    status_index = hosts_index + 1 + n_hosts
    hosts = fields[hosts_index + 1 : status_index]
    if status_index >= len(fields):
        raise BadLineError(f"ends within the list of its {n_hosts} execution hosts")
    if fields[status_index] not in ("32", "64"):
        raise BadLineError(
            f"job status {fields[status_index][:20]!r} is unknown, expected 64 (done) or 32 (exit)"
        )
    # LSF writes 0 for a time that is missing, and it is NaN here: ``begin_s`` without a requested
    # begin time, ``start_s`` of a job that never started.
    submit_s, begin_s, start_s, end_s = (
        source.clock.seconds(fields[field]) for field in (_SUBMIT, _BEGIN, _START, _EVENT_TIME)
    )
    processors = count_of(fields[_PROCESSORS], "processors", _MOST_HOSTS)
    if math.isnan(start_s):
        never_started.append((submit_s, begin_s, end_s, max(1, processors)))
        return None
    slots_by_name = slots_by_host(hosts)
    if not slots_by_name:
        raise BadLineError("the job ran, but names no execution host")
    for slots in slots_by_name.values():
        slots_frequency[slots] = slots_frequency.get(slots, 0) + 1
    node_ids = source.rows.ids(slots_by_name)
    source.rows.add(submit_s, begin_s, start_s, end_s, len(slots_by_name), node_ids)
    return None


def _split_record(line: str) -> list[str]:
    """Return the fields of a record without quotes: '"JOB_FINISH" "10.1" 5' -> JOB_FINISH, 10.1, 5.

    Raises :class:`BadLineError`.
    """
    fields: list[str] = []
    position, length = 0, len(line)
    while position < length:
        if line[position] in " \t":
            position += 1
            continue
        match = _FIELD.match(line, position)
        if not match:
            raise BadLineError(
                f"field {len(fields) + 1} at character {position + 1} has unmatched quotes"
            )
        fields.append(match.group(2) or (match.group(1) or "").replace('""', '"'))
        position = match.end()
        if position < length and line[position] not in " \t":
            raise BadLineError(f"no space after field {len(fields)} at character {position + 1}")
    return fields
