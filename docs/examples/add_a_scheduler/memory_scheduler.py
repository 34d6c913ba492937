"""A batch scheduler in the memory of this process, for docs/add-a-scheduler.md and the contract
suites.

Its nodes are names, and jobs that have a command run it on this host. Jobs of the queue
``scavenge`` are preempted by jobs of the queue ``main``: SIGTERM, and SIGKILL after
:data:`GRACE_S`. It plans as simple schedulers do: main jobs start in their order, and while the
first of them waits, a scavenger job may start only if its time limit ends before. Every question
runs a scheduling cycle.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

GRACE_S = 10.0
JOB_VARIABLE = "MEMORY_JOB_ID"
MAIN, SCAVENGE = "main", "scavenge"


@dataclass
class Job:
    """``node`` is the node that it asks for by name, or ``count`` how many of any. ``nodes`` are
    those that it has, or for which it is planned.
    """

    id: str
    queue: str
    name: str
    minutes: int
    node: str = ""
    count: int = 1
    command: tuple[str, ...] = ()
    state: str = "Waiting"
    reason: str = ""
    nodes: tuple[str, ...] = ()
    starts_s: float | None = None
    kill_at_s: float | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def is_active(self) -> bool:
        return self.state in ("Running", "Ending")

    @property
    def is_over(self) -> bool:
        return self.state in ("Ended", "Killed")

    @property
    def ends_s(self) -> float | None:
        """The end of its time limit, once it runs."""
        return None if self.starts_s is None else self.starts_s + 60.0 * self.minutes


@dataclass
class MemoryScheduler:
    """``nodes`` by name, with their cores. ``closed`` nodes start no job; ``reserved`` are the
    beginnings of reservations (seconds of the epoch) by their nodes. While ``is_down``, every
    question fails.
    """

    nodes: dict[str, int]
    closed: set[str] = field(default_factory=set)
    reserved: dict[str, float] = field(default_factory=dict)
    is_down: bool = False
    all_jobs: dict[str, Job] = field(default_factory=dict)

    def submit(
        self,
        queue: str,
        minutes: int,
        name: str = "",
        node: str = "",
        count: int = 1,
        command: Sequence[str] = (),
    ) -> str:
        """The id of the new job. Raises ``ValueError`` for an unknown node."""
        self._cycle()
        if node and node not in self.nodes:
            raise ValueError(f"unknown node {node}")
        # What runs in a job is found by the job's id: no other scheduler of this host has the same.
        id_ = secrets.token_hex(4)
        job = Job(id_, queue, name, minutes, node, count, tuple(command))
        self.all_jobs[job.id] = job
        self._cycle()
        return job.id

    def jobs(self) -> list[Job]:
        """All jobs of everybody, ended ones included."""
        self._cycle()
        return list(self.all_jobs.values())

    def node_states(self) -> dict[str, str]:
        """``Idle``, ``Occupied``, ``Kept`` (idle until a planned job starts) or ``Closed``."""
        self._cycle()
        kept = {node for job in self._waiting(MAIN) for node in job.nodes}
        return {node: self._state_of(node, kept) for node in self.nodes}

    def delete(self, ids: Sequence[str]) -> None:
        """End jobs: SIGTERM, and SIGKILL after a while."""
        self._cycle()
        for job in self._chosen(ids):
            self._end(job, "deleted")
        self._cycle()

    def kill(self, ids: Sequence[str], number: int) -> None:
        """Send a signal to the first processes of jobs."""
        self._cycle()
        for job in self._chosen(ids):
            if job.process is not None and job.is_active:
                job.process.send_signal(number)

    def shut_down(self) -> None:
        """Kill everything that runs."""
        for job in self.all_jobs.values():
            _kill_group(job)
            if job.process is not None:
                job.process.wait()

    def _chosen(self, ids: Sequence[str]) -> list[Job]:
        return [self.all_jobs[id_] for id_ in ids if id_ in self.all_jobs]

    def _waiting(self, queue: str) -> list[Job]:
        jobs = self.all_jobs.values()
        return [job for job in jobs if job.state == "Waiting" and job.queue == queue]

    def _on(self, node: str) -> Job | None:
        """The job that has the node."""
        jobs = self.all_jobs.values()
        return next((job for job in jobs if job.is_active and node in job.nodes), None)

    def _state_of(self, node: str, kept: set[str]) -> str:
        if self._on(node) is not None:
            return "Occupied"
        if node in self.closed:
            return "Closed"
        return "Kept" if node in kept else "Idle"

    def _cycle(self) -> None:
        if self.is_down:
            raise ConnectionError("the scheduler does not answer")
        for job in self.all_jobs.values():
            self._look_after(job)
        for job in self._waiting(MAIN):
            if not self._start_main(job):
                break
        for job in self._waiting(SCAVENGE):
            self._start_scavenger(job)

    def _look_after(self, job: Job) -> None:
        """Notice the end of a job, and end one whose time is over."""
        if not job.is_active:
            return
        now_s = time.time()
        if job.process is not None and job.process.poll() is not None:
            _kill_group(job)
            job.state = "Killed" if job.kill_at_s is not None else "Ended"
        elif job.kill_at_s is not None and now_s >= job.kill_at_s:
            _kill_group(job)
        elif job.ends_s is not None and now_s >= job.ends_s:
            self._end(job, "time limit")

    def _end(self, job: Job, reason: str) -> None:
        if job.is_over or job.state == "Ending":
            return
        job.reason = reason
        if job.process is None:
            job.state = "Killed"
            return
        job.state, job.kill_at_s = "Ending", time.time() + GRACE_S
        job.process.terminate()

    def _start_main(self, job: Job) -> bool:
        """Start a main job, perhaps at the expense of scavengers; whether the next may be looked
        at.
        """
        holders = {node: self._on(node) for node in self.nodes if node not in self.closed}
        usable = [node for node, other in holders.items() if other is None or _yields(other)]
        if len(usable) < job.count:
            self._plan(job, holders)
            return False
        usable.sort(key=lambda node: holders[node] is not None)  # idle nodes first
        chosen = usable[: job.count]
        in_the_way = [other for node in chosen if (other := holders[node]) is not None]
        for other in in_the_way:
            self._end(other, "preempted")
        if any(not other.is_over for other in in_the_way):
            return False
        self._run(job, tuple(chosen))
        return True

    def _plan(self, job: Job, holders: dict[str, Job | None]) -> None:
        """When the nodes of other main jobs are free, by their time limits."""
        ends = {node: _end_of_main(other) for node, other in holders.items()}
        nodes = sorted(ends, key=lambda node: (ends[node], node))[: job.count]
        if len(nodes) == job.count:
            job.nodes, job.starts_s = tuple(nodes), max(ends[node] for node in nodes)

    def _start_scavenger(self, job: Job) -> None:
        """Start it on its node, if that is idle until its time limit."""
        ends_s = time.time() + 60.0 * job.minutes
        planned = self._waiting(MAIN)
        wanted = [other.starts_s for other in planned if job.node in other.nodes]
        wanted.append(self.reserved.get(job.node))
        is_wanted = any(at_s is not None and at_s < ends_s for at_s in wanted)
        if job.node in self.closed or self._on(job.node) is not None or is_wanted:
            job.reason = "no idle node"
            return
        self._run(job, (job.node,))

    def _run(self, job: Job, nodes: tuple[str, ...]) -> None:
        job.state, job.nodes, job.starts_s, job.reason = "Running", nodes, time.time(), ""
        if job.command:
            job.process = subprocess.Popen(  # noqa: S603  # the job's own command, in a list
                job.command,
                env={**os.environ, JOB_VARIABLE: job.id},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )


def _yields(job: Job) -> bool:
    return job.queue == SCAVENGE


def _end_of_main(job: Job | None) -> float:
    """When its node is free for a main job; scavengers leave at once."""
    if job is None or _yields(job) or job.ends_s is None:
        return time.time()
    return job.ends_s


def _kill_group(job: Job) -> None:
    if job.process is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(job.process.pid, signal.SIGKILL)
