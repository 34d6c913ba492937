"""The first sentence of a report, for each public job log, against a sum that shares no code with the importers."""

from __future__ import annotations

import gzip
import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path

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


def jobs_of(path: Path) -> list[tuple[float, float, float]]:
    """(nodes, start, end) of the jobs that ran."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    if path.name.startswith("wk"):
        ended = [dict(re.findall(r"(\S+?)=(\S+)", line)) for line in lines if ";E;" in line]
        return [(float(job["Resource_List.nodect"]), float(job["start"]), float(job["end"])) for job in ended]
    if path.name.startswith("data_theta"):
        rows = [[float(cell) for cell in line.split(",")[7:11]] for line in lines[1:]]
        return [(nodes, submit + wait, submit + wait + run) for nodes, submit, wait, run in rows if run > 0]
    head = dict(re.findall(r"^;\s*(\w+):\s*(\d+)", "\n".join(lines), re.MULTILINE))
    per_node = int(head["MaxProcs"]) / int(head["MaxNodes"])
    swf = [[float(cell) for cell in line.split()[1:5]] for line in lines if line and line[0] != ";"]
    begin = int(head["UnixStartTime"])
    return [(math.ceil(p / per_node), begin + s + max(w, 0), begin + s + max(w, 0) + r) for s, w, r, p in swf if r > 0]


def idle_node_s(jobs: list[tuple[float, float, float]], nodes: int, start: float, end: float, outages: bool) -> float:
    """Node-seconds without a job, except, with ``outages``, in hours in which nothing runs at all."""
    ends = [(max(a, start), n) for n, a, b in jobs if b > start and a < end]
    ends += [(min(b, end), -n) for n, a, b in jobs if b > start and a < end]
    busy, since, idle = 0.0, start, 0.0
    for at, change in [*sorted(ends), (end, 0.0)]:
        if busy or at - since < 3600 or not outages:
            idle += max(nodes - busy, 0) * (at - since)
        busy, since = busy + change, at
    return idle


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
def test_what_lies_idle(log: str) -> None:
    ended = bftrainer("replay", "characterize", data_file(log), "--json")
    assert ended.status == 0, ended
    found = json.loads(ended.out)
    period = re.search(r"using (\S+) \.\. (\S+) UTC", ended.err)
    assert period is not None
    start, end = (datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() for text in period.groups())
    idle = idle_node_s(jobs_of(data_file(log)), found["machine_nodes"], start, end, "outages excluded" in ended.err)
    assert 100 * found["idle_share"] == pytest.approx(100 * idle / found["machine_nodes"] / (end - start), abs=0.5)
    assert found["eq_nodes"] == pytest.approx(idle / (end - start), rel=0.03)
