"""A cluster that shares nodes, the part of a pilot that holds GPUs there, and main-queue jobs
beside it (slurm/parts.py).
"""

from __future__ import annotations

import getpass
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm import measuring

from bftrainer.cluster.site_plugin import Site
from bftrainer.config.in_effect import ConfigCell
from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import check_table
from bftrainer.decide.domain.state import State
from bftrainer.fragment_names import job_of
from bftrainer.pilot.nodes.classifier import NodeClassifier, PoolDemand
from bftrainer.pilot.nodes.manager import NodeManager
from bftrainer.pilot.persistence.store import open_store
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.steady_clock import SteadyClock
from bftrainer.system.clock import SystemClock
from bftrainer.system.processes import this_process
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.hold import SlurmHolder
from bftrainer_clusters.slurm.observe import SlurmScheduler
from bftrainer_clusters.slurm.site import _pilot_jobs
from support.pilot_config import pilot_config
from support.slurm_accounting import preemptible_qos, sacctmgr
from support.slurm_gpus import OF_8
from support.slurm_lab import Lab, Settings, wait_until

# Slurm preempts by priority then: parts first.
_OLDEST = Settings().scheduler.replace(",preempt_youngest_first", "")
PARTITION = Settings(
    nodes=4,
    gpus=OF_8,
    cores=16,
    memory_mb=64_000,
    shares_nodes=True,
    scheduler=_OLDEST,
    more=(
        "PartitionName=parts Nodes=ALL PriorityTier=0 PreemptMode=CANCEL GraceTime=30 "
        "DefaultTime=60"
    ),
)
QOS = replace(PARTITION, preempt="preempt/qos", accounting="associations,limits,qos", more="")
WAYS: dict[str, tuple[Settings, dict[str, Any]]] = {
    "partition": (PARTITION, {"partition": "scavenge", "parts_partition": "parts"}),
    "qos": (
        QOS,
        {"qos": "scavenger", "parts_qos": "parts", "account": "pilots", "partition": "main"},
    ),
}

BY_GPU = pilot_config(
    nodes={"unit": "gpu"},
    times={"shutdown_s": 60},
    slurm={"parts_partition": "parts", "cpus_per_gpu": 1, "mem_per_gpu": 7000},
)
"""A pilot of this cluster, by partition."""


def parts_qos(lab: Lab) -> None:
    """A QOS for parts, below the pilots' other one."""
    for words in (
        "add qos parts",
        "modify qos parts set Priority=0 PreemptMode=cancel UsageFactor=0",
        "modify qos scavenger set Priority=1",
        "modify qos normal set Preempt=scavenger,parts",
        f"modify user {getpass.getuser()} where account=pilots set qos=scavenger,parts",
    ):
        sacctmgr(lab, words)


class Holding:
    """A pilot's nodes, in a thread of its own. ``held`` shows (GPUs, whether it is a part) by
    node.
    """

    def __init__(self, lab: Lab, table: dict[str, Any], demand: int = 99, **nodes: Any) -> None:
        self._lab, self._demand = lab, demand
        self._table = check_table(
            {"start_within_s": 10.0, "cpus_per_gpu": 1, "mem_per_gpu": 8_000, **table},
            SlurmSettings,
            "",
        )
        tables = {
            "nodes": {"unit": "gpu", "holder": "slurm", "unused_after_s": 9e8, **nodes},
            "times": {"poll_s": 1.0},
        }
        self._config = check_table(tables, PilotConfig, "")
        self.held: dict[str, tuple[int, bool]] = {}
        self.jobs: dict[str, str] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="parts-") as folder:
            clock, cell = SystemClock(), ConfigCell(self._config)
            os.chmod(folder, 0o700)  # noqa: PTH101
            store = open_store(Path(folder), create=True)
            store.take_lease(this_process(), "", clock.now_s(), 60.0, lambda _: None)
            calls = SlurmCalls(self._lab.env)
            holder = SlurmHolder(
                self._table, Path(folder) / "holders", "parts", clock, poll_s=1.0, calls=calls
            )
            nodes = NodeManager(
                cell,
                Recorder(store, SteadyClock(clock)),
                Site(
                    SlurmScheduler(calls=calls, by_gpu=True),
                    holder,
                    _pilot_jobs(self._table, None),
                ),
                SteadyClock(clock),
                NodeClassifier(cell, State(None)),
            )
            while not (self._ends.is_set() and nodes.empty):
                nodes.look()
                nodes.renew()
                nodes.poll_if_due()
                if self._ends.is_set():
                    nodes.give_back(nodes.ready, "the end")
                elif nodes.settled:
                    nodes.take_and_give(
                        frozenset({"t"}), PoolDemand(((self._demand, None),)), nodes.pool
                    )
                nodes.release(frozenset())
                found = [h for h in nodes._fragments.all() if h.is_ready]
                self.jobs = {h.node: job_of(h.name) for h in found}
                self.held = {h.node: (h.size, h.fragment.is_part) for h in found}
                time.sleep(0.1)
            store.close()

    def wait(self, **expected: int) -> float:
        """Until these numbers of GPUs are held; seconds."""
        begun_s = time.monotonic()
        wait_until(
            lambda: {node: gpus for node, (gpus, _) in self.held.items()} == expected,
            f"{expected}: {self.held}",
            20,
        )
        return time.monotonic() - begun_s

    def close(self) -> None:
        self._ends.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "its holders have ended"


