"""CPU of a refresh of ``bftrainer top`` at 100 trainers and 5,000 nodes: ``python tests/bench/top.py``.

A pilot over fakes holds 5,000 nodes for 100 trainers and writes its real database. Nodes join and leave at every second of its
clock, so each of the 50 refreshes finds a new decision (a real pilot polls every 10 s). A refresh is the work of the screen in
one second: read new rows and draw them, at 80x24 and 200x60. CPU time is that of the screen's thread (user and system); the
pilot waits meanwhile. Exit status 1 if the 95th percentile is above 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from live_house import House, house, spec
from rich.console import Console
from rich.table import Table
from top_scene import train

from bftrainer.cli.top import text as top_text
from bftrainer.cli.top.app import Top
from bftrainer.cli.top.reader import Reader

TRAINERS, NODES, REFRESHES, LIMIT_MS = 100, 5000, 50, 100.0
SETTLED_S = 25.0
CHURN = 8


def a_house(path: Path) -> House:
    h = house(path, nodes={"max_pending": NODES, "unused_after_s": 30.0}, decisions={"max_parallel": TRAINERS})
    h.cluster.give(*(f"n{i:05d}" for i in range(NODES)))
    h.submit(*(spec(f"trainer-{i:03d}", 60, samples_per_s=50.0 + i, samples_total=1e7) for i in range(TRAINERS)))
    return h


def churn(h: House, turn: int) -> None:
    """Take some nodes; give back those of the previous turn."""
    names = [[f"n{(CHURN * t + i) % NODES:05d}" for i in range(CHURN)] for t in (turn - 1, turn)]
    h.cluster.give(*names[0])
    for name in names[1]:
        h.cluster.take(name)


def measure(width: int, height: int) -> tuple[list[float], float, int, int]:
    """CPU milliseconds of each refresh and of the first one, nodes held, number of decisions."""
    with tempfile.TemporaryDirectory(prefix="bftrainer-bench-", ignore_cleanup_errors=True) as folder:
        h = a_house(Path(folder) / "state")
        ends: list[bool] = []
        go, waits, seen = threading.Semaphore(0), threading.Semaphore(0), [SETTLED_S]
        trains = train(h, {f"trainer-{i:03d}": 50.0 + i for i in range(TRAINERS)})

        def tick() -> None:
            trains()
            if h.clock.elapsed_s() >= seen[0]:
                seen[0] += 1.0
                waits.release()
                go.acquire()
                if ends:
                    raise SystemExit  # of this thread
                churn(h, int(seen[0]))

        h.after_tick = tick
        pilot = threading.Thread(target=h.pilot, args=(1e9,), daemon=True)
        pilot.start()
        figures: list[float] = []
        first = decisions = held = 0.0

        async def run() -> None:
            nonlocal first, held, decisions
            reader = Reader(h.path, h.clock.now_s)
            waits.acquire()
            began = time.thread_time()
            app = Top(reader, 0, top_text.UNICODE)
            async with app.run_test(size=(width, height)) as screen:
                await screen.pause()
                first = 1e3 * (time.thread_time() - began)
                for _ in range(REFRESHES):
                    go.release()
                    waits.acquire()
                    began = time.thread_time()
                    app.look()
                    await screen.pause()
                    figures.append(1e3 * (time.thread_time() - began))
                    decisions += len(app.board.last.decisions)
                held = app.board.last.held
                assert len(app.board.rows()) == TRAINERS
            reader.close()

        asyncio.run(run())
        ends.append(True)
        go.release()
        pilot.join()
        return figures, first, int(held), int(decisions)


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    table = Table(title=f"CPU of a refresh, {TRAINERS} trainers, {NODES} nodes, {REFRESHES} refreshes")
    for column in ("screen", "nodes held", "decisions", "median ms", "p95 ms", "the most", "start ms"):
        table.add_column(column, justify="right")
    worst = 0.0
    for width, height in ((80, 24), (200, 60)):
        figures, first, held, decisions = measure(width, height)
        p95 = statistics.quantiles(figures, n=20)[-1]
        worst = max(worst, p95)
        table.add_row(
            f"{width}x{height}", f"{held:,}", str(decisions), f"{statistics.median(figures):.1f}", f"{p95:.1f}",
            f"{max(figures):.1f}", f"{first:.0f}",
        )  # fmt: skip
    Console(width=120).print(table)
    print(f"p95 at most {worst:.1f} ms of CPU (limit {LIMIT_MS:.0f} ms)")
    return int(worst > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
