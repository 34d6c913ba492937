"""The stand-in LSF for the contract suites (tests/lsf)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.cluster.model import Fragment
from bftrainer.cluster.ports import Scheduler
from bftrainer.system.clock import SystemClock
from bftrainer.system.command import scrubbed
from bftrainer.system.processes import with_variable
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.lsf.hold import LsfCluster
from bftrainer_clusters.simple import SimpleHolder
from support.lsf_lab import Lab, wait_until
from support.patience import PATIENCE

LsfLab = Lab
WORKER_MARK = "BFTRAINER_TEST_WORKER"
QUEUE = "scavenge"


@dataclass
class StandInLsf:
    """Its windows tell when a node is wanted, not by which job."""

    lab: Lab
    state: Path
    tells_for_whom: bool = False
    nodes_per_holder: int = 1
    prefixes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def kill_payload(self, fragment: Fragment) -> None:
        raise NotImplementedError("holders have one node")

    @property
    def scheduler(self) -> Scheduler:
        return self.cluster()

    @property
    def nodes(self) -> list[str]:
        return self.lab.node_names

    def settings(self, **settings: object) -> LsfSettings:
        slots = self.lab.slots
        python = {"python": sys.executable}
        return LsfSettings.model_validate(
            {"queue": QUEUE, "slots_per_node": slots, "timeout_s": 30.0, **python, **settings}
        )

    def cluster(self, **settings: object) -> LsfCluster:
        return LsfCluster(self.settings(**settings), SystemClock(), self.lab.env)

    def holder(
        self, pilot: str = "test", lease_s: float = 60.0, **settings: object
    ) -> SimpleHolder[LsfSettings]:
        folder = self.state / f"holders-{pilot}"
        cluster = self.cluster(**settings)
        return SimpleHolder(cluster, "lsf", folder, pilot, SystemClock(), lease_s, 1.0)

    def main_job(self, size: int, minutes: int) -> str:
        return self.lab.bsub("-nnodes", str(size), "-W", str(minutes), "sleep", "600")

    def reserve(self, node: str, in_minutes: int) -> str:
        begin, end = (time.localtime(time.time() + s * 60) for s in (in_minutes, in_minutes + 60))
        window = "-".join(f"{t.tm_mon}/{t.tm_mday}/{t.tm_hour}/{t.tm_min}" for t in (begin, end))
        head = "RSVID       TYPE    USER   NCPUS      RSV_HOSTS           TIME_WINDOW \n"
        self.lab.change(
            reservations=f"{head}maint       sys     system  2   {node}:0/2   {window} \n"
        )
        return "maint"

    def drain(self, node: str) -> None:
        self.lab.edit(lambda state: state["hosts"][node].update(status="closed_Adm"))

    def go_silent(self) -> None:
        self.lab.fault("*", "down-at-once")

    def answer_again(self) -> None:
        self.lab.heal()

    def start_worker(self, fragment: Fragment, script: str = "sleep 1000") -> None:
        before = self.workers()
        self.spawn_worker(fragment, script)
        wait_until(lambda: self.workers() > before, "the worker to start")

    def spawn_worker(
        self, fragment: Fragment, script: str, pilot: str = "test"
    ) -> subprocess.Popen[bytes]:
        holders = str((self.state / f"holders-{pilot}").absolute())
        argv = [
            sys.executable,
            "-m",
            "bftrainer_clusters.holding.worker",
            holders,
            fragment.node,
            fragment.id,
        ]
        env = {**scrubbed(os.environ), **self.lab.env, WORKER_MARK: str(self.lab.root)}
        process = subprocess.Popen(
            [*argv, "bash", "-c", script],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.prefixes.append(process)
        return process

    def workers(self) -> int:
        """Processes of workers on the nodes, not the prefixes that ordered them."""
        ids = {process.pid for process in self.prefixes}
        return len([p for p in with_variable(WORKER_MARK, str(self.lab.root)) if p.pid not in ids])

    def until(self, condition: Callable[[], object], what: str) -> None:
        wait_until(condition, what, seconds=40)

    def close(self) -> None:
        self.lab.stop()
        for folder in self.state.glob(
            "holders-*/*/"
        ):  # as the pilot does for a fragment that is gone: prefixes end
            shutil.rmtree(folder, ignore_errors=True)
        for process in self.prefixes:
            process.kill()
            process.wait(30 * PATIENCE)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
