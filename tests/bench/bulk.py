"""How long a bulk of submissions keeps the pilot's loop: ``python tests/bench/bulk.py``.

A pilot over fakes (``support.live_house``), but with its real spool and database on disk, gets
thousands of requests at once while ten trainers run on forty nodes. A release waits for one tick at
most, so the longest tick is the delay. Exit status 1 if a tick took more than 0.2 s of this
process's CPU time; the time on the clock, which others on the machine share, is shown beside.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.live_house import House, house, spec

from bftrainer.pilot.persistence.spool import Request, RequestKind

LIMIT_S = 0.2


def spool(home: House, count: int) -> None:
    """Write the requests of ``count`` calls of submit, without their fsync."""
    for i in range(count):
        trainer = spec(f"t{i:06d}", max_nodes=4)
        request = Request(kind=RequestKind.SUBMIT, trainer=trainer.name, spec=trainer, owner="me")
        (home.spool.path / f"{i:020d}-0.json").write_bytes(request.model_dump_json().encode())


def measure(count: int, folder: Path) -> tuple[list[float], list[float]]:
    """CPU seconds and seconds of each tick from the bulk to its end."""
    home = house(folder, decisions={"max_parallel": 10}, times={"poll_s": 10.0})
    home.cluster.give(*(f"n{i}" for i in range(40)))
    home.submit(*(spec(f"w{i}", max_nodes=4) for i in range(10)))
    home.pilot(5)
    spool(home, count)
    marks: list[tuple[float, float]] = []
    home.after_tick = lambda: marks.append((time.process_time(), time.perf_counter()))
    home.pilot(0.4 * count / 40 + 20)
    left = len(list(home.spool.path.glob("*.json")))
    assert not left, f"{left} requests are left"
    pairs = list(pairwise(marks))[1:]
    cpu_s = [end[0] - start[0] for start, end in pairs]
    clock_s = [end[1] - start[1] for start, end in pairs]
    return cpu_s, clock_s


def main() -> int:
    """Return 1 if a tick was too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, nargs="+", default=[100, 1_000, 10_000])
    options = parser.parse_args()
    table = Table(
        "requests", "ticks", "longest tick, CPU s", "longest, s", "99th percentile, s", "median, s"
    )
    worst = 0.0
    for count in options.requests:
        with tempfile.TemporaryDirectory() as name:
            Path(name).chmod(0o700)
            cpu_s, clock_s = measure(count, Path(name) / "state")
        worst = max(worst, *cpu_s)
        ordered = sorted(clock_s)
        table.add_row(
            f"{count:,}",
            f"{len(clock_s):,}",
            f"{max(cpu_s):.3f}",
            f"{ordered[-1]:.3f}",
            f"{ordered[int(0.99 * len(ordered))]:.3f}",
            f"{ordered[len(ordered) // 2]:.4f}",
        )
    Console(width=110).print(table)
    print(f"longest tick {worst:.3f} s of CPU time (limit {LIMIT_S:g} s)")
    return int(worst > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
