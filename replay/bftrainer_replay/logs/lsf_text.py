"""LSF's ``bhist -l``, ``bacct -l`` and ``bjobs -l``: a paragraph per job, wrapped at 80 columns in
the middle of words.

Therefore all blanks are removed before an event is parsed. Times have no year unless DISPLAY_YEAR=Y
is set: the year is the latest one, not after the file's modification date, in which the weekday
matches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from bftrainer.counted import counted
from bftrainer_replay.logs.fields import slots_by_host
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.source import Source

NAME = "LSF bhist/bacct -l"
_DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_EVENT = re.compile(
    rf"\s*({'|'.join(_DAYS)}) ({'|'.join(_MONTHS)}) +(\d{{1,2}}) (\d\d:\d\d:\d\d)(?: "
    rf"(\d{{4}}))?: (.*)",
    re.DOTALL,
)
_JOB = re.compile(r"\s*Job <(\d+(?:\[\d+\])?)>,")
_STARTED = re.compile(
    r"(?:Dispatched|Started)(?:\d+Task\(s\))?(?:on|to)(?:\d+)?(?:Hosts?/Processors|Host\(s\))?((?:<[^<>]*>)+)"
)
_ALLOCATED = re.compile(r"Allocated\d+Slot\(s\)onHost\(s\)((?:<[^<>]*>)+)")
_OVER = re.compile(r"(?:Donesuccessfully|Exited|Completed<|Pending:|Requeue|Migrat)")
_TASKS = re.compile(r"(\d{1,7})(?:Task\(s\)|ProcessorsRequested)")
_LONGEST_PARAGRAPH = 4 * 1024 * 1024


def recognizes(head: str) -> bool:
    """Return whether the head of a file has the heading of a job and an event."""
    lines = head.splitlines()
    return any(_JOB.match(line) for line in lines) and any(_EVENT.match(line) for line in lines)


@dataclass
class _Job:
    """A job, as the events of its paragraph describe it. ``runs`` are (start, end, slots of each
    host); ``start_s`` and ``hosts`` are of the latest run, ``tasks`` is the requested number.
    """

    submit_s: float = math.nan
    start_s: float = math.nan
    end_s: float = math.nan
    tasks: int = 1
    hosts: dict[str, int] = field(default_factory=dict)
    runs: list[tuple[float, float, dict[str, int]]] = field(default_factory=list)


def read(source: Source) -> None:
    """Add all jobs of bhist's output to the rows. A record is a job's paragraph."""
    tally = source.tally
    jobs: list[_Job] = []

    def add_job(events: list[str]) -> None:
        changed = datetime.fromtimestamp(source.lines.path.stat().st_mtime, UTC).date()
        jobs.append(_parsed_job(source, events, changed))

    for line, job_id, events in _job_paragraphs(source):
        tally.take(line, "\n".join((job_id, *events)), add_job, events)
    slots_per_host = max((slots for job in jobs for slots in job.hosts.values()), default=1)
    n_guessed = 0
    for job in jobs:
        for start_s, end_s, hosts in job.runs:
            node_ids = source.rows.ids(hosts)
            source.rows.add(job.submit_s, job.submit_s, start_s, end_s, len(hosts), node_ids)
        if not job.runs:
            n_guessed += 1
            # Rounded up.
            node_count = -(-job.tasks // slots_per_host)
            source.rows.add(job.submit_s, job.submit_s, math.nan, job.end_s, node_count, ())
    if n_guessed:
        source.remarks.append(
            f"{counted(n_guessed, 'job')} never started: assuming that each asks "
            f"for its tasks at {slots_per_host} per host"
        )


def _job_paragraphs(source: Source) -> Iterator[tuple[int, str, list[str]]]:
    """Yield, for each job, the line number, the job's id, and its events with wrapped lines joined.

    bhist prints a paragraph per job, which begins with its id. A job that is too long is counted as
    bad.
    """
    events: list[str] | None = None  # None: outside of a paragraph
    start, size, job_id = 0, 0, ""
    for number, line in source.lines:
        size += len(line)
        if heading := _JOB.match(line):
            if events is not None:
                yield start, job_id, events
            events, start, size, job_id = [], number, len(heading.group()), heading[1]
        elif events is None:
            continue
        elif _EVENT.match(line):
            events.append(line)
        elif line.startswith("   ") and events:
            if size > _LONGEST_PARAGRAPH:
                source.tally.bad(number, f"a job of more than {_LONGEST_PARAGRAPH:,} characters")
                events = None
                continue
            events[-1] += line.strip()
    if events is not None:
        yield start, job_id, events


def _parsed_job(source: Source, events: list[str], changed: date) -> _Job:
    """Return the job that the lines of its events describe.

    Years that bhist leaves out are searched back from ``changed``, the day of the file. Raises
    :class:`BadLineError`.
    """
    job = _Job()
    is_running = False
    for line in events:
        match = _EVENT.match(line)
        assert match is not None  # only such lines are collected
        weekday, month, day, clock, year, wrapped = match.groups()
        at_s = source.clock.seconds(f"{_latest_date(weekday, month, day, year, changed)}T{clock}")
        event = "".join(wrapped.split())
        if event.startswith("Submitted"):
            job.submit_s = at_s
            if tasks := _TASKS.search(event):
                job.tasks = int(tasks[1])
        elif started := _STARTED.match(event):
            allocated = _ALLOCATED.search(event)
            hosts = slots_by_host((allocated or started)[1][1:-1].split("><"))
            # A second such event before the end of a run does not begin another run.
            if not is_running or not job.hosts:
                job.start_s, job.hosts = at_s, hosts
                is_running = True
        elif _OVER.match(event):
            job.end_s = at_s
            if is_running:
                job.runs.append((job.start_s, at_s, job.hosts))
                is_running = False
    if is_running:
        job.runs.append((job.start_s, math.inf, job.hosts))
    if math.isnan(job.submit_s) and not job.runs:
        raise BadLineError("a job has neither Submitted nor Dispatched nor Started")
    for start_s, end_s, _ in job.runs:
        if end_s < start_s:
            raise BadLineError("a job ends before it starts")
    return job


def _latest_date(weekday: str, month: str, day: str, year: str | None, changed: date) -> str:
    """Return a day as YYYY-MM-DD; without a ``year``, the latest day up to ``changed`` with this
    month, day and weekday. Raises :class:`BadLineError` if there is none.
    """
    month_number = _MONTHS.index(month) + 1
    # In 28 years, every day of the year falls on every weekday.
    years = [int(year)] if year else range(changed.year, changed.year - 28, -1)
    for candidate in years:
        try:
            candidate_date = date(candidate, month_number, int(day))
        except ValueError:
            continue  # such as 29 February of most years
        is_past = candidate_date <= changed
        if year or (is_past and _DAYS[candidate_date.weekday()] == weekday):
            return candidate_date.isoformat()
    raise BadLineError(f"{weekday} {month} {day} {year or ''} is not a day of the last 28 years")
