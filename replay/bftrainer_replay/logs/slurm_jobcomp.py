"""Slurm's ``jobcomp/filetxt``: a line of KEY=VALUE per finished job, times local. Checked with
Slurm 22.05.

Job names may hold blanks and equals signs, so keys are searched from the right. They may also hold
line breaks: a line that begins no record, or follows one that lacks its last keys, belongs to the
record before.
"""

from __future__ import annotations

import math
import re

from bftrainer.config.host_lists import expand
from bftrainer.counted import counted
from bftrainer.errors import InputFileError
from bftrainer_replay.logs.fields import count_of
from bftrainer_replay.logs.job_needs import JobFact
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.slurm_needs import limit_s, needs_of
from bftrainer_replay.logs.slurm_state import check_state, eligible_from
from bftrainer_replay.logs.source import Source

NAME = "Slurm jobcomp/filetxt"
_NO_NODES = frozenset({"", "(null)", "None", "None assigned"})
_BEGIN = "JobId="
_LAST_KEY = " SubmitTime="
"""One of the keys that follow the working directory, which may have line breaks as well."""
_END_OF_VALUE = re.compile(r"[ \n]")
_MOST_LINES = 1_000
_MOST_CHARACTERS = 1024 * 1024


def recognizes(head: str) -> bool:
    """Return whether the first line that is not a comment begins with JobId= and has other keys of
    a job.
    """
    line = next((line for line in head.splitlines() if line and not line.startswith("#")), "")
    return line.startswith(_BEGIN) and all(
        f" {key}=" in line for key in ("JobState", "StartTime", "EndTime")
    )


def read(source: Source) -> None:
    """Add the jobs of all lines to the rows."""
    records = _Records(source)
    for number, line in source.lines:
        records.take(number, line)
    records.finish()


class _Records:
    """Joins the lines of a job, whose name may have line breaks, to one record.

    A name that holds a whole record leaves its own record without the last keys, and a line with
    these keys that begins no record: such a log is refused.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lines: list[str] = []  # of the record so far
        self._number = 0  # of its first line
        self._characters = 0  # of these lines
        self._has_cut_record = False  # an earlier record ended without its last keys

    def take(self, number: int, line: str) -> None:
        """Take a line: append it to the record so far, or begin a new record.

        Raises :class:`InputFileError` if the name of a job looks like a record.
        """
        if self._lines and self._continues_record(line):
            self._characters += len(line)
            self._lines.append(line)
            self._source.tally.continued(line)
            return
        if not line or line.startswith("#"):
            return
        self.finish()
        if self._has_cut_record and not line.startswith(_BEGIN) and _has_keys(line):
            raise InputFileError(
                f"{self._source.lines.path}:{number}",
                "is the end of a record, but what precedes it is a whole one: a job's name "
                "with line breaks looks like a job; "
                "delete the lines of this job, or use sacct",
            )
        self._number, self._lines, self._characters = number, [line], len(line)

    def finish(self) -> None:
        """Add the job of the record so far, which is complete."""
        text = "\n".join(self._lines)
        if self._lines:
            self._has_cut_record |= text.startswith(_BEGIN) and not _has_keys(text)
            self._source.tally.take(self._number, text, _add_job, self._source, text)
        self._lines = []

    def _continues_record(self, line: str) -> bool:
        """Return whether the line belongs to the record so far, which still lacks its last keys.

        A job's name may have line breaks; a record that grows beyond the limits is not continued.
        """
        if line.startswith(_BEGIN) or not self._lines[0].startswith(_BEGIN):
            return False
        if len(self._lines) >= _MOST_LINES or self._characters > _MOST_CHARACTERS:
            return False
        text = "\n".join(self._lines)
        if not _has_keys(text):
            return True
        # The working directory may have line breaks, too: then only the keys behind it are missing.
        return _LAST_KEY not in text and _LAST_KEY in line and not _has_keys(line)


def _has_keys(text: str) -> bool:
    """Return whether the text has keys that follow the name of a job."""
    return all(f" {key}=" in text for key in ("JobState", "StartTime", "EndTime", "NodeCnt"))


def _last_value(line: str, key: str, default: str | None = None) -> str:
    """Return the value of ``KEY=value`` in a record; ``default`` if there is none.

    It is the last one, since a job's name, which comes before, may hold others. Without a default,
    raises :class:`BadLineError`.
    """
    start = line.rfind(f" {key}=")
    if start < 0:
        if default is None:
            raise BadLineError(f"has no {key}=")
        return default
    start += len(key) + 2
    end = _END_OF_VALUE.search(line, start)
    return line[start:] if end is None else line[start : end.start()]


def _add_job(source: Source, line: str) -> str | None:
    """Add the job of a record to the rows; return why it is ignored, or None.

    Raises ValueError for a record that breaks the format.
    """
    if not line.startswith("JobId="):
        raise BadLineError("does not begin with JobId=")
    source.has_state(check_state(_last_value(line, "JobState")))
    start_text = _last_value(line, "StartTime")
    submit_text = _last_value(
        line, "SubmitTime", start_text
    )  # before 18.08 there was no SubmitTime
    eligible_text = _last_value(line, "EligibleTime", submit_text)
    submit_s, eligible_s, start_s, end_s = source.clock.in_order(
        (submit_text, eligible_text, start_text, _last_value(line, "EndTime"))
    )
    node_count = count_of(_last_value(line, "NodeCnt"), "nodes (NodeCnt)")
    # It has a start, and an end later than that, or none.
    has_run = not math.isnan(start_s) and (math.isnan(end_s) or start_s < end_s)
    nodes: list[str] = []
    if has_run:
        text = _last_value(line, "NodeList")
        if text in _NO_NODES:
            raise BadLineError("the job ran, but has an empty node list")
        nodes = expand(text)
        if len(nodes) != node_count:
            raise BadLineError(
                f"the node list names {counted(len(nodes), 'node')}, the job has {node_count}"
            )
    if not node_count:
        return "without nodes"
    tres = _last_value(line, "Tres", "")  # what the job asked for
    source.facts.update((JobFact.TIME_LIMIT, JobFact.PARTITION))
    if tres:
        source.facts.add(JobFact.RESOURCES)
    rows = source.rows
    needs = needs_of(
        partition=_last_value(line, "Partition", ""),
        constraint="",
        reason="",
        tres=tres,
        nodes=node_count,
        account=_last_value(line, "Account", ""),
        qos=_last_value(line, "QOS", ""),
    )
    # TimeLimit is in minutes, as sacct's TimelimitRaw.
    rows.add(
        submit_s,
        eligible_from(eligible_s, start_s),
        start_s,
        end_s,
        node_count,
        rows.ids(nodes),
        limit_s(_last_value(line, "TimeLimit", "")),
        rows.needs(needs),
    )
    return None
