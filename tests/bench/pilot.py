"""What share of a core the pilot takes: ``python tests/bench/pilot.py``.

The real pilot (its loop, its desks, its database, its trainer directories, holders' leases and marks) with metrics, JSON log,
notices and learning, for 100 trainers on a cluster of 5,000 nodes, once with a tenth of them idle, once with
all of them. Only the scheduler and the drivers are made up: the scheduler answers from memory, and another process writes
what 100 drivers and their trainers would write. It looks at the scheduler every 10 s and at its files every 0.2 s, in real
time. At every look some nodes have been taken and others have become idle; trainers end and new ones come.

CPU is this process's own (getrusage: user and system, all threads), so that others on the machine do not count; what the
scheduler's stand-in takes of it is shown beside, not subtracted. Exit status 1 if the first run (a tenth idle) is above 2 % of
a core; the other shows how it grows.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from bftrainer.cli import pilot_log
from bftrainer.clock import SystemClock
from bftrainer.cluster import Claim, NodeView, Observation
from bftrainer.config import PilotConfig
from bftrainer.gate import check_table
from bftrainer.live import launcher
from bftrainer.live.pilot import Signals, run_pilot
from bftrainer.live.running import Parts
from bftrainer.spool import Kind, Request, Spool
from bftrainer.trainer_file import TrainerSpec
from bftrainer_adapters.held import JobPhase
from bftrainer_adapters.holder_files import HolderFiles
from bftrainer_adapters.holder_jobs import Manners
from bftrainer_adapters.job_holder import JobHolder

SEED = 20210617
LIMIT = 0.02
CHURN = 8  # nodes that are taken, and others that become idle, at each look at the scheduler
PROGRESS_S = 1.0
ENDS_EVERY_S = 30.0
SCRAPE_S = 15.0
MANNERS = Manners("made up", "made_up", "submit", hurry_s=1.0, failures_in_a_row=2)


@dataclass(frozen=True)
class Job:
    """A holder as the stand-in lists it."""

    id: str
    node: str
    phase: JobPhase
    state: str = "RUNNING"
    ends_s: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Patience:
    """The holder's settings."""

    start_within_s: float = 60.0
    ready_within_s: float = 60.0
    max_pending: int = 10_000
    longest_s: float = 86_400.0
    back_off_s: float = 60.0
    back_off_most_s: float = 600.0


