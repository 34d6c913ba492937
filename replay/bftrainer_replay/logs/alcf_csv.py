"""Job logs of the Argonne Leadership Computing Facility as CSV: the public logs per year, and the
cleaned logs of Lumos.

Lumos (Theta, 2023): submit_time (epoch), wait_time, run_time (s), node_num. Public logs
(DIM_JOB_COMPOSITE): QUEUED_TIMESTAMP, START_TIMESTAMP, END_TIMESTAMP, NODES_USED, and LOCATION with
Mira's blocks or Theta's node ranges.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence

from bftrainer.errors import InputFileError
from bftrainer_replay.logs.fields import is_node_name, name_of
from bftrainer_replay.logs.job_needs import JobFact, JobNeeds
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.pbs import nodes_of
from bftrainer_replay.logs.source import Source

NAME = "ALCF job CSV"
_LUMOS = ("submit_time", "wait_time", "run_time", "node_num")
_PUBLIC = ("queued_timestamp", "start_timestamp", "end_timestamp", "nodes_used")
_LONGEST_S = 10 * 365 * 86400


def recognizes(head: str) -> bool:
    """Return whether the first line is a header with the columns of either format."""
    names = _column_names(head.split("\n", 1)[0].rstrip("\r"))
    return all(name in names for name in _LUMOS) or all(name in names for name in _PUBLIC)


def _column_names(line: str) -> list[str]:
    """Return the column names in a header, in lower case; none if the line is not CSV."""
    try:
        row = next(csv.reader([line]), [])
    except csv.Error:
        return []
    return [name.strip().lower() for name in row]


def read(source: Source) -> None:
    """Add all rows of a CSV file as jobs, in ALCF's format or in that of the Lumos project.

    The header tells which of them it is.
    """
    names: list[str] = []
    header = ""
    add_job: Callable[[Source, dict[str, str]], None] = _add_lumos_job
    for number, line in source.lines:
        if not line.strip():
            continue
        if not names:
            names, header = _column_names(line), line
            if not recognizes(line):
                problem = f"is not a header with {','.join(_LUMOS)} or {','.join(_PUBLIC)}"
                raise InputFileError(f"{source.path}:{number}", problem)
            if not any("job" in name for name in names):
                source.tally.record_hashes = None  # without job ids, equal rows are different jobs
            add_job = _add_lumos_job if all(name in names for name in _LUMOS) else _add_public_job
            if "gpu_num" in names:
                source.remarks.append(
                    "job sizes are from node_num, which counts GPUs in Lumos's log of ThetaGPU"
                )
            continue
        if line == header:  # the next of several files
            source.tally.read += 1
            source.tally.ignore("repeated headers")
            continue
        source.tally.take(number, line, _add_row, source, line, names, add_job)


def _add_row(
    source: Source, line: str, names: list[str], add_job: Callable[[Source, dict[str, str]], None]
) -> None:
    """Split a line into its cells, and add them as a job by ``add_job``; raises
    :class:`ValueError`.

    ``names`` are the columns.
    """
    try:
        cells = next(csv.reader([line]))
    except csv.Error as error:
        raise BadLineError(f"is not CSV ({error})") from None
    if len(cells) != len(names):
        raise BadLineError(f"has {len(cells)} fields, expected {len(names)}")
    add_job(source, dict(zip(names, cells, strict=True)))


def _add_lumos_job(source: Source, cells: dict[str, str]) -> None:
    """Add a job of the Lumos project's format to ``source``; raises :class:`BadLineError`.

    It has no node names, and its times are relative to the submission.
    """
    submit_s = source.clock.seconds(cells["submit_time"])
    wait_s, run_s, nodes = (
        _parse_number(cells, key) for key in ("wait_time", "run_time", "node_num")
    )
    if nodes != int(nodes) or nodes < 1:
        raise BadLineError(f"node_num is {nodes:g}, expected a whole number of 1 or more")
    if math.isnan(submit_s):
        raise BadLineError("has no submit_time")
    start_s = submit_s + wait_s
    # Run times have fractions, starts do not: ends are rounded, so that an end and the next start
    # can coincide.
    limit_s = _limit_s(source, cells, "wall_time")
    source.rows.add(
        submit_s, submit_s, start_s, float(round(start_s + run_s)), int(nodes), None, limit_s
    )


def _add_public_job(source: Source, cells: dict[str, str]) -> None:
    """Add a job of ALCF's public format, whose column ``location`` names the nodes."""
    submit_s, start_s, end_s = (source.clock.seconds(_iso_time(cells[key])) for key in _PUBLIC[:3])
    node_count = int(_parse_number(cells, "nodes_used"))
    if math.isnan(start_s):
        raise BadLineError("has no start")
    place = cells.get("location", "").strip()
    nodes: Sequence[int] | None = nodes_of(source, place) if place else None
    queue = cells.get("queue_name", "").strip()
    # Without a place, no node is known to be of a queue.
    if queue and place:
        source.facts.add(JobFact.PARTITION)
    project = name_of(cells.get("project_name", ""))
    needs = source.rows.needs(
        JobNeeds(queue if is_node_name(queue) and place else "", account=project)
    )
    limit_s = _limit_s(source, cells, "walltime_seconds")
    source.rows.add(submit_s, submit_s, start_s, end_s, node_count, nodes, limit_s, needs)


def _limit_s(source: Source, cells: dict[str, str], key: str) -> float:
    """Return the time limit in column ``key``; NaN where there is none."""
    if not cells.get(key, "").strip():
        return math.nan
    source.facts.add(JobFact.TIME_LIMIT)
    return _parse_number(cells, key) or math.nan


def _iso_time(text: str) -> str:
    """Turn ``2018-01-01 00:04:25.000000`` into ISO 8601."""
    return text.strip().replace(" ", "T", 1)


def _parse_number(cells: dict[str, str], key: str) -> float:
    """Return a cell as a number of 0 or more; raises :class:`BadLineError`."""
    text = cells[key]
    try:
        value = float(text) if len(text) <= 32 else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value <= _LONGEST_S:
        raise BadLineError(f"{key} is {text[:40]!r}, expected a number, 0 or more")
    return value
