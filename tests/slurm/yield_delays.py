#!/usr/bin/env python3
"""How long main jobs wait on a Slurm that preempts nothing, while a pilot that yields holds all of
its nodes.

    python tests/slurm/yield_delays.py --runs 6
    python tests/slurm/yield_delays.py --slurm trixie --nodes 8 --by sbatch
    python tests/slurm/yield_delays.py --pilots 2              two pilots share the nodes
    python tests/slurm/yield_delays.py --trainer deaf          a trainer that does not stop
    python tests/slurm/yield_delays.py --per-holder 4          holders of up to 4 nodes
    python tests/slurm/yield_delays.py --pilots 5 --broker --rest 60 --runs 1
    python tests/slurm/yield_delays.py --poll 1 --rest 120 --runs 0          only the calls

Slurm has its own intervals (backfill every 30 s) and no Epilog. A run submits one main job at a
random moment and takes the time until its first line, by this host's clock; before the next one,
all nodes are held again. The last lines are the same jobs on the empty cluster.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
from measuring import cluster
from support.command_line import bftrainer
from support.live_machine import Machine, machine
from support.never_preempts import MainJobs, held, never, pilot_text
from support.slurm_lab import Lab, wait_until
from support.slurm_versions import VERSIONS

from bftrainer.system.users import own_name

DEAF = "trap '' TERM; while :; do sleep 1; done"


@contextmanager
def broker(lab: Lab, folder: Path) -> Iterator[dict[str, str]]:
    """A broker of this user for a moment; the keys of [slurm] by which pilots find it."""
    published = folder / "published"
    published.mkdir(mode=0o755)
    argv = [sys.executable, "-m", "bftrainer", "broker", str(published)]
    process = subprocess.Popen(argv, env=lab.environ())
    try:
        wait_until(lambda: (published / "sdiag").exists(), "the broker's first answer", 30)
        yield {"broker": str(published), "broker_user": own_name()}
    finally:
        process.terminate()
        process.wait(30)


class Calls:
    """The calls to slurmctld of this script's user, by sdiag, and its CPU time, of all users."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.controller = psutil.Process(int((lab.root / "run" / "slurmctld.pid").read_text()))
        self.count, self.begun_s = self._count(), time.monotonic()
        self.begun_cpu_s = self._cpu_s()

    def _cpu_s(self) -> float:
        times = self.controller.cpu_times()
        return times.user + times.system

    def _count(self) -> int:
        text = self.lab.run("sdiag").partition("by user")[2]
        match = re.search(rf"\(\s*{os.getuid()}\) count:(\d+)", text)
        return int(match[1]) if match else 0

    def per_minute(self) -> str:
        """Calls in a minute, and the controller's CPU time."""
        minutes = (time.monotonic() - self.begun_s) / 60.0
        cpu_s = self._cpu_s() - self.begun_cpu_s
        calls = self._count() - self.count
        return f"{calls / minutes:.0f} calls a minute, {cpu_s / minutes * 1000:.0f} ms of slurmctld"


@contextmanager
def pilots(lab: Lab, folder: Path, text: str, count: int, trainer: str) -> Iterator[list[Machine]]:
    """Pilots that hold all nodes, each with a trainer."""
    found = []
    for number in range(count):
        path = folder / f"pilot{number}"
        path.mkdir()
        found.append(machine(path, [], text))
    try:
        for it in found:
            it.pilot()
            if trainer == "deaf":
                options = ("--name", "a", "--max-nodes", 64, "--samples-per-s", 10)
                where = ("--cwd", it.work, "--state", it.state)
                ended = bftrainer("submit", *options, *where, "--", "bash", "-c", DEAF)
                assert ended.status == 0, ended
            else:
                it.submit("a", 1_000_000, 0.05, 64)
        wait_until(lambda: held(lab) == lab.settings.nodes, "all nodes to be held", 60)
        yield found
    finally:
        for it in found:
            it.close()


def table(delays: dict[tuple[str, int], list[float]]) -> str:
    lines = ["| by | nodes | n | median s | max s |", "|---|---|---|---|---|"]
    for (by, nodes), values in sorted(delays.items()):
        middle = statistics.median(values)
        lines.append(f"| {by} | {nodes} | {len(values)} | {middle:.2f} | {max(values):.2f} |")
    every = [value for values in delays.values() for value in values]
    lines.append(f"| all | | {len(every)} | {statistics.median(every):.2f} | {max(every):.2f} |")
    return "\n".join(lines)


def measure(lab: Lab, folder: Path, options: argparse.Namespace) -> None:
    sizes = options.sizes or sorted({1, 2, lab.settings.nodes})
    text = pilot_text(options.per_holder, yield_poll_s=options.poll, give_way=options.give_way)
    jobs = MainJobs(lab, folder)
    with ExitStack() as stack:
        if options.broker:
            keys = stack.enter_context(broker(lab, folder))
            lines = "".join(f'{key} = "{value}"\n' for key, value in keys.items())
            text = text.replace("[slurm]\n", f"[slurm]\n{lines}")
        started = pilots(lab, folder, text, options.pilots, options.trainer)
        machines = stack.enter_context(started)
        if options.rest:
            time.sleep(options.rest / 2)  # a broker asks often for a moment after a change
            calls = Calls(lab)
            time.sleep(options.rest)
            print(f"{options.pilots} pilots at rest: {calls.per_minute()}", flush=True)
            if not options.runs:
                return
        for run in range(options.runs):
            for by in options.by:
                for nodes in sizes:
                    time.sleep(random.uniform(1.0, 4.0))
                    delay_s = jobs.run(by, nodes)
                    print(
                        f"run {run + 1}: {by} {nodes}: {delay_s:.2f} s", file=sys.stderr, flush=True
                    )
                    wait_until(lambda: held(lab) == lab.settings.nodes, "all nodes", 90, 0.3)
        print(table(jobs.delays))
        for it in machines:
            rows = [row for row in it.rows("events", "-n", 1000) if row["kind"] == "yield"]
            print(f"{len(rows)} yields; the last ones:")
            for row in rows[-3:]:
                print(f"  {row['text']}")
    lab.cancel_all()
    empty = MainJobs(lab, folder)
    for by in options.by:
        for nodes in sizes:
            for _ in range(min(options.runs, 3)):
                time.sleep(random.uniform(1.0, 4.0))
                empty.run(by, nodes)
    print("the same jobs on the empty cluster:")
    print(table(empty.delays))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slurm", default="installed", choices=[*VERSIONS])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pilots", type=int, default=1)
    parser.add_argument("--per-holder", type=int, default=1, help="slurm.nodes_per_holder")
    parser.add_argument("--poll", type=float, default=1.0, help="nodes.yield_poll_s")
    parser.add_argument("--by", nargs="+", default=["sbatch", "srun", "salloc"])
    parser.add_argument("--sizes", nargs="+", type=int, help="nodes of main jobs")
    parser.add_argument("--broker", action="store_true", help="one process looks for all pilots")
    parser.add_argument("--rest", type=float, default=0.0, help="count calls for so many seconds")
    parser.add_argument("--give-way", default="auto", choices=["auto", "yield", "blind"])
    parser.add_argument("--trainer", default="stepper", choices=["stepper", "deaf"])
    options = parser.parse_args()
    with (
        cluster(never(options.nodes), options.slurm) as lab,
        tempfile.TemporaryDirectory(prefix="yield-") as folder,
    ):
        measure(lab, Path(folder), options)


if __name__ == "__main__":
    main()
