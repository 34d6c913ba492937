"""What the contract suites need of a cluster besides its two ports: jobs, reservations, broken
nodes, time.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from bftrainer.cluster.model import Fragment
from bftrainer.cluster.ports import NodeHolder, Scheduler
from bftrainer.fragment_names import job_of
from bftrainer.system.clock import SystemClock
from bftrainer.system.processes import send, with_variable
from bftrainer_clusters.on_node import payload
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.hold import SlurmHolder
from bftrainer_clusters.slurm.observe import SlurmScheduler
from bftrainer_drivers.common.command_line import step_command
from support.ordered_workers import WORKER_MARK
from support.slurm_lab import Lab, wait_until

OAR = pytest.param("oar", marks=[pytest.mark.root, pytest.mark.nightly])
"""A live OAR runs in namespaces, which only root can make. The suites take minutes there, since each
of its decisions takes seconds; tests/oar/test_verbs_on_oar.py is shorter.
"""
HOLDERS = ["slurm", "slurm, 3 nodes a holder", "lsf", "pbs", "pbs, 3 nodes a holder", "memory", OAR]
"""For the fixture ``cluster``, where jobs of several nodes matter."""


class ClusterUnderTest(Protocol):
    scheduler: Scheduler
    nodes: list[str]
    tells_for_whom: bool
    """Whether the end of a window names the job that ends it."""
    nodes_per_holder: int
    releases_alone: bool
    """Whether a job of several nodes can give back one, and keep the others."""

    def holder(self, pilot: str = "test", lease_s: float = 60.0) -> NodeHolder: ...
    def main_job(self, size: int, minutes: int) -> str: ...
    def reserve(self, node: str, in_minutes: int) -> str: ...
    def drain(self, node: str) -> None: ...
    def go_silent(self) -> None: ...
    def answer_again(self) -> None: ...
    def start_worker(self, fragment: Fragment, script: str = "sleep 1000") -> None: ...
    def workers(self) -> int: ...
    def kill_payload(self, fragment: Fragment) -> None: ...
    def until(self, condition: Callable[[], object], what: str) -> None: ...


@dataclass
class RealSlurm:
    """The cluster of slurm_lab."""

    lab: Lab
    state: Path
    tells_for_whom: bool = True
    nodes_per_holder: int = 1
    releases_alone: bool = False
    sruns: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def scheduler(self) -> Scheduler:
        return SlurmScheduler(calls=SlurmCalls(self.lab.env), timeout_s=15)

    @property
    def nodes(self) -> list[str]:
        return self.lab.node_names

    def holder(self, pilot: str = "test", lease_s: float = 60.0, **settings: object) -> SlurmHolder:
        usual = {"partition": "scavenge", "timeout_s": 15.0, "start_within_s": 30.0}
        chosen = SlurmSettings.model_validate(
            {**usual, "nodes_per_holder": self.nodes_per_holder, **settings}
        )
        folder = self.state / f"holders-{pilot}"
        return SlurmHolder(
            chosen,
            folder,
            pilot,
            SystemClock(),
            lease_s,
            poll_s=1.0,
            calls=SlurmCalls(self.lab.env),
        )

    def main_job(self, size: int, minutes: int, script: str = "sleep 600") -> str:
        return self.lab.submit(script, "-p", "main", f"-N{size}", "-t", str(minutes))

    def reserve(self, node: str, in_minutes: int) -> str:
        self.lab.run(
            "scontrol",
            "create",
            "reservation",
            "ReservationName=maint",
            f"StartTime=now+{in_minutes}minutes",
            "Duration=60",
            "Users=root",
            f"Nodes={node}",
            "Flags=MAINT",
        )
        return "maint"

    def drain(self, node: str) -> None:
        self.lab.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")

    def go_silent(self) -> None:
        self.lab.stop_daemon("slurmctld")

    def answer_again(self) -> None:
        self.lab.start_controller()

    def start_worker(self, fragment: Fragment, script: str = "sleep 1000") -> None:
        before = self.workers()
        self.spawn_worker(fragment, script)
        wait_until(lambda: self.workers() > before, "the worker to start")

    def spawn_worker(self, fragment: Fragment, script: str) -> None:
        argv = [
            "srun",
            f"--jobid={job_of(fragment.name)}",
            "--overlap",
            "-w",
            fragment.node,
            "-N1",
            "-n1",
            "--mem=0",
            "--export=ALL",
            *step_command(["bash", "-c", script]),
        ]
        quiet = subprocess.DEVNULL
        env = {**self.lab.environ(), WORKER_MARK: str(self.lab.root)}
        self.sruns.append(
            subprocess.Popen(
                argv, env=env, start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet
            )
        )

    def workers(self) -> int:
        """Processes of workers on the nodes, not the sruns that started them."""
        ids = {process.pid for process in self.sruns}
        return len(
            [
                p
                for p in with_variable(WORKER_MARK, str(self.lab.root))
                if p.pid not in ids and not _is_srun(p.pid)
            ]
        )

    def kill_payload(self, fragment: Fragment) -> None:
        (found,) = (
            process
            for process in with_variable("SLURM_JOB_ID", job_of(fragment.name))
            if Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")[3:4]
            == [payload.__file__.encode()]
            and f"SLURMD_NODENAME={fragment.node}\0".encode()
            in Path(f"/proc/{process.pid}/environ").read_bytes()
        )
        send(found, signal.SIGKILL)

    def until(self, condition: Callable[[], object], what: str) -> None:
        try:
            wait_until(condition, what, seconds=40)
        except AssertionError as error:
            queue = self.lab.run("squeue", "-a", "-t", "all", "-o", "%i %P %T %N %M %r")
            states = self.lab.run("sinfo", "-h", "-N", "-o", "%N %T %E")
            logs = "\n".join(
                f"{log.name}: {log.read_text()[-500:]}" for log in self.state.rglob("*.log")
            )
            raise AssertionError(f"{error}\n{queue}\n{states}\n{logs}") from error

    def close(self) -> None:
        self.lab.cancel_all()
        for process in self.sruns:
            process.wait(60)


def _is_srun(pid: int) -> bool:
    """srun forks a helper that has its environment."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == "srun"
    return True
