#!/usr/bin/env python3
"""A pool on a real Slurm of 8 nodes, with 5 workers on each, as an ordinary user.

    python tests/slurm/pool.py tasks     10,000 tasks; main jobs preempt nodes 50 times; 20 kills (8 minutes)

Kills are SIGKILLs of workers, drivers and the pilot in turn, and the pilot is started again. Ctrl-C
ends it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import cluster
from race import MainJobs
from support import ordinary_user
from support.live_machine import machine
from support.pilot_config import pilot_config
from support.slurm_lab import Lab, Settings, wait_until
from support.slurm_versions import VERSIONS

from bftrainer.system.processes import ProcessId, identify, send
from bftrainer.wires.driver_pid import read_driver_pid
from bftrainer.wires.paths import TrainerDirectory

WORKER = Path(__file__).with_name("pool_worker.py")
CONFIG = pilot_config(
    learning={"measure": False}, nodes={"flap_back_off_s": 1, "unused_after_s": 2}
)
POOL = """
name = "pool"
launcher = "pool"
command = {command}
max_nodes = 8
slots = {slots}
samples_per_s = 1
stop_s = 5
scale_up_s = 1
"""
NODES = 8
MAIN_JOBS = ((0, 2, 6), (10, 3, 5), (20, 1, 8))
"""(second, nodes, seconds) of main jobs beside the tasks, every 30 s."""


class Pool:
    """A pool under a pilot of its own."""

    def __init__(self, lab: Lab, folder: Path, tasks: int, pace_s: float, slots: int) -> None:
        self.lab, self.tasks, self.slots = lab, tasks, slots
        self.own = machine(folder, [], CONFIG)
        command = json.dumps([sys.executable, str(WORKER), str(pace_s), str(tasks)])
        text = POOL.format(command=command, slots=slots)
        (self.own.work / "pool.toml").write_text(text)
        self.own.bftrainer("submit", self.own.work / "pool.toml")
        self.directory = TrainerDirectory(self.own.state / "trainers" / "pool")
        self.pilot = self.own.pilot()
        wait_until(self.own.state_is_there, "the pilot", 60)

    def begins(self) -> list[tuple[int, int, float]]:
        """(task, pid of its worker, time)."""
        path = self.own.work / "begins"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(task), int(pid), float(at_s)) for task, pid, at_s in map(str.split, lines)]

    def wait_full(self) -> None:
        """Until the workers of all nodes work."""
        since_s = time.time()

        def full() -> bool:
            return (
                len({pid for _, pid, at_s in self.begins() if at_s > since_s}) >= NODES * self.slots
            )

        wait_until(full, "all workers to work", 120)

    def kill(self, kind: str) -> bool:
        """One of its processes, by SIGKILL; whether there was one."""
        found: ProcessId | None = identify(self.pilot.pid)
        if kind == "driver":
            found = read_driver_pid(self.directory.driver_pid)
        if kind == "worker":
            found = identify(self.begins()[-1][1])
            if (
                found
                and WORKER.name.encode() not in Path(f"/proc/{found.pid}/cmdline").read_bytes()
            ):
                return False
        if found is None:
            return False
        send(found, signal.SIGKILL)
        if kind == "pilot":
            self.pilot.wait()
            self.pilot = self.own.pilot()
        return True

    def results(self) -> list[dict[str, int]]:
        path = self.own.work / "out.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def preempted(self) -> int:
        return sum(
            str(row["reason"]).startswith("preempted") for row in self.own.rows("nodes", "--all")
        )


@contextmanager
def pool(lab: Lab, **sizes: float) -> Iterator[Pool]:
    with tempfile.TemporaryDirectory(prefix="pool-") as folder:
        it = Pool(lab, Path(folder), **sizes)
        try:
            yield it
        except AssertionError:
            logs = (it.own.work / "pilot.log", it.directory.driver_log)
            print(
                *(log.read_text()[-3000:] for log in logs if log.exists()),
                sep="\n---\n",
                file=sys.stderr,
            )
            raise
        finally:
            it.own.close()
            lab.tidy_up()


def all_tasks(lab: Lab, options: argparse.Namespace) -> dict[str, object]:
    """All tasks, beside main jobs and kills."""
    killed: Counter[str] = Counter()
    with pool(lab, tasks=options.tasks, pace_s=options.pace_s, slots=5) as it:
        it.wait_full()
        main = MainJobs(lab, it.own.work, MAIN_JOBS, 30)
        began_s = time.time()
        main.start()
        for kind in itertools.cycle(("worker", "driver", "worker", "pilot", "worker")):
            until_s = time.time() + options.kill_every_s
            while time.time() < until_s and (status := it.own.status("pool")) not in (
                "done",
                "failed",
            ):
                time.sleep(0.5)
            if status in ("done", "failed"):
                break
            if killed.total() < options.kills:
                killed[kind] += it.kill(kind)
            print(
                f"{len(it.results())} done, {it.preempted()} preempted, killed {dict(killed)}",
                file=sys.stderr,
            )
        main.ends.set()
        main.join()
        by_task = defaultdict(list)
        for task, _, at_s in it.begins():
            by_task[task].append(at_s)
        again_s = [
            late - early
            for times in by_task.values()
            for early, late in itertools.pairwise(sorted(times))
        ]
        found = sorted((line["task"], line["result"]) for line in it.results())
        return {
            "status": status,
            "each_once": found == [(n, n * n) for n in range(1, options.tasks + 1)],
            "preempted": it.preempted(),
            "killed": dict(killed),
            "seconds": round(time.time() - began_s),
            "repeated_share": round(len(again_s) / options.tasks, 4),
            "again_after_s": _of(again_s),
            "main_waits_s": _of(main.waits_s()),
        }


def _of(seconds: list[float]) -> dict[str, float]:
    seconds = seconds or [0.0]
    return {
        "n": len(seconds),
        "median": round(statistics.median(seconds), 2),
        "largest": round(max(seconds), 2),
    }


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("what", choices=("tasks",))
    options.add_argument("--tasks", type=int, default=10_000, help="default 10000")
    options.add_argument(
        "--pace-s", type=float, default=1.3, help="seconds of a task (default 1.3)"
    )
    options.add_argument("--kills", type=int, default=20, help="default 20")
    options.add_argument("--kill-every-s", type=float, default=16.0, help="default 16")
    options.add_argument(
        "--slurm", choices=VERSIONS, default="installed", help="default the installed one"
    )
    chosen = options.parse_args()
    if os.geteuid() == 0:
        return subprocess.run(
            ordinary_user._as_user(sys.executable, *sys.argv), check=False
        ).returncode
    with cluster(Settings(nodes=NODES), chosen.slurm) as lab:
        print(json.dumps(all_tasks(lab, chosen)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