@contextmanager
def holding(lab: Lab, table: dict[str, Any], **more: Any) -> Iterator[Holding]:
    it = Holding(lab, table, **more)
    try:
        yield it
    finally:
        it.close()


def submit(
    lab: Lab, gpus: int, cpus: int, mem: int, node: str = "", seconds: int = 600
) -> tuple[str, Path, float]:
    """A main job: its id, the file with the time of its first line, the time of its submission."""
    stamp = lab.root / "log" / f"start-{time.time_ns()}"
    options = [*([f"--gres=gpu:{gpus}"] if gpus else []), *(["-w", node] if node else [])]
    begun_s = time.time()
    words = ["-p", "main", "-N1", f"-c{cpus}", f"--mem={mem}", "-t", "20", *options]
    job = lab.submit(f"date +%s.%N > {stamp}; sleep {seconds}", *words)
    return job, stamp, begun_s


def started(stamp: Path, begun_s: float, most_s: float = 20.0) -> float:
    """Seconds until the first line."""
    wait_until(
        lambda: stamp.exists() and stamp.read_text().strip(),
        "the main job's first line",
        most_s,
        0.005,
    )
    return float(stamp.read_text()) - begun_s


def main_job(lab: Lab, gpus: int, cpus: int, mem: int, node: str = "") -> tuple[str, float]:
    job, stamp, begun_s = submit(lab, gpus, cpus, mem, node)
    return job, started(stamp, begun_s)


def node_of_job(lab: Lab, job: str) -> str:
    return lab.run("squeue", "-h", "-j", job, "-o", "%N").strip()


LATE = "idle node held last"


def land(
    lab: Lab, table: dict[str, Any], mixed: str, idle: str
) -> Iterator[tuple[str, str, float, str]]:
    """Situation, where a 1-GPU main job goes, its wait, what was held before."""
    ways: dict[str, tuple[dict[str, Any] | None, dict[str, int]]] = {
        "nobody holds": (None, {}),
        "all is allowed": ({}, {idle: 8, mixed: 7}),
        "idle node excluded": ({"exclude": (idle,)}, {}),
        "part excluded": ({"exclude": (mixed,)}, {idle: 8}),
        "max_nodes = 1": ({"max_nodes": 1}, {idle: 8}),
        "demand of 3 GPUs": ({"demand": 3}, {idle: 8}),
        LATE: ({}, {idle: 8, mixed: 7}),
    }
    for situation, (nodes, expected) in ways.items():
        lab.cancel_all()
        main_job(lab, 1, 2, 8_000, mixed)
        for node in lab.node_names:
            if node not in (mixed, idle):
                main_job(lab, 8, 16, 60_000, node)
        if nodes is None:
            job, took_s = main_job(lab, 1, 2, 8_000)
            yield situation, node_of_job(lab, job), took_s, ""
            continue
        before = main_job(lab, 8, 16, 60_000, idle)[0] if situation == LATE else ""
        with holding(lab, table, **nodes) as pilot:
            if before:  # the holder of the idle node is the younger one
                pilot.wait(**{mixed: 7})
                lab.run("scancel", before)
            if expected:
                pilot.wait(**expected)
            time.sleep(3)  # several looks
            held = " ".join(f"{node}:{gpus}" for node, (gpus, _) in sorted(pilot.held.items()))
            job, took_s = main_job(lab, 1, 2, 8_000)
            yield situation, node_of_job(lab, job), took_s, held
        lab.run("scancel", job)


