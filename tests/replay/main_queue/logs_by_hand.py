"""Logs with a queue, in Standard Workload Format."""

from __future__ import annotations

import random
from pathlib import Path

from bftrainer_replay.cli.log_options import LogChoice, window_of
from bftrainer_replay.logs.model import LogWindow

HEADER = "; Version: 2.2\n; UnixStartTime: 1600000000\n; MaxNodes: {0}\n; MaxProcs: {0}\n"


def row(number: int, submit: float, wait: float, run: float, nodes: int, limit: float) -> str:
    """A row of SWF, with processors as nodes."""
    return (
        f"{number} {submit:.0f} {wait:.0f} {run:.0f} {nodes} -1 -1 {nodes} {limit:.0f} -1 1 {number % 7} 1 "
        "-1 -1 -1 -1 -1\n"
    )


def busy_log(path: Path, jobs: int = 400, nodes: int = 8, *, limits: bool = True) -> Path:
    """Write a log of a busy cluster: jobs of all sizes, first come, first served."""
    chance = random.Random(7)
    free_s = [0.0] * nodes
    rows, submit_s = [], 0.0
    for number in range(1, jobs + 1):
        submit_s += round(chance.expovariate(1 / 400))
        size = chance.choice((1, 1, 1, 2, 2, 4, nodes))
        run_s = chance.randint(60, 3000)
        free_s.sort()
        start_s = max(submit_s, free_s[size - 1])
        free_s[:size] = [start_s + run_s] * size
        limit_s = run_s * chance.uniform(1.1, 4) if limits else -1
        rows.append(row(number, submit_s, start_s - submit_s, run_s, size, limit_s))
    path.write_text(HEADER.format(nodes) + "".join(rows))
    return path


def window_from(log: Path) -> LogWindow:
    """Read the log as commands do."""
    return window_of(LogChoice(log))
