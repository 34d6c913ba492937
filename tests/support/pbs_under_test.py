"""The stand-in PBS for the contract suites (tests/pbs)."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bftrainer.cluster.model import Fragment
from bftrainer.cluster.ports import Scheduler
from bftrainer.fragment_names import job_of
from bftrainer.system.clock import SystemClock
from bftrainer.system.processes import ProcessId, send
from bftrainer_clusters.on_node import job_payload, payload
from bftrainer_clusters.pbs.config import PbsSettings
from bftrainer_clusters.pbs.hold import PbsCluster
from bftrainer_clusters.simple import SimpleHolder
from support.ordered_workers import OrderedWorkers
from support.pbs_lab import PbsLab, wait_until

QUEUE = "scavenge"


def parent_of(pid: int) -> int:
    return int(payload.read(pid, "stat").rpartition(b")")[2].split()[1])


@dataclass
class StandInPbs:
    """Its plans name the job and the nodes."""

    lab: PbsLab
    state: Path
    tells_for_whom: bool = True
    nodes_per_holder: int = 1
    releases_alone: bool = True

    def __post_init__(self) -> None:
        self.ordered = OrderedWorkers(self.state, self.lab.root, self.lab.env)

    def kill_payload(self, fragment: Fragment) -> None:
        send(self._payload(fragment), signal.SIGKILL)

    def stop_payload(self, fragment: Fragment) -> None:
        """It hangs, as on a file system that does not answer."""
        send(self._payload(fragment), signal.SIGSTOP)

    def _payload(self, fragment: Fragment) -> ProcessId:
        """The process itself, and not the guardian, which is its child."""
        variables = {f"PBS_JOBID={job_of(fragment.name)}.{self.lab.server}"}
        if self.nodes_per_holder > 1:
            variables.add(f"{job_payload.ONE_OF_SEVERAL}={fragment.node}")
        payloads = [
            process
            for process in self.lab.processes_of(job_of(fragment.name))
            if job_payload.__file__.encode() in payload.read(process.pid, "cmdline").split(b"\0")
            and {each.encode() for each in variables}
            <= set(job_payload.read_variables(process.pid))
        ]
        pids = {process.pid for process in payloads}
        (found,) = (p for p in payloads if parent_of(p.pid) not in pids)
        return found

    @property
    def scheduler(self) -> Scheduler:
        return self.cluster()

    @property
    def nodes(self) -> list[str]:
        return self.lab.node_names

    def cluster(self, **settings: object) -> PbsCluster:
        usual = {
            "queue": QUEUE,
            "timeout_s": 30.0,
            "start_within_s": 30.0,
            "nodes_per_holder": self.nodes_per_holder,
        }
        table = PbsSettings.model_validate({**usual, "python": sys.executable, **settings})
        return PbsCluster(table, SystemClock(), self.lab.env)

    def holder(
        self, pilot: str = "test", lease_s: float = 60.0, **settings: object
    ) -> SimpleHolder[PbsSettings]:
        folder, cluster = self.state / f"holders-{pilot}", self.cluster(**settings)
        return SimpleHolder(cluster, "pbs", folder, pilot, SystemClock(), lease_s, 1.0)

    def main_job(self, size: int, minutes: int) -> str:
        return self.lab.main_job(size, minutes=minutes)

    def reserve(self, node: str, in_minutes: int) -> str:
        begin, end = (time.gmtime(time.time() + s * 60) for s in (in_minutes, in_minutes + 60))
        times = [time.strftime("%a %b %d %H:%M:%S %Y", each) for each in (begin, end)]
        self.lab.change(
            reservations="Resv ID: R1.head\nReserve_Name = maint\nReserve_Owner = root@head\n"
            f"reserve_state = RESV_CONFIRMED\nreserve_start = {times[0]}\n"
            f"reserve_end = {times[1]}\nresv_nodes = ({node}:ncpus=2)\n\n"
        )
        return "R1.head"

    def drain(self, node: str) -> None:
        self.lab.edit(lambda state: state["nodes"][node].update(states=["offline"]))

    def go_silent(self) -> None:
        self.lab.fault("*", "down")

    def answer_again(self) -> None:
        self.lab.heal()

    def start_worker(self, fragment: Fragment, script: str = "sleep 1000") -> None:
        self.ordered.start(fragment, script)

    def workers(self) -> int:
        return self.ordered.count()

    def until(self, condition: Callable[[], object], what: str) -> None:
        wait_until(condition, what, seconds=40)

    def close(self) -> None:
        self.lab.stop()
        self.ordered.close()