@dataclass
class Machine:
    """Scheduler and holder jobs in memory. ``cost_s`` is what it has taken of this process's CPU time."""

    files: HolderFiles
    rng: random.Random
    total: int
    idle: int
    churn: int = 0
    manners: Manners = MANNERS
    jobs: dict[str, Job] = field(default_factory=dict)
    cost_s: float = 0.0
    number: int = 1000
    looks: int = 0

    def __post_init__(self) -> None:
        self.names = [f"n{i:05d}" for i in range(self.total)]
        self.nodes = {name: self._view(name, "ALLOCATED") for name in self.names}
        for name in self.rng.sample(self.names, self.idle):
            self.nodes[name] = self._view(name, "IDLE")

    @contextmanager
    def timed(self) -> Iterator[None]:
        began = time.thread_time()
        yield
        self.cost_s += time.thread_time() - began

    def _view(self, name: str, state: str) -> NodeView:
        return NodeView(name, state, ("batch", "scavenge"), (), "gpu:v100:6(S:0-1)", 42)

    def observe(self) -> Observation:
        with self.timed():
            self.looks += 1
            held = sorted(job.id for job in self.jobs.values() if job.phase is JobPhase.RUNS)
            if self.churn and held:
                taken = self.rng.sample(held, min(self.churn, len(held)))
                ours = {self.jobs[i].node for i in held}
                busy = [name for name, node in self.nodes.items() if node.state == "ALLOCATED" and name not in ours]
                for job_id in taken:
                    self._take(self.jobs[job_id])
                free = self.rng.sample(busy, min(self.churn, len(busy))) or [self.jobs[i].node for i in taken]
                self.nodes |= {name: self._view(name, "IDLE") for name in free}
            return Observation(time.time(), tuple(self.nodes.values()))

    def begin(self) -> None:
        pass

    def why_none(self) -> str:
        return ""

    def submit(self, claim: Claim) -> str:
        with self.timed():
            self.number += 1
            job = Job(str(self.number), claim.node, JobPhase.RUNS, ends_s=time.time() + 86_400)
            self.jobs[job.id] = job
            self.nodes[claim.node] = self._view(claim.node, "ALLOCATED")
            folder = self.files.root / f"{claim.node}#{job.id}"
            folder.mkdir(mode=0o700)
            (folder / "ready").touch()
            return job.id

    def listed(self) -> Mapping[str, Job]:
        with self.timed():
            return dict(self.jobs)

    def is_unknown(self, job: str) -> bool:
        return job not in self.jobs

    def end(self, ids: list[str]) -> None:
        with self.timed():
            for job_id in ids:
                if (job := self.jobs.get(job_id)) is not None and job.phase is JobPhase.RUNS:
                    self.jobs[job_id] = Job(job.id, job.node, JobPhase.OVER, "CANCELLED")
                    self.nodes[job.node] = self._view(job.node, "IDLE")

    def end_workers(self, names: list[str]) -> None:
        pass

    def _take(self, job: Job) -> None:
        """The main queue wants its node: the payload says so, kills, and ends."""
        (self.files.root / f"{job.node}#{job.id}" / "leaving").write_text("asked back\n")
        self.jobs[job.id] = Job(job.id, job.node, JobPhase.OVER, "PREEMPTED")


class CountingClock(SystemClock):
    """The system's clock. It knows how often the pilot has slept: its ticks."""

    ticks = 0
    at_next_sleep: Callable[[], object] | None = None

    def sleep(self, seconds: float) -> None:
        self.ticks += 1
        if self.at_next_sleep is not None:
            self.at_next_sleep()
            self.at_next_sleep = None
        super().sleep(seconds)


