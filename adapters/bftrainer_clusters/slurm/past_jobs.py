"""Past jobs of a Slurm cluster, from sacct or from a file that sacct has printed.

From sacct, no column with text of users is read: a job's name may contain line breaks and look like
other jobs. Holders are told apart by asking for jobs of their name. A file needs the column
JobName.
Checked with sacct of 22.05.8, 24.11.5 and 26.05.5.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from bftrainer.cluster.past_jobs import JobLog, Outage, PastJob
from bftrainer.config.validation import refuse_pipe
from bftrainer.counted import counted
from bftrainer.errors import CommandError, InputFileError, SchedulerError
from bftrainer.system import command
from bftrainer_clusters.slurm.associations import RunCommand
from bftrainer_clusters.slurm.hostlists import NOTHING, HostLists
from bftrainer_clusters.slurm.job_list import HOLDER_NAME
from bftrainer_clusters.slurm.setup import limit_s, parse_partitions, partitions_argv

COLUMNS = (
    "JobIDRaw",
    "User",
    "Partition",
    "NNodes",
    "Eligible",
    "Start",
    "End",
    "TimelimitRaw",
    "Priority",
    "Reason",
    "NodeList",
)
FILE_COMMAND = (
    "sacct -a -X -P -D -S now-7days -o "
    "JobIDRaw,User,Partition,NNodes,Eligible,Start,End,TimelimitRaw,Priority,Reason,NodeList,JobName"
)
"""The command that makes a file for an audit."""
_NEEDED_COLUMNS = ("nnodes", "eligible", "start", "end", "nodelist", "partition", "jobname")
TIMEOUT_S = 300.0
"""Timeout of one call of sacct: slurmdbd takes minutes for a busy day."""
_DAY_S = 86_400.0
_MAX_LINES = 20_000_000
_MAX_LISTED = 10_000_000
"""Nodes in all different lists: 640 MB of sets."""
_MAX_LINE = 1_000_000
_MAX_DIGITS = 13
_UNKNOWN = ("", "Unknown", "None", "N/A")
_NODE_REASONS = frozenset(
    {"None", "", "Priority", "Resources", "Unknown", "BeginTime", "Dependency"}
)
"""Reasons that name no other obstacle than nodes. BeginTime and Dependency are among them: a job
that waits for these is not eligible yet, and its wait begins later.
"""
_ID = re.compile(r"\d+(?:[_+]\S*)?")
_EVENT_FIELDS = ("NodeName", "TimeStart", "TimeEnd", "State")


@dataclass
class _Records:
    """Jobs from rows of sacct; a later row of the same job and start replaces the earlier one.
    ``skipped`` is the number of rows that could not be read.
    """

    lists: HostLists = field(default_factory=lambda: HostLists(most_listed=_MAX_LISTED))
    jobs: dict[tuple[str, float | None], PastJob] = field(default_factory=dict)
    skipped: int = 0

    def take(self, row: Mapping[str, str], is_holder: bool) -> None:
        """Add the job of a row, whose keys are the columns' names in lower case, if it has one; a
        row that cannot be read is counted.
        """
        try:
            job = _past_job(row, is_holder, self.lists)
        except (SchedulerError, ValueError, KeyError):
            self.skipped += 1
            return
        if job is not None:
            self.jobs[job.id, job.start_s] = job


def live_log(
    days: float, ask: RunCommand, now_s: float | None = None, user: str = "root"
) -> JobLog:
    """Ask sacct for the jobs of the last days, day by day. Raises ``CommandError`` where sacct does
    not answer; without outages, a remark says so.

    slurmdbd may hide jobs of others from ``user``, who asks, and says so nowhere. So where no main
    job of another user is seen, a remark says that they may be hidden.
    """
    end_s = time.time() if now_s is None else now_s
    begin_s = end_s - days * _DAY_S
    records = _Records()
    for from_s, to_s in _days_of_period(begin_s, end_s):
        holder_argv = _sacct_argv(from_s, to_s, ("JobIDRaw",), f"--name={HOLDER_NAME}")
        holder_ids = frozenset(ask(holder_argv).split())
        lines = ask(_sacct_argv(from_s, to_s, COLUMNS)).splitlines()
        for row in _complete_rows(lines, COLUMNS, records):
            records.take(row, is_holder=row["jobidraw"] in holder_ids)
    remarks = []
    partitions = command.parsed(partitions_argv(), ask(partitions_argv()), parse_partitions)
    try:
        outages = tuple(_node_outages(ask(_events_argv(begin_s))))
    except CommandError as error:
        outages = ()
        remarks.append(f"times at which nodes were down are not known: {error}")
    main_users = {job.user for job in records.jobs.values() if not job.is_holder}
    if user != "root" and not main_users - {user}:
        remarks.append(
            "no main job of another user is seen: slurmdbd may hide them (PrivateData in "
            "slurmdbd.conf); have an operator run the audit"
        )
    nodes = {name: partition.nodes for name, partition in partitions.items()}
    jobs = tuple(records.jobs.values())
    return JobLog(jobs, begin_s, end_s, nodes, outages, records.skipped, tuple(remarks))


def file_log(path: Path) -> JobLog:
    """Read the jobs in a file of ``sacct -P`` with a header. Raises ``InputFileError`` if it cannot
    be read, lacks a column, or has no jobs.
    """
    records = _Records()
    try:
        refuse_pipe(path)
        with path.open(encoding="utf-8", errors="replace") as lines:
            header = lines.readline(_MAX_LINE).rstrip("\n")
            names = _header_columns(path, header)
            for row in _complete_rows(_bounded_lines(path, lines), names, records):
                records.take(row, row["jobname"].strip() == HOLDER_NAME)
    except OSError as error:
        raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error
    jobs = tuple(records.jobs.values())
    if not jobs:
        raise InputFileError(str(path), f"has no jobs, expected the output of: {FILE_COMMAND}")
    times_s = [at_s for job in jobs for at_s in _known_times(job)]
    return JobLog(jobs, min(times_s), max(times_s), skipped=records.skipped)


def _days_of_period(begin_s: float, end_s: float) -> Iterator[tuple[float, float]]:
    """Yield the days of a period as (from, to), so that no answer has all jobs of the period."""
    from_s = begin_s
    while from_s < end_s:
        to_s = min(from_s + _DAY_S, end_s)
        yield from_s, to_s
        from_s = to_s


def _sacct_argv(from_s: float, to_s: float, columns: Iterable[str], *options: str) -> list[str]:
    """Build a query of sacct, which takes times in the time zone that it prints them in (TZ=UTC in
    the environment).
    """
    times = ["-S", _sacct_time(from_s), "-E", _sacct_time(to_s)]
    return ["sacct", "-a", "-X", "-n", "-P", "-D", *times, *options, "-o", ",".join(columns)]


def _events_argv(begin_s: float) -> list[str]:
    fields = ",".join(_EVENT_FIELDS)
    return ["sacctmgr", "-nP", "show", "event", f"start={_sacct_time(begin_s)}", f"format={fields}"]


def _sacct_time(at_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_s))


def _header_columns(path: Path, line: str) -> tuple[str, ...]:
    """Return the names of the columns in the header ``line``, in lower case and without widths
    (``User%20``). Raises ``InputFileError`` if a needed one is missing.
    """
    names = tuple(name.strip().lower().partition("%")[0] for name in line.split("|"))
    missing = [name for name in _NEEDED_COLUMNS if name not in names]
    if not {"jobid", "jobidraw"} & set(names):
        missing.append("jobid")
    if missing:
        raise InputFileError(
            f"{path}:1",
            f"is no header with the columns {', '.join(missing)}; make the file with: "
            f"{FILE_COMMAND}",
        )
    return names


def _bounded_lines(path: Path, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a file without their ends. Raises ``InputFileError`` for a line, or a
    file, that is too long.
    """
    for number, line in enumerate(lines, start=2):
        if number > _MAX_LINES or len(line) > _MAX_LINE:
            raise InputFileError(
                f"{path}:{number}",
                f"is too long, expected at most {counted(_MAX_LINES, 'line')} of "
                f"{counted(_MAX_LINE, 'character')}",
            )
        yield line.rstrip("\n")


