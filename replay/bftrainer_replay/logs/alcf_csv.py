"""Job logs of the Argonne Leadership Computing Facility as CSV: the public yearly ones and the cleaned ones of Lumos.

Lumos (Theta, 2023): submit_time (epoch), wait_time, run_time (s), node_num. The public ones (DIM_JOB_COMPOSITE):
QUEUED_TIMESTAMP, START_TIMESTAMP, END_TIMESTAMP, NODES_USED, and LOCATION with Mira's blocks or Theta's node ranges.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence

from bftrainer.errors import InputFileError
from bftrainer_replay.logs.jobs import BadLineError
from bftrainer_replay.logs.pbs import nodes_of
from bftrainer_replay.logs.source import Source

NAME = "ALCF job CSV"
_LUMOS = ("submit_time", "wait_time", "run_time", "node_num")
_PUBLIC = ("queued_timestamp", "start_timestamp", "end_timestamp", "nodes_used")
_LONGEST_S = 10 * 365 * 86400


def recognises(head: str) -> bool:
    """A header with the columns of either."""
    names = _fields(head.split("\n", 1)[0].rstrip("\r"))
    return all(name in names for name in _LUMOS) or all(name in names for name in _PUBLIC)


def _fields(line: str) -> list[str]:
    try:
        row = next(csv.reader([line]), [])
    except csv.Error:
        return []
    return [name.strip().lower() for name in row]


def read(source: Source) -> None:
    """All rows."""
    tally = source.tally
    names: list[str] = []
    job: Callable[[Source, dict[str, str]], None] = _lumos
    for number, line in source.lines:
        if not line.strip():
            continue
        if not names:
            names = _fields(line)
            if not recognises(line):
                raise InputFileError(
                    f"{source.path}:{number}", f"is no header with {','.join(_LUMOS)} or {','.join(_PUBLIC)}"
                )
            job = _lumos if all(name in names for name in _LUMOS) else _public
            if "gpu_num" in names:
                source.remarks.append("sizes are node_num; in ThetaGPU's log of Lumos that column counts GPUs")
            continue
        tally.read += 1
        try:
            try:
                cells = next(csv.reader([line]))
            except csv.Error as error:
                raise BadLineError(f"is no CSV ({error})") from None
            if len(cells) != len(names):
                raise BadLineError(f"has {len(cells)} fields, expected {len(names)}")
            job(source, dict(zip(names, cells, strict=True)))
        except ValueError as problem:
            tally.bad(number, problem)
            continue
        tally.used += 1


def _lumos(source: Source, cells: dict[str, str]) -> None:
    submit_s = source.clock.seconds(cells["submit_time"])
    wait_s, run_s, nodes = (_number(cells, key) for key in ("wait_time", "run_time", "node_num"))
    if nodes != int(nodes) or nodes < 1:
        raise BadLineError(f"node_num is {nodes:g}")
    if math.isnan(submit_s):
        raise BadLineError("has no submit_time")
    start_s = submit_s + wait_s
    # The run times have fractions, the starts do not: whole seconds, so that an end and the next start can coincide.
    source.rows.add(submit_s, submit_s, start_s, float(round(start_s + run_s)), int(nodes), None)


def _public(source: Source, cells: dict[str, str]) -> None:
    submit_s, start_s, end_s = (source.clock.seconds(_zoned(cells[key])) for key in _PUBLIC[:3])
    count = int(_number(cells, "nodes_used"))
    if math.isnan(start_s):
        raise BadLineError("has no start")
    place = cells.get("location", "").strip()
    nodes: Sequence[int] | None = nodes_of(source, place) if place else None
    source.rows.add(submit_s, submit_s, start_s, end_s, count, nodes)


def _zoned(text: str) -> str:
    """``2018-01-01 00:04:25.000000`` as ISO 8601 reads it."""
    return text.strip().replace(" ", "T", 1)


def _number(cells: dict[str, str], key: str) -> float:
    text = cells[key]
    try:
        value = float(text) if len(text) <= 32 else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value <= _LONGEST_S:
        raise BadLineError(f"{key} is {text[:40]!r}, expected a number, 0 or more")
    return value
