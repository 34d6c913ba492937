"""The sentences at the top of a report, for public job logs, against sums that share no code with importers and replay.

1: node-seconds without a job. 2: the part that waiting jobs fit by size, and an upper bound of what they also fit by time limit
(which of the nodes stay idle is not checked). 3 and 4: from the counts in the decisions of the same replay, the node-hours
used, and the work by the trainers' curves and stalls (how good the decisions are is not checked).
"""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from command_line import bftrainer
from data import data_file

LOGS = (
    "mira-2018-weeks/wk1.log.gz",
    "mira-2018-weeks/wk3.log.gz",
    "theta-lumos-2023/data_theta.csv.gz",
    "pwa-swf/KTH-SP2-1996-2.1-cln.swf.gz",
    "pwa-swf/LLNL-Thunder-2007-1.1-cln.swf.gz",
)


HOURS = 1  # of the replays


class Job(NamedTuple):
    """Seconds since 1970; the limit in seconds, 0 if it is not known."""

    nodes: float
    start: float
    end: float
    queued: float
    limit: float


def jobs_of(path: Path) -> list[Job]:
    """The jobs that ran."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    if path.name.startswith("wk"):
        ended = [dict(re.findall(r"(\S+?)=(\S+)", line)) for line in lines if ";E;" in line]
        return [
            Job(float(j["Resource_List.nodect"]), float(j["start"]), float(j["end"]), float(j["qtime"]), clock_s(j))
            for j in ended
        ]
    if path.name.startswith("data_theta"):
        rows = [[float(cell) for cell in line.split(",")[7:12]] for line in lines[1:]]
        return [Job(n, at + wait, at + wait + run, at, limit) for n, at, wait, run, limit in rows if run > 0]
    head = dict(re.findall(r"^;\s*(\w+):\s*(\d+)", "\n".join(lines), re.MULTILINE))
    per_node = int(head["MaxProcs"]) / int(head["MaxNodes"])
    swf = [[float(cell) for cell in line.split()[1:9]] for line in lines if line and line[0] != ";"]
    zero = int(head["UnixStartTime"])
    return [
        Job(math.ceil(p / per_node), zero + s + max(w, 0), zero + s + max(w, 0) + r, zero + s, limit)
        for s, w, r, p, _, _, _, limit in swf
        if r > 0
    ]


def clock_s(job: dict[str, str]) -> float:
    """The time limit of a PBS record."""
    hours, minutes, seconds = map(float, job["Resource_List.walltime"].split(":"))
    return 3600 * hours + 60 * minutes + seconds


def idle_node_s(jobs: list[Job], nodes: int, start: float, end: float, outages: bool) -> float:
    """Node-seconds without a job, except, with ``outages``, in hours in which nothing runs at all."""
    ends = [(max(a, start), n) for n, a, b, *_ in jobs if b > start and a < end]
    ends += [(min(b, end), -n) for n, a, b, *_ in jobs if b > start and a < end]
    busy, since, idle = 0.0, start, 0.0
    for at, change in [*sorted(ends), (end, 0.0)]:
        if busy or at - since < 3600 or not outages:
            idle += max(nodes - busy, 0) * (at - since)
        busy, since = busy + change, at
    return idle


@functools.cache
def characterized(log: str) -> tuple[dict[str, Any], str]:
    """Its result and its notes."""
    ended = bftrainer("replay", "characterize", data_file(log), "--json")
    assert ended.status == 0, ended
    return json.loads(ended.out), ended.err


def period(notes: str) -> tuple[float, float]:
    found = re.search(r"using (\S+) \.\. (\S+) UTC", notes)
    assert found is not None
    start, end = (datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() for text in found.groups())
    return start, end


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
def test_what_lies_idle(log: str) -> None:
    found, notes = characterized(log)
    start, end = period(notes)
    idle = idle_node_s(jobs_of(data_file(log)), found["machine_nodes"], start, end, "outages excluded" in notes)
    assert 100 * found["idle_share"] == pytest.approx(100 * idle / found["machine_nodes"] / (end - start), abs=0.5)
    assert found["eq_nodes"] == pytest.approx(idle / (end - start), rel=0.03)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
def test_what_a_waiting_job_could_have_used(log: str) -> None:
    found, notes = characterized(log)
    start, end = period(notes)
    jobs = np.array([job for job in jobs_of(data_file(log)) if job.end > start and job.queued < end])
    if found["idle_while"] is None:  # a log of jobs that start as they are submitted
        assert (jobs[:, 1] == jobs[:, 3]).all()
        return
    nodes, started, ended, queued, limit = jobs.T
    at, order = np.concatenate((started, ended)), np.argsort(np.concatenate((started, ended)), kind="stable")
    busy = np.concatenate(([0.0], np.cumsum(np.concatenate((nodes, -nodes))[order])))

    def idle(times: Any) -> Any:
        return np.maximum(found["machine_nodes"] - busy[np.searchsorted(at[order], times, side="right")], 0)

    whole = by_size = by_limit = 0.0
    for now in np.linspace(start, end, 2000):
        free = float(idle(now))
        waits = (queued <= now) & (now < started) & (started - queued >= found["debounce_s"]) & (nodes <= free)
        if free == found["machine_nodes"]:
            continue  # an outage
        need, until = nodes[waits], now + limit[waits]
        stays = np.ones(len(need), bool)
        for share in (0.25, 0.5, 0.75, 1.0):
            probe = now + share * (until - now)
            stays &= (idle(probe) >= need) | (probe >= end)
        whole += free
        by_size += min(free, need.sum())
        by_limit += min(free, need[stays].sum())
    shares = found["idle_while_shares"]
    fits = 1 - shares["too_large"] - shares["beyond"] - shares["no_job"]
    assert 100 * fits == pytest.approx(100 * by_size / whole, abs=1)
    assert 100 * shares["fits"] <= 100 * by_limit / whole + 1


def work_of(
    out: Path, table: dict[str, dict[str, str]], curves: dict[str, list[float]], end: float
) -> tuple[float, float, float]:
    """Hours of idle, used and single nodes; a trainer stalls for Tcup when it gains nodes, for Tcdw when it loses any."""
    rows = list(csv.DictReader(io.StringIO(gzip.decompress((out / "decisions.csv.gz").read_bytes()).decode())))
    at = [datetime.fromisoformat(row["time"]).replace(tzinfo=UTC).timestamp() for row in rows] + [end]
    idle = used = done = 0.0
    before: dict[str, int] = {}
    stalled: dict[str, float] = {}
    for row, now, then in zip(rows, at[:-1], at[1:], strict=True):
        counts = {name: int(n) for name, _, n in (word.partition(":") for word in row["counts"].split())}
        idle += int(row["pool_nodes"]) * (then - now)
        used += sum(counts.values()) * (then - now)
        for name, nodes in counts.items():
            job, had = table[name], before.get(name, 0)
            if nodes != had:
                stall = float(job["Tcup"] if nodes > had else job["Tcdw"])
                stalled[name] = max(stalled.get(name, 0.0), now + stall)
            rates = curves[job["model"][:6]]
            speedup = float(np.interp(nodes, [0, 1, 2, 4, 8, 16, 32, 64], rates)) / rates[1]
            done += speedup * max(then - max(now, stalled.get(name, 0.0)), 0.0)
        before = counts
    return idle / 3600, used / 3600, done / 3600


@pytest.mark.data
@pytest.mark.slow
def test_what_training_uses_and_gains(tmp_path: Path) -> None:
    log = data_file("mira-2018-weeks/wk3.log.gz")
    begin = "2018-06-12T00:00:00"
    curves_file = data_file("summit-trainers-table2/scaling-samples-per-second.csv")
    with curves_file.open(newline="") as file:
        curves = {row[0].lower()[:6]: [float(cell) for cell in row[1:]] for row in list(csv.reader(file))[1:]}
    made = bftrainer(
        "replay",
        "workload",
        "diverse",
        "--count",
        200,
        "--spacing-s",
        0.001,
        "--start",
        begin,
        "--out",
        tmp_path / "t.csv",
    )
    assert made.status == 0, made
    with (tmp_path / "t.csv").open(newline="") as file:
        table = {row["job"]: row for row in csv.DictReader(file)}
    where = ("--start", begin, "--hours", HOURS, "--trainers", tmp_path / "t.csv", "--max-parallel", 20)
    found = []
    for policy in ("bftrainer", "equal-share"):
        ended = bftrainer("replay", "run", "--log", log, *where, "--policy", policy, "--out", tmp_path / policy)
        assert ended.status == 0, ended
        start = datetime.fromisoformat(begin).replace(tzinfo=UTC).timestamp()
        found.append(work_of(tmp_path / policy, table, curves, start + 3600 * HOURS))
    ended = bftrainer("replay", "report", log, *where, "--jobs", 1, "--out", tmp_path / "out")
    assert ended.status == 0, ended
    (idle, used, work), (_, _, equal) = found
    third, fourth = ended.out.splitlines()[3:5]
    told = re.search(r"used (\d+)% of the idle .* On average (\d+) nodes .* that of (\d+) nodes", third)
    assert told is not None
    assert int(told[1]) == pytest.approx(100 * used / idle, abs=0.51)
    assert int(told[2]) == pytest.approx(used / HOURS, abs=0.51)
    assert int(told[3]) == pytest.approx(
        work / HOURS, rel=0.03
    )  # stalls that leave a count as it was are not in the counts
    gain = re.search(r"does ([\d.]+)% more work than giving each an equal number of nodes", fourth)
    assert gain is not None
    assert float(gain[1]) == pytest.approx(100 * (work / equal - 1), abs=1)
    with (tmp_path / "out" / "data" / "replays.csv").open(newline="") as file:
        hours = {
            row["P_jmax"]: float(row["one-node h"].replace(",", ""))
            for row in csv.DictReader(file)
            if row["T_fwd"] == "120 s"
        }
    most = re.search(r"with up to (\d+), the largest number tried, they do (\d+)% more", fourth)
    assert most is not None
    assert int(most[1]) == max(map(int, hours))
    assert int(most[2]) == pytest.approx(100 * (hours[most[1]] / work - 1), abs=4)