def landing(lab: Lab, table: dict[str, Any], orders: tuple[tuple[str, str], ...]) -> list[str]:
    """Situations in which a main job took the idle node, although it would have shared a node
    without a pilot.
    """
    wrong = []
    for mixed, idle in orders:
        nobody = ""
        for situation, node, took_s, held in land(lab, table, mixed, idle):
            where = {mixed: "mixed", idle: "idle"}[node]
            nobody = nobody or where
            bad = (nobody, where) == ("mixed", "idle")
            wrong += [f"{situation}, mixed {mixed}"] if bad else []
            words = (
                f"mixed {mixed}, idle {idle}: {situation:<20} {where:<6} {took_s:5.2f} s  "
                f"held {held}"
            )
            print(f"  {words}{'  WRONG' * bad}", flush=True)
    return wrong


def workers(lab: Lab, job: str, node: str, count: int) -> list[subprocess.Popen[bytes]]:
    """Steps as drivers start them."""
    options = ["--overlap", "-w", node, "-N1", "-n1", "--mem=0", "--cpu-bind=none"]
    step = ["srun", f"--jobid={job}", *options, "sleep", "1000"]
    return [
        subprocess.Popen(step, env=lab.environ(), stderr=subprocess.DEVNULL) for _ in range(count)
    ]


def delays(lab: Lab, table: dict[str, Any], runs: int) -> dict[str, list[float]]:
    """2-GPU jobs on a node with a main job of 1 GPU: nobody holds, a held part of 7; the rest is
    held again, and after the job all 7.
    """
    names = ("nobody holds", "part of 7 held", "rest held again", "7 held again")
    found: dict[str, list[float]] = {name: [] for name in names}
    lab.cancel_all()
    for node in lab.node_names[1:]:
        main_job(lab, 8, 16, 60_000, node)
    main_job(lab, 1, 2, 8_000, "node01")
    for _ in range(runs):
        job, took_s = main_job(lab, 2, 4, 16_000, "node01")
        found["nobody holds"].append(took_s)
        lab.run("scancel", job)
        wait_until(lambda job=job: not lab.run("squeue", "-h", "-j", job, "-t", "R,CG"), "its end")
        with holding(lab, table) as pilot:
            pilot.wait(node01=7)
            steps = workers(lab, pilot.jobs["node01"], "node01", 2)
            time.sleep(2.5)  # a part that is lost within 2 s is backed off
            job, took_s = main_job(lab, 2, 4, 16_000, "node01")
            found["part of 7 held"].append(took_s)
            found["rest held again"].append(pilot.wait(node01=5))
            assert all(step.wait(10) for step in steps), "workers have ended"
            lab.run("scancel", job)
            found["7 held again"].append(pilot.wait(node01=7))
        wait_until(lambda job=job: not lab.run("squeue", "-h", "-j", job, "-t", "R,CG"), "its end")
    return found


def beside(lab: Lab, table: dict[str, Any]) -> tuple[float, bool]:
    """A CPU-only job of 4 cores beside a held part: its wait, and whether the part is held by the
    same job as before.
    """
    lab.cancel_all()
    for node in lab.node_names[1:]:
        main_job(lab, 8, 16, 60_000, node)
    main_job(lab, 1, 2, 8_000, "node01")
    with holding(lab, {**table, "mem_per_gpu": 6_000}) as pilot:
        pilot.wait(node01=7)
        holder = pilot.jobs["node01"]
        _, took_s = main_job(lab, 0, 4, 8_000, "node01")
        time.sleep(3)
        return took_s, pilot.jobs.get("node01") == holder


@contextmanager
def cluster(version: str, settings: Settings) -> Iterator[Lab]:
    with measuring.cluster(settings, version) as lab:
        if settings.accounting:
            preemptible_qos(lab)
            parts_qos(lab)
        yield lab
