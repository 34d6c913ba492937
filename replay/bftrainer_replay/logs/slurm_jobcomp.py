"""Slurm's ``jobcomp/filetxt``: a line of KEY=VALUE per finished job, times local. Checked with Slurm 22.05.

Job names may hold blanks and equals signs, so keys are searched from the right.
"""

from __future__ import annotations

import math

from bftrainer.config.host_lists import expand
from bftrainer_replay.logs.fields import count_of
from bftrainer_replay.logs.job_needs import JobFact
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.slurm_needs import limit_s, needs_of
from bftrainer_replay.logs.slurm_state import check_state, eligible_from
from bftrainer_replay.logs.source import Source

NAME = "Slurm jobcomp/filetxt"
_NO_NODES = frozenset({"", "(null)", "None", "None assigned"})


def recognizes(head: str) -> bool:
    """The first line that is not a comment begins with JobId= and has the other keys."""
    line = next((line for line in head.splitlines() if line and not line.startswith("#")), "")
    return line.startswith("JobId=") and all(f" {key}=" in line for key in ("JobState", "StartTime", "EndTime"))


def read(source: Source) -> None:
    """Adds all lines."""
    tally = source.tally
    for number, line in source.lines:
        if not line or line.startswith("#"):
            continue
        tally.take(number, line, _job, source, line)


def _value(line: str, key: str, default: str | None = None) -> str:
    start = line.rfind(f" {key}=")
    if start < 0:
        if default is None:
            raise BadLineError(f"has no {key}=")
        return default
    start += len(key) + 2
    end = line.find(" ", start)
    return line[start:] if end < 0 else line[start:end]


def _job(source: Source, line: str) -> str | None:
    if not line.startswith("JobId="):
        raise BadLineError("does not begin with JobId=")
    check_state(_value(line, "JobState"))
    start_text = _value(line, "StartTime")
    submit_text = _value(line, "SubmitTime", start_text)  # before 18.08 there was no SubmitTime
    eligible_text = _value(line, "EligibleTime", submit_text)
    submit_s, eligible_s, start_s, end_s = source.clock.in_order(
        (submit_text, eligible_text, start_text, _value(line, "EndTime"))
    )
    count = count_of(_value(line, "NodeCnt"), "nodes (NodeCnt)")
    ran = not math.isnan(start_s) and (math.isnan(end_s) or start_s < end_s)
    nodes: list[str] = []
    if ran:
        text = _value(line, "NodeList")
        if text in _NO_NODES:
            raise BadLineError("the job ran, but has an empty node list")
        nodes = expand(text)
        if len(nodes) != count:
            raise BadLineError(f"the node list names {len(nodes)} nodes, the job has {count}")
    if not count:
        return "without nodes"
    tres = _value(line, "Tres", "")  # what the job asked for
    source.facts |= {JobFact.TIME_LIMIT, JobFact.PARTITION} | ({JobFact.RESOURCES} if tres else set())
    rows = source.rows
    partition, *payer = (_value(line, key, "") for key in ("Partition", "Account", "QOS"))
    needs = rows.needs(needs_of(partition, "", "", tres, count, *payer))
    # TimeLimit is in minutes, as sacct's TimelimitRaw.
    rows.add(
        submit_s, eligible_from(eligible_s, start_s), start_s, end_s, count, rows.ids(nodes),
        limit_s(_value(line, "TimeLimit", "")), needs,
    )  # fmt: skip
    return None
