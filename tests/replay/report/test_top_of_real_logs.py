"""The figures at the top of a report, for public job logs, against sums that share no code with
importers and replay.

Idle: node-seconds without a job. Waiting jobs: the part that they fit by size, and an upper bound
of what they also fit by time limit (which of the nodes stay idle is not checked). Trainings: from
the counts in the decisions of the same replay, the node-hours held, and the work by the trainers'
curves and stalls; a pool works on the rest; equal shares are divided again (how good bftrainer's
decisions are is not checked here). Plain jobs: one draw of which nodes they are on. Summit's log
has no jobs, and Thunder's no waiting ones: the page does not tell what those could have used.
"""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replay.commands import executed
from support.data import data_file
from support.log_sums import each_node_once, idle_node_s, jobs_of, listed_idle_node_s, seconds

SUMMIT = "summit-2021-02/summit-2021-02-events.csv.gz"
THUNDER = "pwa-swf/LLNL-Thunder-2007-1.1-cln.swf.gz"  # every job starts as it is submitted
WAGAP = "wagap-2013-nodeids/wagap-2013.swf.gz"
JOB_LOGS = (
    "mira-2018-weeks/wk1.log.gz",
    "mira-2018-weeks/wk3.log.gz",
    "theta-lumos-2023/data_theta.csv.gz",
    "pwa-swf/KTH-SP2-1996-2.1-cln.swf.gz",
    THUNDER,
    WAGAP,
    "xdmod-sacct-nodelist/phillips.log.gz",
    "xdmod-sacct-nodelist/pozidriv.log.gz",
)
OPTIONS = {SUMMIT: ("--machine-nodes", 4734), WAGAP: ("--skip-bad",)}


@functools.cache
def characterized(log: str) -> tuple[dict[str, Any], str]:
    """Its result and its notes."""
    ended = executed("replay", "characterize", data_file(log), *OPTIONS.get(log, ()), "--json")
    return json.loads(ended.out), ended.err


def period(notes: str) -> tuple[float, float]:
    found = re.search(r"using (\S+) \.\. (\S+) UTC", notes)
    return seconds(found[1]), seconds(found[2])


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("log", [SUMMIT, *JOB_LOGS])
def test_what_lies_idle(log: str) -> None:
    found, notes = characterized(log)
    if log == SUMMIT:
        idle, span = listed_idle_node_s(data_file(log))
    else:
        start, end = period(notes)
        outages = "outages excluded" in notes
        idle, span = idle_node_s(
            jobs_of(data_file(log)), found["machine_nodes"], start, end, outages
        )
        assert (found["outage_h"] > 0) == outages
    assert 100 * found["idle_share"] == pytest.approx(
        100 * idle / found["machine_nodes"] / span, abs=0.5
    )
    assert found["eq_nodes"] == pytest.approx(idle / span, rel=0.03)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("log", JOB_LOGS)
def test_what_a_waiting_job_could_have_used(log: str) -> None:
    found, notes = characterized(log)
    start, end = period(notes)
    there = [job for job in jobs_of(data_file(log)) if job.end > start and job.queued < end]
    nodes, started, _, queued, limit = np.array([job[:5] for job in there]).T
    if found["idle_while"] is None:  # a log of jobs that start as they are submitted
        assert (started == queued).all()
        return
    took, since, until = np.array([job[:3] for job in each_node_once(there)]).T
    at, order = (
        np.concatenate((since, until)),
        np.argsort(np.concatenate((since, until)), kind="stable"),
    )
    busy = np.concatenate(([0.0], np.cumsum(np.concatenate((took, -took))[order])))

    def idle(times: Any) -> Any:
        return np.maximum(
            found["machine_nodes"] - busy[np.searchsorted(at[order], times, side="right")], 0
        )

    whole = by_size = by_limit = 0.0
    for now in np.linspace(start, end, 2000):
        free = float(idle(now))
        waits = (
            (queued <= now)
            & (now < started)
            & (started - queued >= found["debounce_s"])
            & (nodes <= free)
        )
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


