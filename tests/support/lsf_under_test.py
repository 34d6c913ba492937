"""The stand-in LSF for the contract suites (tests/lsf)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bftrainer.cluster.model import Fragment
from bftrainer.cluster.ports import Scheduler
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.lsf.hold import LsfCluster
from bftrainer_clusters.simple import SimpleHolder
from support.lsf_lab import Lab, wait_until
from support.ordered_workers import OrderedWorkers

LsfLab = Lab
QUEUE = "scavenge"


@dataclass
class StandInLsf:
    """Its windows tell when a node is wanted, not by which job."""

    lab: Lab
    state: Path
    tells_for_whom: bool = False
    nodes_per_holder: int = 1
    releases_alone: bool = False

    def __post_init__(self) -> None:
        self.ordered = OrderedWorkers(self.state, self.lab.root, self.lab.env)

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
        self.ordered.start(fragment, script)

    def spawn_worker(
        self, fragment: Fragment, script: str, pilot: str = "test"
    ) -> subprocess.Popen[bytes]:
        return self.ordered.spawn(fragment, script, pilot)

    @property
    def prefixes(self) -> list[subprocess.Popen[bytes]]:
        return self.ordered.prefixes

    def workers(self) -> int:
        return self.ordered.count()

    def until(self, condition: Callable[[], object], what: str) -> None:
        wait_until(condition, what, seconds=40)

    def close(self) -> None:
        self.lab.stop()
        self.ordered.close()