def _complete_rows(
    lines: Iterable[str], names: tuple[str, ...], records: _Records
) -> Iterator[dict[str, str]]:
    """Yield the rows that have all columns, as values by the columns' names in lower case. Other
    rows are counted in ``records``, but for empty lines.
    """
    keys = [name.lower() for name in names]
    # If the job's name comes last, it may contain bars.
    max_splits = len(keys) - 1 if keys[-1] == "jobname" else -1
    for line in lines:
        fields = line.split("|", max_splits)
        if len(fields) == len(keys):
            yield dict(zip(keys, fields, strict=True))
        elif line:
            records.skipped += 1


def _past_job(row: Mapping[str, str], is_holder: bool, lists: HostLists) -> PastJob | None:
    """Parse a row into a job; None for a step, and for a job that has neither been eligible nor
    started. Raises ``ValueError``, ``KeyError`` or ``SchedulerError`` if it cannot be read.
    """
    job_id = row.get("jobidraw") or row["jobid"]
    if "." in job_id:
        return None
    if not _ID.fullmatch(job_id):
        raise ValueError(job_id)
    start_s = _parse_time(row["start"])
    end_s = _parse_time(row["end"])
    eligible_s = _parse_time(row["eligible"])
    if eligible_s is None:  # without this time, the job counts as one that has not waited
        eligible_s = start_s
    if eligible_s is None:
        return None
    if start_s is None:  # a job that was canceled in the queue has waited until then
        start_s = end_s
    node_list = row["nodelist"]
    nodes = frozenset[str]()
    if node_list not in (*NOTHING, "None assigned"):
        nodes = lists.read(node_list)
    reason = row.get("reason", "")
    return PastJob(
        job_id,
        row["partition"],
        int(row["nnodes"]),
        eligible_s,
        start_s,
        end_s,
        nodes,
        row.get("user", ""),
        _limit_s(row),
        _row_priority(row),
        "" if reason in _NODE_REASONS else reason,
        is_holder,
    )