def trainer(rng: random.Random, number: int, largest: int) -> TrainerSpec:
    """Concave curves up to ``largest`` nodes; one in ten has none and is learned, one in two shares a model."""
    most = rng.choice((largest // 2, largest))
    sizes = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= most]
    power, one = rng.uniform(0.5, 0.8), rng.uniform(80, 120)
    curve = None if number % 10 == 0 else {"nodes": sizes, "samples_per_s": [one * n**power for n in sizes]}
    table = {
        "name": f"t{number:04d}", "command": ["true"], "max_nodes": most, "curve": curve, "stop_s": 5.0,
        "model": f"m{number % 20}" if number % 2 else None, "samples_total": 1e12,
    }  # fmt: skip
    return check_table({key: value for key, value in table.items() if value is not None}, TrainerSpec, "bench")


def play(state: Path, port: int, largest: int) -> None:
    """What drivers, their trainers, users and Prometheus do, until the state directory is gone."""
    rng, root, spool = random.Random(SEED + 1), state / "trainers", Spool(state)
    number, next_end = 110, time.monotonic() + ENDS_EVERY_S
    next_scrape = time.monotonic() + SCRAPE_S
    played: dict[str, dict[str, Any]] = {}
    while state.exists() and os.getppid() != 1:
        time.sleep(0.1)
        now = time.monotonic()
        for folder in root.iterdir() if root.exists() else ():
            with suppress(OSError, ValueError):
                _play_driver(folder, played.setdefault(folder.name, {"number": 0, "samples": 0.0}), now)
        if now >= next_end:
            next_end, number = now + ENDS_EVERY_S, number + 1
            alive = sorted(name for name, it in played.items() if it.get("alive"))
            if alive:
                name = rng.choice(alive)
                _end(root / name, played[name], "done")
            spec = trainer(rng, number, largest)
            spool.put(Request(kind=Kind.SUBMIT, trainer=spec.name, spec=spec, owner="me"))
        if now >= next_scrape:
            next_scrape = now + SCRAPE_S
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                answer.read()


def _play_driver(folder: Path, it: dict[str, Any], now: float) -> None:
    control = folder / "control"
    changed = control.stat().st_mtime_ns, (folder / "hosts").stat().st_mtime_ns
    if changed != it.get("changed") and it.get("due") is None:
        it["due"] = now + 0.5
    if it.get("due") is not None and now >= it["due"]:
        it["due"], it["changed"] = None, changed
        order = json.loads(control.read_text())
        if order["request"] == "stop":
            if it.get("alive"):
                _end(folder, it, "stopped")
            return
        if order["number"] > it["number"]:
            it["number"], it["alive"] = order["number"], True
            it["incarnation"] = it.get("incarnation", 0) + 1
            _say(folder, {"event": "started", "incarnation": it["incarnation"]})
        if it.get("alive"):
            hosts = [line.rsplit(":", 1)[1] for line in (folder / "hosts").read_text().splitlines()]
            it["nodes"], it["next"] = len(hosts), now + PROGRESS_S
            _say(folder, {"event": "running", "fragments": hosts, "world_size": len(hosts)})
    if it.get("alive") and it.get("nodes") and now >= it["next"]:
        it["next"] += PROGRESS_S
        it["samples"] += 100.0 * it["nodes"] ** 0.9
        line = {"time": time.time(), "step": int(it["samples"]), "samples": it["samples"], "loss": 1.0}
        with (folder / "progress.jsonl").open("a") as out:
            out.write(json.dumps(line) + "\n")


def _end(folder: Path, it: dict[str, Any], how: str) -> None:
    it["alive"] = False
    _say(folder, {"event": how})
    with suppress(OSError, ValueError):
        os.kill(int((folder / "bench.pid").read_text()), signal.SIGKILL)


def _say(folder: Path, line: dict[str, Any]) -> None:
    with (folder / "events.jsonl").open("a") as out:
        out.write(json.dumps({"time": time.time(), **line}) + "\n")


def stand_in(argv: list[str], **settings: Any) -> subprocess.Popen[bytes]:
    """Instead of a driver: a process that sleeps; what a driver would write is written by :func:`play`."""
    child = subprocess.Popen(["sleep", "infinity"], **settings)
    (Path(argv[-1]) / "bench.pid").write_text(str(child.pid))
    return child


def _free_port() -> int:
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        return int(there.getsockname()[1])


@dataclass
class Figures:
    """What one run took."""

    held: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    fake_s: float = 0.0
    ticks: int = 0
    decisions: int = 0
    quarters: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of a core."""
        return self.cpu_s / self.seconds


def measure(
    trainers: int, nodes: int, idle: int, warm_s: float, seconds: float, profile: cProfile.Profile | None
) -> Figures:
    """One pilot from its start to its end; measured from ``warm_s`` after it has its nodes."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # waiting for a disk is no CPU time
    with tempfile.TemporaryDirectory(prefix="bftrainer-bench-", dir=memory, ignore_cleanup_errors=True) as folder:
        state, rng, port = Path(folder), random.Random(SEED), _free_port()
        largest = 8 if idle <= 8 * trainers else 128  # so that all of them run
        tables = {
            "decisions": {"solver": "exact", "max_parallel": trainers},
            "nodes": {"max_pending": nodes, "min_window_s": 0.0},
            "times": {"poll_s": 10.0, "file_poll_s": 0.2, "shutdown_s": 20.0},
            "metrics": {"port": port}, "log": {"format": "json"}, "notices": {"on_event": ["/bin/true"]},
        }  # fmt: skip
        config = check_table(tables, PilotConfig, "bench")
        clock, files = CountingClock(), HolderFiles(state / "holders")
        machine = Machine(files, rng, nodes, idle)
        holder = JobHolder(machine, Patience(), files, clock, config.times.poll_s)
        spool = Spool(state)
        for number in range(trainers + 10):
            spec = trainer(rng, number, largest)
            spool.put(Request(kind=Kind.SUBMIT, trainer=spec.name, spec=spec, owner="me"))
        launcher.subprocess = SimpleNamespace(Popen=stand_in, DEVNULL=subprocess.DEVNULL)  # type: ignore[attr-defined]
        player = subprocess.Popen([sys.executable, __file__, "--play", folder, str(port), str(largest)])
        signals, figures, decisions = Signals(), Figures(), [0]

        def log(fact: Any, form: str) -> None:
            decisions[0] += fact.kind.value == "decision"
            pilot_log.print_fact(fact, form)

        def look_on() -> None:
            while sum(job.phase is JobPhase.RUNS for job in list(machine.jobs.values())) < 0.9 * idle:
                time.sleep(0.5)
            machine.churn = CHURN
            time.sleep(warm_s)
            clock.at_next_sleep = None if profile is None else profile.enable
            before = clock.ticks, decisions[0], machine.cost_s
            began, cpu = time.monotonic(), _cpu_s()
            for _ in range(4):
                here = _cpu_s()
                time.sleep(seconds / 4)
                figures.quarters.append((_cpu_s() - here) / (seconds / 4))
            figures.seconds, figures.cpu_s = time.monotonic() - began, _cpu_s() - cpu
            figures.ticks, figures.decisions = clock.ticks - before[0], decisions[0] - before[1]
            figures.fake_s = machine.cost_s - before[2]
            figures.held = sum(job.phase is JobPhase.RUNS for job in list(machine.jobs.values()))
            clock.at_next_sleep = None if profile is None else profile.disable
            signals.ends = True

        threading.Thread(target=look_on, daemon=True).start()
        with (state / "log.jsonl").open("w") as out:
            stdout, sys.stdout = sys.stdout, out
            pilot_log._logger.cache_clear()  # it keeps the output that it began with
            try:
                parts = Parts(state, machine, holder, clock, log=log)
                run_pilot(parts, config, signals)
            finally:
                sys.stdout = stdout
                player.kill()
                player.wait()
        return figures


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="measured time of each run")
    parser.add_argument("--warm", type=float, default=30.0, help="before that, once the nodes are there")
    parser.add_argument("--trainers", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--idle", type=float, nargs="+", default=[0.1, 1.0], help="shares of the nodes that are idle")
    parser.add_argument("--profile", action="store_true", help="print where the time goes (and take longer)")
    parser.add_argument("--play", nargs=3, metavar=("DIR", "PORT", "LARGEST"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        play(Path(options.play[0]), int(options.play[1]), int(options.play[2]))
        return 0
    table = Table(title=f"{options.trainers} trainers, {options.nodes} nodes, a poll every 10 s, a tick every 0.2 s")
    for column in (
        "nodes held",
        "seconds",
        "CPU s",
        "% of a core",
        "by quarter",
        "scheduler's stand-in",
        "ticks",
        "decisions",
    ):
        table.add_column(column, justify="right")
    shares: list[float] = []
    for share in options.idle:
        profile = cProfile.Profile(time.thread_time) if options.profile else None
        idle = int(share * options.nodes)
        found = measure(options.trainers, options.nodes, idle, options.warm, options.seconds, profile)
        shares.append(found.share)
        table.add_row(
            f"{found.held:,}", f"{found.seconds:.0f}", f"{found.cpu_s:.2f}", f"{100 * found.share:.2f}",
            f"{100 * min(found.quarters):.2f}-{100 * max(found.quarters):.2f}",
            f"{100 * found.fake_s / found.seconds:.2f} %", f"{found.ticks:,}", str(found.decisions),
        )  # fmt: skip
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(45)
    Console(width=140).print(table)
    print(f"first run: {100 * shares[0]:.2f} % of a core (limit {100 * LIMIT:.0f} %)")
    return int(shares[0] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
