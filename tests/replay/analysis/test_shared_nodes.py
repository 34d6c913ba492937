"""Idle cores and GPUs of shared nodes: by hand, against a plain script on random jobs, and on a log of Mason's shape."""

from __future__ import annotations

import csv
import gzip
import io
import random
from datetime import datetime, timezone
from pathlib import Path

import pytest
from data import data_file
from reading_logs import read

from bftrainer_replay.analysis.shared_nodes import SharedNodes, shared_nodes
from bftrainer_replay.logs.model import cut

HEADER = "JobID|Submit|Start|End|NNodes|NodeList|State|AllocTRES\n"


def row(number: int, start_s: int, end_s: int, nodes: str, count: int, tres: str) -> str:
    start, end = 1_700_000_000 + start_s, 1_700_000_000 + end_s
    return f"{number}|{start}|{start}|{end}|{count}|{nodes}|COMPLETED|{tres}\n"


def of_log(folder: Path, text: str, **options: object) -> SharedNodes:
    found = shared_nodes(cut(read(folder, HEADER + text, **options).log))
    assert found is not None
    return found


def test_by_hand(tmp_path: Path) -> None:
    """Two nodes of 8 cores and 4 GPUs for two hours: in the second, n1 is partly used and n2 is idle."""
    full = "cpu=8,gres/gpu=4,gres/gpu:a100=4,node=1"
    text = (
        row(1, 0, 3600, "n1", 1, full)
        + row(2, 0, 3600, "n2", 1, full)
        + row(3, 3600, 7200, "n1", 1, "cpu=4,gres/gpu=1,node=1")
    )
    text += (
        row(4, 7200, 10800, "n2", 1, full) + row(5, 7200, 10800, "n1", 1, full) + row(6, 10800, 10900, "n1", 1, full)
    )
    found = of_log(tmp_path, text)
    cores, gpus = found.kinds
    assert (cores.kind, gpus.kind) == ("cores", "gpu")
    assert (cores.whole_nodes_h, cores.parts_h, cores.used_h) == pytest.approx((8, 4, 20), abs=0.05)
    assert (gpus.whole_nodes_h, gpus.parts_h, gpus.used_h) == pytest.approx((4, 3, 9), abs=0.05)
    assert found.jobs_per_busy_node == pytest.approx(1)
    assert (
        "A pilot holds whole nodes only, so it can hold 67% of the idle core-hours, 57% of the idle GPU-hours"
        in found.sentence()
    )


def test_without_allocations_only_the_sharing_is_known(tmp_path: Path) -> None:
    text = "".join(row(k, 10, 3600 + k, "n1", 1, "") for k in range(3)) + row(9, 8000, 9000, "n1", 1, "")
    opened = read(tmp_path, HEADER + text)
    assert shared_nodes(cut(opened.log)) is None
    assert any(each.startswith("jobs share nodes: ") and "(AllocTRES has it)" in each for each in opened.remarks)


def mason(seed: int = 1, nodes: int = 20, cores: int = 32, hours: int = 200) -> list[tuple[int, int, str, int]]:
    """(start, end, node, cores) of jobs that share nodes, about two on a busy one, as on Indiana's Mason."""
    rng = random.Random(seed)
    jobs = [(0, 600, f"n{node}", cores) for node in range(nodes)]
    for node in range(nodes):
        free, ends, now = cores, [], 600
        while now < hours * 3600:
            now += int(rng.expovariate(1 / 5000))
            for end, size in sorted(ends):
                if end <= now:
                    free += size
            ends = [(end, size) for end, size in ends if end > now]
            size = rng.choice((1, 2, 4, 8, 16))
            if size <= free:
                end = now + int(rng.expovariate(1 / 14000)) + 60
                jobs.append((now, end, f"n{node}", size))
                ends.append((end, size))
                free -= size
    return jobs


def test_a_shared_cluster_agrees_with_every_minute_counted(tmp_path: Path) -> None:
    jobs = mason()
    found = of_log(tmp_path, "".join(row(k, a, b, n, 1, f"cpu={c},node=1") for k, (a, b, n, c) in enumerate(jobs)))
    begin, end = min(b for _, b, _, _ in jobs), max(a for a, _, _, _ in jobs)
    whole = parts = used = 0
    busy = {n: [(a, b, c) for a, b, m, c in jobs if m == n] for _, _, n, _ in jobs}
    for mine in busy.values():
        for second in range(begin + 30, end, 60):
            now = sum(c for a, b, c in mine if a <= second < b)
            used += now
            whole += 32 * (now == 0)
            parts += (32 - now) * (now > 0)
    (cores,) = found.kinds
    assert (cores.whole_nodes_h, cores.parts_h, cores.used_h) == pytest.approx(
        (whole / 60, parts / 60, used / 60), rel=0.002
    )
    assert cores.idle_h + cores.used_h == pytest.approx(20 * 32 * (end - begin) / 3600)
    assert 1.8 < found.jobs_per_busy_node < 2.8
    # Of all core-hours: what the number of idle nodes alone tells, and what lies idle.
    assert (cores.whole_nodes_h / cores.available_h, cores.idle_h / cores.available_h) == pytest.approx(
        (0.078, 0.597), abs=0.01
    )


@pytest.mark.data
def test_the_picture_of_a_public_gpu_cluster() -> None:
    """Helios Earth, May 2020: no placement is public, so jobs of whole nodes and of parts bound what a pilot could hold."""
    text = gzip.decompress(data_file("helios-earth/earth-minutes.csv.gz").read_bytes()).decode()
    last: dict[str, tuple[float, dict[str, float]]] = {}
    idle = best = total = 0.0
    finish = datetime(2020, 6, 1, tzinfo=timezone.utc).timestamp()
    rows = list(csv.DictReader(io.StringIO(text)))
    rows += [{**row, "time": "2020-06-01 00:00:00"} for row in {row["virtual_cluster"]: row for row in rows}.values()]
    for row in rows:
        name, at_s = row["virtual_cluster"], min(datetime.fromisoformat(f"{row['time']}+00:00").timestamp(), finish)
        now = {key: float(value) for key, value in row.items() if key.endswith(("gpu_num", "less_8"))}
        if name in last:
            since_s, was = last[name]
            hours = (at_s - since_s) / 3600
            nodes = was["total_gpu_num"] // 8
            busy = -(-was["running_gpu_num_noless_8"] // 8) + -(-was["running_gpu_num_less_8"] // 8)
            idle += was["idle_gpu_num"] * hours
            best += min(8 * max(0.0, nodes - busy), was["idle_gpu_num"]) * hours
            total += was["total_gpu_num"] * hours
        last[name] = (at_s, now)
    assert 100 * idle / total == pytest.approx(33, abs=1)
    assert 100 * best / idle == pytest.approx(91, abs=2)
