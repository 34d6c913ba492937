"""A live OAR for the contract suites (oar_lab.py)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bftrainer.cluster.model import Fragment
from bftrainer.cluster.ports import Scheduler
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.oar.site import OarCluster, OarSettings
from bftrainer_clusters.simple import SimpleHolder
from support.oar_lab import Lab
from support.ordered_workers import OrderedWorkers
from support.slurm_lab import wait_until


@dataclass
class LiveOar:
    """Main jobs are those of another user."""

    lab: Lab
    state: Path
    tells_for_whom: bool = True
    nodes_per_holder: int = 1
    releases_alone: bool = False

    def __post_init__(self) -> None:
        self.ordered = OrderedWorkers(self.state, self.state)

    @property
    def scheduler(self) -> Scheduler:
        return self.cluster()

    @property
    def nodes(self) -> list[str]:
        return self.lab.node_names

    def cluster(self, **settings: object) -> OarCluster:
        usual = {"python": sys.executable, "timeout_s": 30.0}
        return OarCluster(OarSettings.model_validate({**usual, **settings}), self.lab.env)

    def holder(
        self, pilot: str = "test", lease_s: float = 60.0, **settings: object
    ) -> SimpleHolder[OarSettings]:
        folder, cluster = self.state / f"holders-{pilot}", self.cluster(**settings)
        return SimpleHolder(cluster, "oar", folder, pilot, SystemClock(), lease_s, 1.0)

    def main_job(self, size: int, minutes: int) -> str:
        return self.lab.oarsub(
            "-l", f"/network_address={size},walltime=0:{minutes}:0", "exec sleep 600"
        )

    def reserve(self, node: str, in_minutes: int) -> str:
        begin = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() + 60.0 * in_minutes))
        where = ("-p", f"network_address='{node}'", "-l", "/network_address=1,walltime=1:0:0")
        return self.lab.oarsub("-r", begin, *where, "exec sleep 600")

    def drain(self, node: str) -> None:
        self.lab.set_property(node, "drain", "YES")

    def go_silent(self) -> None:
        self.lab.stop_database()

    def answer_again(self) -> None:
        self.lab.start_database()

    def start_worker(self, fragment: Fragment, script: str = "sleep 1000") -> None:
        self.ordered.start(fragment, script)

    def workers(self) -> int:
        return self.ordered.count()

    def kill_payload(self, fragment: Fragment) -> None:
        raise NotImplementedError("holders have one node")

    def until(self, condition: Callable[[], object], what: str) -> None:
        try:
            wait_until(condition, what, seconds=120, every_s=0.3)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.lab.run('oarstat')}") from error

    def close(self) -> None:
        self.lab.tidy_up()
        self.ordered.close()
