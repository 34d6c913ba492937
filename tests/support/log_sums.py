"""Job logs and their idle node-seconds in a few lines that share no code with importers and
replay.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Job(NamedTuple):
    """Seconds since 1970; the limit in seconds, 0 if it is not known. ``names`` only where jobs may
    share nodes.
    """

    nodes: float
    start: float
    end: float
    queued: float
    limit: float
    names: frozenset[str] = frozenset()


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def jobs_of(path: Path) -> list[Job]:
    """The jobs that ran."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    if path.name.startswith("wk"):
        ended = [dict(re.findall(r"(\S+?)=(\S+)", line)) for line in lines if ";E;" in line]
        return [
            Job(
                float(j["Resource_List.nodect"]),
                float(j["start"]),
                float(j["end"]),
                float(j["qtime"]),
                clock_s(j),
            )
            for j in ended
        ]
    if path.name.startswith("data_theta"):
        rows = [[float(cell) for cell in line.split(",")[7:12]] for line in lines[1:]]
        return [
            Job(n, at + wait, at + wait + run, at, limit)
            for n, at, wait, run, limit in rows
            if run > 0
        ]
    if ".swf" not in path.name:  # sacct: submit, start, end, number of nodes, time limit, names
        cells = [line.split("|") for line in lines]
        return [
            Job(
                float(c[17]),
                seconds(c[12]),
                seconds(c[13]),
                seconds(c[10]),
                limit_s(c[23]),
                names(c[24]),
            )
            for c in cells
            if c[12] < c[13] and c[24] != "None assigned"
        ]
    head = dict(re.findall(r"^;\s*(\w+):\s*(\d+)", "\n".join(lines), re.MULTILINE))
    per_node = int(head.get("MaxProcs", 1)) / int(head.get("MaxNodes", 1))
    swf = [[float(cell) for cell in line.split()[1:9]] for line in lines if line and line[0] != ";"]
    zero = int(head.get("UnixStartTime", 0))
    where = [re.search(r"\{(.*)\}", line) for line in lines if line and line[0] != ";"]
    on = [frozenset(found[1].split(",")) if found else frozenset[str]() for found in where]
    return [
        Job(
            len(n) or math.ceil(p / per_node),
            zero + s + max(w, 0),
            zero + s + max(w, 0) + r,
            zero + s,
            limit,
            n,
        )
        for (s, w, r, p, _, _, _, limit), n in zip(swf, on, strict=True)
        if r > 0
    ]


def names(hosts: str) -> frozenset[str]:
    """Those of a Slurm host list with one range each."""
    found: list[str] = []
    for start, ranges in re.findall(r"([^,\[]+)(?:\[([^\]]*)\])?", hosts):
        for one in ranges.split(",") if ranges else [""]:
            first, _, last = one.partition("-")
            several = range(int(first), int(last or first) + 1) if first else [""]
            found += [f"{start}{number:0{len(first)}d}" if first else start for number in several]
    return frozenset(found)


def limit_s(text: str) -> float:
    """The time limit of sacct, [D-]HH:MM:SS."""
    days, _, clock = text.rpartition("-")
    if clock.count(":") != 2:
        return 0.0
    hours, minutes, rest = map(float, clock.split(":"))
    return 86400 * float(days or 0) + 3600 * hours + 60 * minutes + rest


def each_node_once(jobs: list[Job]) -> list[Job]:
    """In place of jobs that share nodes: for each node the periods in which it has one or more."""
    at: dict[str, list[tuple[float, float]]] = {}
    for job in jobs:
        for name in job.names:
            at.setdefault(name, []).append((job.start, job.end))
    periods: list[Job] = [job for job in jobs if not job.names]
    for of_node in at.values():
        until = -math.inf
        for start, end in sorted(of_node):
            if end > until:
                periods.append(Job(1, max(start, until), end, start, 0))
                until = end
    return periods


def clock_s(job: dict[str, str]) -> float:
    """The time limit of a PBS record."""
    hours, minutes, seconds = map(float, job["Resource_List.walltime"].split(":"))
    return 3600 * hours + 60 * minutes + seconds


def idle_node_s(
    jobs: list[Job], nodes: int, start: float, end: float, outages: bool
) -> tuple[float, float]:
    """Node-seconds without a job, and seconds: with ``outages``, without hours in which nothing
    runs at all.
    """
    jobs = [job for job in each_node_once(jobs) if job.end > start and job.start < end]
    ends = [(max(job.start, start), job.nodes) for job in jobs]
    ends += [(min(job.end, end), -job.nodes) for job in jobs]
    busy, since, idle, span = 0.0, start, 0.0, 0.0
    for at, change in [*sorted(ends), (end, 0.0)]:
        if busy or at - since < 3600 or not outages:
            idle += max(nodes - busy, 0) * (at - since)
            span += at - since
        busy, since = busy + change, at
    return idle, span


def listed_idle_node_s(path: Path) -> tuple[float, float]:
    """Node-seconds and seconds of a log of idle nodes: time, joined, left."""
    rows = list(csv.reader(gzip.decompress(path.read_bytes()).decode().splitlines()))[1:]
    at = [seconds(row[0]) for row in rows]
    idle = np.cumsum([len(joined.split()) - len(left.split()) for _, joined, left in rows])
    return float(np.dot(idle[:-1], np.diff(at))), at[-1] - at[0]
