"""What is made up in pilot.py: the scheduler with its holder jobs, and drivers with their trainers.

Run as a program, ``_made_up.py STATE_DIR PORT LARGEST TOKEN_FILE``, it is drivers, trainers, users
and Prometheus in one process.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.fakes_jobs import Job, NoLimits

from bftrainer.cluster.model import Availability, NodeRequest, NodeView, Observation
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.config.validation import check_table
from bftrainer.fragment_names import fragment_name
from bftrainer.pilot.persistence.spool import Request, RequestKind, Spool
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.holding.holder_jobs import JobPhase, SchedulerTraits
from bftrainer_clusters.slurm.states import gpus_of

SEED = 20210617
ENDS_EVERY_S = 30.0
PROGRESS_S = 1.0
SCRAPE_S = 15.0
TRAITS = SchedulerTraits("made up", "made_up", "submit", min_interval_s=1.0, failures_in_a_row=2)


@dataclass
class Machine(NoLimits):
    """Scheduler and holder jobs in memory. ``cost_s`` is what it has taken of this process's CPU
    time.
    """

    files: HolderFiles
    rng: random.Random
    total: int
    idle: int
    churn: int = 0
    traits: SchedulerTraits = TRAITS
    jobs: dict[str, Job] = field(default_factory=dict)
    cost_s: float = 0.0
    number: int = 1000
    looks: int = 0

    def __post_init__(self) -> None:
        self.names = [f"n{i:05d}" for i in range(self.total)]
        self.nodes = {name: self._view(name, Availability.BUSY) for name in self.names}
        for name in self.rng.sample(self.names, self.idle):
            self.nodes[name] = self._view(name, Availability.FREE)

    @contextmanager
    def timed(self) -> Iterator[None]:
        began = time.thread_time()
        yield
        self.cost_s += time.thread_time() - began

    def _view(self, name: str, availability: Availability) -> NodeView:
        return NodeView(name, availability, ("batch", "scavenge"), gpus_of("gpu:v100:6(S:0-1)"), 42)

    def observe(self) -> Observation:
        with self.timed():
            self.looks += 1
            held = sorted(job.id for job in self.jobs.values() if job.phase is JobPhase.RUNS)
            if self.churn and held:
                taken = self.rng.sample(held, min(self.churn, len(held)))
                ours = {self.jobs[i].node for i in held}
                busy = [
                    name
                    for name, node in self.nodes.items()
                    if node.availability is Availability.BUSY and name not in ours
                ]
                for job_id in taken:
                    self._take(self.jobs[job_id])
                free = self.rng.sample(busy, min(self.churn, len(busy))) or [
                    self.jobs[i].node for i in taken
                ]
                self.nodes |= {name: self._view(name, Availability.FREE) for name in free}
            return Observation(time.time(), tuple(self.nodes.values()))

    def submit(self, claim: NodeRequest, beside: tuple[str, ...] = ()) -> str:
        """Holders have one node each: ``beside`` is empty."""
        with self.timed():
            self.number += 1
            job = Job(str(self.number), claim.node, JobPhase.RUNS, ends_s=time.time() + 86_400)
            self.jobs[job.id] = job
            self.nodes[claim.node] = self._view(claim.node, Availability.BUSY)
            folder = self.files.root / fragment_name(claim.node, job.id)
            folder.mkdir(mode=0o700)
            (folder / "ready").write_text("1.0\n")
            return job.id

    def listed(self) -> Mapping[str, Job]:
        with self.timed():
            return dict(self.jobs)

    def unknown(self, ids: list[str]) -> frozenset[str]:
        return frozenset(ids) - self.jobs.keys()

    def end(self, ids: list[str]) -> None:
        with self.timed():
            for job_id in ids:
                if (job := self.jobs.get(job_id)) is not None and job.phase is JobPhase.RUNS:
                    self.jobs[job_id] = Job(job.id, job.node, JobPhase.OVER)
                    self.nodes[job.node] = self._view(job.node, Availability.FREE)

    def _take(self, job: Job) -> None:
        """The main queue wants its node: the payload says so, kills, and ends."""
        (self.files.root / fragment_name(job.node, job.id) / "leaving").write_text("asked back\n")
        self.jobs[job.id] = Job(job.id, job.node, JobPhase.OVER)


def trainer(rng: random.Random, number: int, largest: int) -> TrainerSpec:
    """Concave curves up to ``largest`` nodes; one in ten has none and is learned, one in two shares
    a model.
    """
    most = rng.choice((largest // 2, largest))
    sizes = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= most]
    power, one = rng.uniform(0.5, 0.8), rng.uniform(80, 120)
    curve = (
        None
        if number % 10 == 0
        else {"nodes": sizes, "samples_per_s": [one * n**power for n in sizes]}
    )
    table = {
        "name": f"t{number:04d}",
        "command": ["true"],
        "max_nodes": most,
        "curve": curve,
        "stop_s": 5.0,
        "model": f"m{number % 20}" if number % 2 else None,
        "samples_total": 1e12,
    }
    return check_table(
        {key: value for key, value in table.items() if value is not None}, TrainerSpec, "bench"
    )


def play(state: Path, port: int, largest: int, token_file: Path) -> None:
    """What drivers, their trainers, users and Prometheus do, until the state directory is gone."""
    rng, root, spool = random.Random(SEED + 1), state / "trainers", Spool(state)
    number, next_end = 110, time.monotonic() + ENDS_EVERY_S
    next_scrape = time.monotonic() + SCRAPE_S
    scrape = urllib.request.Request(f"http://127.0.0.1:{port}/metrics")
    scrape.add_header("Authorization", f"Bearer {token_file.read_text().strip()}")
    played: dict[str, dict[str, Any]] = {}
    while state.exists() and os.getppid() != 1:
        time.sleep(0.1)
        now = time.monotonic()
        for folder in root.iterdir() if root.exists() else ():
            with suppress(OSError, ValueError):
                _play_driver(
                    folder, played.setdefault(folder.name, {"number": 0, "samples": 0.0}), now
                )
        if now >= next_end:
            next_end, number = now + ENDS_EVERY_S, number + 1
            alive = sorted(name for name, it in played.items() if it.get("alive"))
            if alive:
                name = rng.choice(alive)
                _end(root / name, played[name], "done")
            spec = trainer(rng, number, largest)
            spool.put(Request(kind=RequestKind.SUBMIT, trainer=spec.name, spec=spec, owner="me"))
        if now >= next_scrape:
            next_scrape = now + SCRAPE_S
            with suppress(OSError), urllib.request.urlopen(scrape, timeout=5) as answer:
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
            _say(
                folder,
                {
                    "event": "running",
                    "incarnation": it["incarnation"],
                    "fragments": hosts,
                    "world_size": len(hosts),
                },
            )
    if it.get("alive") and it.get("nodes") and now >= it["next"]:
        it["next"] += PROGRESS_S
        it["samples"] += 100.0 * it["nodes"] ** 0.9
        line = {
            "time": time.time(),
            "step": int(it["samples"]),
            "samples": it["samples"],
            "loss": 1.0,
        }
        with (folder / "progress.jsonl").open("a") as out:
            out.write(json.dumps(line) + "\n")


def _end(folder: Path, it: dict[str, Any], how: str) -> None:
    it["alive"] = False
    _say(folder, {"event": how, "incarnation": it["incarnation"]})
    with suppress(OSError, ValueError):
        os.kill(int((folder / "bench.pid").read_text()), signal.SIGKILL)


def _say(folder: Path, line: dict[str, Any]) -> None:
    with (folder / "events.jsonl").open("a") as out:
        out.write(json.dumps({"time": time.time(), **line}) + "\n")


def stand_in(argv: list[str], **settings: Any) -> subprocess.Popen[bytes]:
    """Instead of a driver: a process that sleeps; what a driver would write is written by
    :func:`play`.
    """
    child = subprocess.Popen(["sleep", "infinity"], **settings)
    (Path(argv[-1]) / "bench.pid").write_text(str(child.pid))
    return child


if __name__ == "__main__":
    play(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
