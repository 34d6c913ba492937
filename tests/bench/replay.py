"""How long a replay takes, and how that grows: the whole Summit fortnight, then fewer nodes,
trainers and hours.

    python tests/bench/replay.py

Every row is the command a user types, in a process of its own on one core: reading the log, the
replay, the static and the no-cost run, and all files. Reads the Summit log of ../shared/data or
$BFTRAINER_DATA; without it, a generated one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

SUMMIT = "summit-2021-02/summit-2021-02-events.csv.gz"
NODE_LIST = "summit-2021-02/summit-nodes-in-column-order.txt"
START = "2021-02-10T20:21:15"
MOST_S, MOST_GB = 60.0, 2.0  # of the first row


@dataclass(frozen=True)
class Case:
    """One row."""

    nodes: int
    hours: float
    parallel: int
    policy: str = "bftrainer"
    objective: str = "relative-speed"


WHOLE = Case(4734, 337.97, 35)
CASES = (
    WHOLE,
    Case(4734, 337.97, 35, objective="throughput"),
    Case(4734, 337.97, 35, "equal-share"),
    Case(4734, 168, 35),
    Case(4734, 84, 35),
    Case(2048, 337.97, 35),
    Case(1024, 337.97, 35),
    Case(1024, 337.97, 10),
    Case(4734, 337.97, 100),
)


@dataclass(frozen=True)
class Run:
    """What a process took, and what it found."""

    wall_s: float
    cpu_s: float
    peak_gb: float
    summary: dict[str, float]


def run(case: Case, log: list[str], trainers: Path, folder: Path) -> Run:
    command = [
        sys.executable,
        "-m",
        "bftrainer",
        "replay",
        "run",
        "--json",
        "--trainers",
        str(trainers),
    ]
    command += [
        *log,
        "--nodes",
        str(case.nodes),
        "--hours",
        str(case.hours),
        "--max-parallel",
        str(case.parallel),
    ]
    command += [
        "--policy",
        case.policy,
        "--objective",
        case.objective,
        "--out",
        str(folder / "out"),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
    assert process.stdout is not None
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    if status:
        sys.exit(f"{' '.join(command)} ended with {status}")
    return Run(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20, json.loads(text))


def inputs(folder: Path) -> tuple[list[str], str]:
    """Options for the log, and what it is."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    data = Path(os.environ.get("BFTRAINER_DATA") or beside)
    if (data / SUMMIT).exists():
        return [
            str(data / SUMMIT),
            "--node-list",
            str(data / NODE_LIST),
            "--start",
            START,
        ], "the Summit log"
    path = folder / "log.csv.gz"
    command = [
        sys.executable,
        "-m",
        "bftrainer",
        "replay",
        "generate",
        "--nodes",
        "4734",
        "--days",
        "14.1",
    ]
    subprocess.run(
        [*command, "--seed", "1", "--out", str(path)], check=True, stdout=subprocess.DEVNULL
    )
    return [str(path)], "a generated log (the Summit log is not here)"


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, what = inputs(folder)
        trainers = folder / "trainers.csv"
        start = START if "--start" in log else "2021-01-01T00:00:00"
        command = [
            sys.executable,
            "-m",
            "bftrainer",
            "replay",
            "workload",
            "diverse",
            "--count",
            "6000",
            "--seed",
            "1",
        ]
        subprocess.run(
            [*command, "--start", start, "--out", str(trainers)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        console.print(
            f"{what}, 6,000 diverse trainers (seed 1), T_fwd 120 s, stall costs; Python "
            f"{platform.python_version()}, one core"
        )
        table = Table(
            "nodes",
            "hours",
            "P_jmax",
            "policy",
            "objective",
            "decisions",
            "wall s",
            "CPU s",
            "peak GB",
            "ms a decision",
            "p99 ms",
        )
        worst = None
        for case in CASES:
            found = run(case, log, trainers, folder)
            decisions = int(found.summary["decisions"])
            latency = found.summary["decision_s"]
            assert isinstance(latency, dict)
            table.add_row(
                f"{case.nodes:,}",
                f"{case.hours:g}",
                str(case.parallel),
                case.policy,
                case.objective,
                f"{decisions:,}",
                f"{found.wall_s:.1f}",
                f"{found.cpu_s:.1f}",
                f"{found.peak_gb:.2f}",
                f"{1000 * found.summary['wall_s'] / decisions:.2f}",
                f"{1000 * latency['p99']:.2f}",
            )
            if case == WHOLE:
                worst = found
        console.print(table)
        assert worst is not None
        console.print(
            f"The whole fortnight: {worst.wall_s:.0f} s, {worst.peak_gb:.2f} GB (aim: under "
            f"{MOST_S:.0f} s and {MOST_GB:g} GB)"
        )


if __name__ == "__main__":
    main()
