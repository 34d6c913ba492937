"""The scheduler in memory of docs/add-a-scheduler.md, for the contract suites."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bftrainer.cluster.model import Fragment
from bftrainer.cluster.ports import NodeHolder, Scheduler
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.simple import SimpleHolder
from support.ordered_workers import OrderedWorkers
from support.slurm_lab import wait_until

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "add_a_scheduler"
sys.path.insert(0, str(EXAMPLE))
from memory_cluster import MemoryCluster, MemorySettings  # noqa: E402
from memory_scheduler import MAIN, MemoryScheduler  # noqa: E402


@dataclass
class InMemory:
    """Its nodes are names, and its holders are processes of this host."""

    state: Path
    tells_for_whom: bool = True
    nodes_per_holder: int = 1
    releases_alone: bool = False

    def __post_init__(self) -> None:
        self.memory = MemoryScheduler({f"node{number:02d}": 2 for number in range(1, 9)})
        self.ordered = OrderedWorkers(self.state, self.state)

    @property
    def scheduler(self) -> Scheduler:
        return self.cluster()

    @property
    def nodes(self) -> list[str]:
        return list(self.memory.nodes)

    def cluster(self, **settings: object) -> MemoryCluster:
        usual = {"start_within_s": 30.0, "python": sys.executable}
        return MemoryCluster(MemorySettings.model_validate({**usual, **settings}), self.memory)

    def holder(self, pilot: str = "test", lease_s: float = 60.0, **settings: object) -> NodeHolder:
        folder, cluster = self.state / f"holders-{pilot}", self.cluster(**settings)
        return SimpleHolder(cluster, "memory", folder, pilot, SystemClock(), lease_s, 1.0)

    def main_job(self, size: int, minutes: int) -> str:
        return self.memory.submit(MAIN, minutes, count=size)

    def reserve(self, node: str, in_minutes: int) -> str:
        self.memory.reserved[node] = time.time() + 60.0 * in_minutes
        return "maint"

    def drain(self, node: str) -> None:
        self.memory.closed.add(node)

    def go_silent(self) -> None:
        self.memory.is_down = True

    def answer_again(self) -> None:
        self.memory.is_down = False

    def start_worker(self, fragment: Fragment, script: str = "sleep 1000") -> None:
        self.ordered.start(fragment, script)

    def workers(self) -> int:
        return self.ordered.count()

    def kill_payload(self, fragment: Fragment) -> None:
        raise NotImplementedError("holders have one node")

    def until(self, condition: Callable[[], object], what: str) -> None:
        wait_until(condition, what, seconds=40)

    def close(self) -> None:
        self.memory.shut_down()
        self.ordered.close()
