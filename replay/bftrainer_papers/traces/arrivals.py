"""When deep-learning jobs were submitted, and what they asked for: Philly (as cut by Sia's authors)
and Pollux's workloads.

The format is recognized by its columns:

- ``timestamp,duration,num_gpus``: Microsoft's Philly cluster, 2017. Times are the cluster's own,
  without a zone.
- ``name,time,application,num_replicas``: Pollux (OSDI '21); seconds since the workload's start, no
  durations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InputFileError, InvalidValueError
from bftrainer_papers.traces.rows import MOST, Cells, header_of, rows_of
from bftrainer_papers.traces.texts import TextFile, texts_of
from bftrainer_replay.csv_tables import count, number
from bftrainer_replay.logs.event_log import parse_time
from bftrainer_replay.logs.jobs import Tally

MOST_GPUS = 1_000_000


@dataclass(frozen=True, slots=True)
class TracedJob:
    """A job of a trace. ``run_s`` is how long it ran on its ``gpus`` (None: not in the trace),
    ``model`` what it trained, ``cluster`` the virtual cluster that it was submitted to ("": not in
    the trace).
    """

    id: str
    at_s: float
    gpus: int
    run_s: float | None = None
    model: str | None = None
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class JobTrace:
    """Jobs in order of time; ``tally`` counts what becomes of each. ``has_dates``: times are
    dates.
    """

    jobs: tuple[TracedJob, ...]
    title: str
    tally: Tally
    has_dates: bool


@dataclass(frozen=True, slots=True)
class _Format:
    title: str
    columns: tuple[str, ...]
    job: Callable[[int, Cells], TracedJob]
    has_dates: bool


def read_trace(path: Path, member: str | None = None, skip_bad: bool = False) -> JobTrace:
    """Read a trace of job submissions; from an archive with several, the one that ``member`` names.

    ``member`` is the end of a file's name. The format is recognized by the columns of the header.
    Raises :class:`InputFileError` with file and line for the first bad line, unless ``skip_bad`` is
    set: then bad lines are counted in the trace's tally.
    """
    text = _chosen_text(path, member)
    header = header_of(text)
    trace_format = next((form for form in _FORMATS if set(form.columns) <= set(header)), None)
    if trace_format is None:
        expected = "; ".join(",".join(form.columns) for form in _FORMATS)
        raise InputFileError(
            f"{text.where}:1",
            f"columns are {','.join(header)!r:.80}, expected the columns of a trace: {expected}",
        )
    tally = Tally(lambda: text.where, skip_bad)
    jobs: dict[str, TracedJob] = {}
    for line, cells in rows_of(text):
        tally.read += 1
        try:
            # rows_of() gives a text instead of cells: what is wrong with the line.
            if isinstance(cells, str):
                raise InvalidValueError(cells)
            job = trace_format.job(line, cells)
            if job.id in jobs:
                raise InvalidValueError(f"duplicate job {job.id!r:.40}")
        except InvalidValueError as error:
            tally.bad(line, error)
            continue
        jobs[job.id] = job
    if not jobs:
        raise InputFileError(text.where, "has no jobs")
    return JobTrace(
        tuple(sorted(jobs.values(), key=lambda job: job.at_s)),
        trace_format.title,
        tally,
        trace_format.has_dates,
    )


def _chosen_text(path: Path, member: str | None) -> TextFile:
    """Return the only file of an archive, or the only one whose name ends in ``member``.

    Raises :class:`InputFileError` if there are several, or none.
    """
    texts = texts_of(path)
    chosen = texts
    advice = "specify one with --member"
    if member is not None:
        chosen = [text for text in texts if text.name.endswith(member)]
        advice = f"{len(chosen)} of them end in {member!r}"
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(text.name for text in texts[:10])
    raise InputFileError(str(path), f"holds {len(texts)} files, {advice}: {names}")


def _philly_job(line: int, cells: Cells) -> TracedJob:
    """Return the job of a row of a Philly trace, which has dates and durations.

    Jobs have no names there: they are named by their lines. Raises :class:`InvalidValueError`.
    """
    try:
        at_s = parse_time(cells["timestamp"].strip())
    except (ValueError, OverflowError) as error:
        raise InvalidValueError(
            f"timestamp is {cells['timestamp']!r:.40}, expected a time like 2017-10-09 07:01:55"
        ) from error
    return TracedJob(
        f"line{line}",
        at_s,
        _gpu_count(cells, "num_gpus"),
        number(cells, "duration", limit=MOST),
        cluster=cells.get("cluster", "").strip(),
    )


def _pollux_job(_: int, cells: Cells) -> TracedJob:
    """Return the job of a row of a Pollux workload, which has model names but no durations.

    Raises :class:`InvalidValueError`.
    """
    name, model = cells["name"].strip(), cells["application"].strip()
    if not name or not model or any(letter.isspace() for letter in name):
        raise InvalidValueError(
            f"name is {name!r:.40} and application {model!r:.40}, expected one word for each"
        )
    return TracedJob(
        name, number(cells, "time", limit=MOST), _gpu_count(cells, "num_replicas"), None, model
    )


def _gpu_count(cells: Cells, column: str) -> int:
    gpus = count(cells, column, 1, MOST)
    if gpus > MOST_GPUS:
        raise InvalidValueError(f"{column} is {gpus:,}, expected at most {MOST_GPUS:,}")
    return gpus


_FORMATS = (
    _Format("a Philly trace", ("timestamp", "duration", "num_gpus"), _philly_job, has_dates=True),
    _Format(
        "a Pollux workload",
        ("name", "time", "application", "num_replicas"),
        _pollux_job,
        has_dates=False,
    ),
)
