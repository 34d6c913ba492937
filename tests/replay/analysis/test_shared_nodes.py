"""Idle cores and GPUs of shared nodes: by hand, against a plain script on random jobs, and on a log
of Mason's shape.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from replay.logs.test_gpus import FULL, SACCT, job
from support.reading_logs import read

from bftrainer_replay.analysis.shared_nodes import SharedNodes, shared_nodes
from bftrainer_replay.logs.model import restricted_log


def of_log(folder: Path, text: str, **options: object) -> SharedNodes:
    found = shared_nodes(restricted_log(read(folder, SACCT + text, **options).log))
    assert found is not None
    return found


def test_by_hand(tmp_path: Path) -> None:
    """Two nodes of 8 cores and 4 GPUs for two hours: in the second, n1 is partly used and n2 is
    idle.
    """
    text = job(0, 3600, 7200, "n1", 1, "cpu=4,gres/gpu=1,node=1") + job(
        1, 10800, 10900, "n1", 1, FULL
    )
    for number, (start_h, node) in enumerate(((0, "n1"), (0, "n2"), (2, "n1"), (2, "n2")), 2):
        text += job(number, 3600 * start_h, 3600 * start_h + 3600, node, 1, FULL)
    found = of_log(tmp_path, text)
    cores, gpus = found.kinds
    assert (cores.kind, gpus.kind) == ("cores", "gpu")
    assert (cores.whole_nodes_h, cores.parts_h, cores.used_h) == pytest.approx((8, 4, 20), abs=0.05)
    assert (gpus.whole_nodes_h, gpus.parts_h, gpus.used_h) == pytest.approx((4, 3, 9), abs=0.05)
    assert found.jobs_per_busy_node == pytest.approx(1)
    assert (
        "A pilot holds whole nodes only, so it can hold 67% of the idle core-hours, 57% of the "
        "idle GPU-hours" in found.sentence()
    )


def test_without_allocations_only_the_sharing_is_known(tmp_path: Path) -> None:
    text = "".join(job(k, 10, 3600 + k, "n1", 1, "") for k in range(3)) + job(
        9, 8000, 9000, "n1", 1, ""
    )
    opened = read(tmp_path, SACCT + text)
    assert shared_nodes(restricted_log(opened.log)) is None
    assert any(
        each.startswith("jobs share nodes: ") and "(AllocTRES has it)" in each
        for each in opened.remarks
    )


def mason(
    seed: int = 1, nodes: int = 20, cores: int = 32, hours: int = 200
) -> list[tuple[int, int, str, int]]:
    """(start, end, node, cores) of jobs that share nodes, about two on a busy one, as on Indiana's
    Mason.
    """
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
    found = of_log(
        tmp_path,
        "".join(job(k, a, b, n, 1, f"cpu={c},node=1") for k, (a, b, n, c) in enumerate(jobs)),
    )
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
    assert (
        cores.whole_nodes_h / cores.available_h,
        cores.idle_h / cores.available_h,
    ) == pytest.approx((0.078, 0.597), abs=0.01)