def number(text: str) -> float:
    return float(text.replace(",", ""))


def rows_of(out: Path) -> list[dict[str, str]]:
    return list(
        csv.DictReader(
            io.StringIO(gzip.decompress((out / "decisions.csv.gz").read_bytes()).decode())
        )
    )


def decisions_of(out: Path) -> list[tuple[float, int, dict[str, int]]]:
    """Time, pool and counts of each decision of a replay."""
    return [
        (
            seconds(row["time"]),
            int(row["pool_nodes"]),
            {
                name: int(n)
                for name, _, n in (word.partition(":") for word in row["counts"].split())
            },
        )
        for row in rows_of(out)
    ]


def check_equal_shares(out: Path, all_are_there_s: float) -> None:
    """Each of the admitted has the whole part of its share, and as few nodes as possible are
    left.
    """
    for at, pool, counts in decisions_of(out):
        if at < all_are_there_s:
            continue
        nodes = sorted(counts.values(), reverse=True) + [0] * (PLACES - len(counts))
        assert sum(nodes) == min(pool, PLACES * LARGEST)
        assert nodes[PLACES - 1] == min(pool // PLACES, LARGEST)


def work_of(
    out: Path, table: dict[str, dict[str, str]], curves: dict[str, list[float]], end: float
) -> tuple[float, float, float]:
    """Hours of idle, used and single nodes; a trainer stalls for Tcup when it gains nodes, for Tcdw
    when it loses any.
    """
    rows = decisions_of(out)
    idle = used = done = 0.0
    before: dict[str, int] = {}
    stalled: dict[str, float] = {}
    for (now, pool, counts), then in zip(rows, [at for at, _, _ in rows[1:]] + [end], strict=True):
        idle += pool * (then - now)
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


def plain_work_h(out: Path, end: float, jobs: int) -> float:
    """Hours that so many one-node jobs work if chance decides which idle nodes they are on: 18 s
    are lost at each start.
    """
    rng = np.random.default_rng(1)
    idle = running = 0
    work = at = 0.0
    for row in rows_of(out):
        now, left, joined = seconds(row["time"]), int(row["left"]), int(row["joined"])
        work += running * (now - at)
        lost = int(rng.hypergeometric(running, idle - running, left)) if left else 0
        idle, before = idle - left + joined, running - lost
        assert idle == int(row["pool_nodes"])
        running, at = min(idle, jobs), now
        work -= 18 * (running - before)
    return (work + running * (end - at)) / 3600


WINDOWS = {
    SUMMIT: ("2021-02-18T00:00:00", 1),
    "mira-2018-weeks/wk1.log.gz": ("2018-01-22T00:00:00", 0.5),
    "mira-2018-weeks/wk3.log.gz": ("2018-06-12T00:00:00", 0.5),
    "theta-lumos-2023/data_theta.csv.gz": ("2023-02-10T00:00:00", 3),
    "pwa-swf/KTH-SP2-1996-2.1-cln.swf.gz": ("1996-11-05T00:00:00", 12),
    THUNDER: ("2007-04-12T00:00:00", 2),
    WAGAP: ("2013-01-20T00:00:00", 48),
    "xdmod-sacct-nodelist/phillips.log.gz": ("2016-12-30T12:00:00", 12),
    "xdmod-sacct-nodelist/pozidriv.log.gz": ("2016-12-30T12:00:00", 6),
}
"""The start of each replay and its hours."""
PLACES = 20
LARGEST = 64


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("log", WINDOWS)
def test_what_training_uses_and_gains(log: str, tmp_path: Path) -> None:
    begin, hours = WINDOWS[log]
    curves_file = data_file("summit-trainers-table2/scaling-samples-per-second.csv")
    with curves_file.open(newline="") as file:
        curves = {
            row[0].lower()[:6]: [float(cell) for cell in row[1:]]
            for row in list(csv.reader(file))[1:]
        }
    table_file = tmp_path / "t.csv"
    many = ("--count", 200, "--spacing-s", 0.001, "--start", begin)
    executed("replay", "workload", "diverse", *many, "--out", table_file)
    table = {row["job"]: row for row in csv.DictReader(table_file.read_text().splitlines())}
    trainers = ("--trainers", table_file, "--max-parallel", PLACES)
    where = (*OPTIONS.get(log, ()), "--start", begin, "--hours", hours, *trainers)
    found = []
    for policy in ("bftrainer", "equal-share"):
        ended = executed(
            "replay",
            "run",
            data_file(log),
            *where,
            "--policy",
            policy,
            "--out",
            tmp_path / policy,
        )
        found.append(work_of(tmp_path / policy, table, curves, seconds(begin) + 3600 * hours))
    check_equal_shares(tmp_path / "equal-share", seconds(begin) + 1)
    ended = executed(
        "replay", "report", data_file(log), *where, "--jobs", 1, "--out", tmp_path / "out"
    )
    (idle, used, work), (_, _, equal) = found
    figures = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (figures["fillable_share"] is None) == (log in (SUMMIT, THUNDER))
    assert figures["idle_node_h_a_month"] == pytest.approx(720 * idle / hours, rel=0.005)
    assert 100 * figures["held_share"] == pytest.approx(100 * used / idle, abs=1)
    assert figures["mean_idle_nodes"] * figures["held_share"] == pytest.approx(
        used / hours, rel=0.006
    )
    # Stalls that leave a count as it was are not in the counts.
    assert figures["work_share"] == pytest.approx(work / idle, rel=0.03)
    told = re.search(
        r"trainings: ([\d.]+)% of the idle node-hours become work: ([\d,.]+(?: million)?) a month",
        ended.out,
    )
    assert told is not None, ended.out
    assert float(told[1]) == pytest.approx(100 * work / idle, abs=2.5)
    most = max(pool for _, pool, _ in decisions_of(tmp_path / "bftrainer"))
    caps = ((LARGEST, "even one could"), (PLACES * LARGEST, "together, these trainings could"))
    cap = next(
        (words for room, words in caps if most <= room),
        f"this caps what {PLACES} can use at 1,280 nodes",
    )
    assert f"Each training may spread over up to {LARGEST} nodes: {cap}" in ended.out
    assert ("Jobs here get blocks of the torus" in ended.out) == log.startswith("mira")
    month = number(told[2].removesuffix(" million")) * (1e6 if "million" in told[2] else 1)
    assert month == pytest.approx(720 * work / hours, rel=0.04)
    # A pool works on what is left of the idle nodes, but for its starts: of a node that joined, or
    # that a training gave back.
    joined = sum(int(row["joined"]) for row in rows_of(tmp_path / "bftrainer"))
    assert -0.001 <= 1 - used / idle - figures["pool_share"] <= 18 * joined / 3600 / idle + 0.01
    ended_as = csv.DictReader((tmp_path / "bftrainer" / "trainers.csv").read_text().splitlines())
    taken = sum(int(row["preemptions"]) for row in ended_as)
    assert figures["preemptions_a_month"] == pytest.approx(720 * taken / hours)
    for plain in figures["plain"]:
        own = plain_work_h(tmp_path / "bftrainer", seconds(begin) + 3600 * hours, plain["jobs"])
        assert 100 * plain["share"] == pytest.approx(100 * own / idle, abs=1.5)
    rows = list(
        csv.DictReader((tmp_path / "out" / "data" / "replays.csv").read_text().splitlines())
    )
    assert number(rows[0]["work (%)"]) == pytest.approx(100 * work / idle, abs=2.5)
    shared = next(row for row in rows if row["policy"] == "equal-share")
    assert 1 / (1 + number(shared["work, other than first (%)"]) / 100) == pytest.approx(
        work / equal, rel=0.02
    )
