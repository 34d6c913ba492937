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
    """A job's paragraph and an event."""
    lines = head.splitlines()
    return any(_JOB.match(line) for line in lines) and any(_EVENT.match(line) for line in lines)


@dataclass
class _Job:
    """What the events of a paragraph tell of a job; ``runs`` are (start, end, slots of
    each host).
    """

    submit_s: float = math.nan
    start_s: float = math.nan
    end_s: float = math.nan
    tasks: int = 1
    hosts: dict[str, int] = field(default_factory=dict)
    runs: list[tuple[float, float, dict[str, int]]] = field(default_factory=list)


def read(source: Source) -> None:
    """Adds all jobs of bhist's output to the rows. A record is a job's paragraph."""
    tally = source.tally
    done: list[_Job] = []

    def record(texts: list[str]) -> None:
        changed = datetime.fromtimestamp(source.lines.path.stat().st_mtime, UTC).date()
        done.append(_job(source, texts, changed))

    for line, name, texts in _paragraphs(source):
        tally.take(line, "\n".join((name, *texts)), record, texts)
    slots = max((count for job in done for count in job.hosts.values()), default=1)
    guessed = 0
    for job in done:
        for start_s, end_s, hosts in job.runs:
            source.rows.add(
                job.submit_s, job.submit_s, start_s, end_s, len(hosts), source.rows.ids(hosts)
            )
        if not job.runs:
            guessed += 1
            source.rows.add(
                job.submit_s, job.submit_s, math.nan, job.end_s, -(-job.tasks // slots), ()
            )
    if guessed:
        source.remarks.append(
            f"{counted(guessed, 'job')} never started: assuming that each asks "
            f"for its tasks at {slots} "
            "per host"
        )


def _paragraphs(source: Source) -> Iterator[tuple[int, str, list[str]]]:
    """Yield, for each job, the line number, the job's heading, and its events with wrapped lines
    joined.
    """
    texts: list[str] | None = None
    start, size, name = 0, 0, ""
    for number, line in source.lines:
        size += len(line)
        if heading := _JOB.match(line):
            if texts is not None:
                yield start, name, texts
            texts, start, size, name = [], number, len(heading.group()), heading[1]
        elif texts is None:
            continue
        elif _EVENT.match(line):
            texts.append(line)
        elif line.startswith("   ") and texts:
            if size > _LONGEST_PARAGRAPH:
                source.tally.bad(number, f"a job of more than {_LONGEST_PARAGRAPH:,} characters")
                texts = None
                continue
            texts[-1] += line.strip()
    if texts is not None:
        yield start, name, texts


def _job(source: Source, texts: list[str], changed: date) -> _Job:
    """Build a job from the lines of its events. Years that bhist leaves out are searched back from
    ``changed``, the day of the file.
    """
    job = _Job()
    running = False
    for text in texts:
        event = _EVENT.match(text)
        assert event is not None  # only such lines are collected
        weekday, month, day, clock, year, what = event.groups()
        at_s = source.clock.seconds(f"{_date(weekday, month, day, year, changed)}T{clock}")
        what = "".join(what.split())
        if what.startswith("Submitted"):
            job.submit_s = at_s
            if tasks := _TASKS.search(what):
                job.tasks = int(tasks[1])
        elif started := _STARTED.match(what):
            allocated = _ALLOCATED.search(what)
            hosts = slots_by_host((allocated or started)[1][1:-1].split("><"))
            if not running or not job.hosts:
                job.start_s, job.hosts, running = at_s, hosts, True
        elif _OVER.match(what):
            job.end_s = at_s
            if running:
                job.runs.append((job.start_s, at_s, job.hosts))
                running = False
    if running:
        job.runs.append((job.start_s, math.inf, job.hosts))
    if math.isnan(job.submit_s) and not job.runs:
        raise BadLineError("a job has neither Submitted nor Dispatched nor Started")
    for start_s, end_s, _ in job.runs:
        if end_s < start_s:
            raise BadLineError("a job ends before it starts")
    return job


def _date(weekday: str, month: str, day: str, year: str | None, changed: date) -> str:
    """Return a day as YYYY-MM-DD; without a year, the last one up to ``changed`` on which the date
    is this weekday.
    """
    number = _MONTHS.index(month) + 1
    years = [int(year)] if year else range(changed.year, changed.year - 28, -1)
    for candidate in years:
        try:
            moment = date(candidate, number, int(day))
        except ValueError:
            continue
        if year or (moment <= changed and _DAYS[moment.weekday()] == weekday):
            return moment.isoformat()
    raise BadLineError(f"{weekday} {month} {day} {year or ''} is not a day of the last 28 years")