def _limit_s(row: Mapping[str, str]) -> float:
    """Return the time limit of a row in seconds: from TimelimitRaw, in minutes, or else from
    Timelimit, such as ``1-00:00:00``. Infinite if neither is a limit.
    """
    raw = row.get("timelimitraw", "")
    if raw.isdecimal() and len(raw) < _MAX_DIGITS:
        return float(raw) * 60.0
    text = row.get("timelimit", "")
    with suppress(SchedulerError):
        return limit_s(text)
    return float("inf")


def _row_priority(row: Mapping[str, str]) -> float:
    text = row.get("priority", "")
    return float(text) if text.isdecimal() and len(text) < _MAX_DIGITS else 0.0


def _parse_time(text: str) -> float | None:
    """Parse a time of sacct, ``1700000000`` or ``2023-11-14T22:13:20`` (local), into seconds since
    1970; None for ``Unknown``.
    """
    if text in _UNKNOWN:
        return None
    if text.isdecimal() and len(text) < _MAX_DIGITS:
        return float(text)
    return datetime.fromisoformat(text).timestamp()


def _known_times(job: PastJob) -> Iterator[float]:
    """Yield the times of a job that are known."""
    yield job.eligible_s
    yield from (at_s for at_s in (job.start_s, job.end_s) if at_s is not None)


def _node_outages(text: str) -> Iterator[Outage]:
    """Yield the times at which a node was down or drained, from ``sacctmgr show event``; events of
    the whole cluster, which name no node, are left out.
    """
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len(_EVENT_FIELDS):
            continue
        node, start, end, _ = fields
        start_s = _parse_time(start) if node else None
        if start_s is not None:
            yield Outage(node, start_s, _parse_time(end))
