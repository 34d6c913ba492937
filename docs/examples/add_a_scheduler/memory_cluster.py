"""The scheduler of memory_scheduler.py as a site of bftrainer, in five verbs."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from memory_scheduler import JOB_VARIABLE, SCAVENGE, Job, MemoryScheduler

from bftrainer.api import (
    Availability,
    NodeView,
    Observation,
    PendingJob,
    Reservation,
    SchedulerError,
    UnknownStateError,
)
from bftrainer_clusters.simple import (
    HolderSettings,
    JobPhase,
    JobRecord,
    JobRequest,
    SimpleCluster,
    SimpleSite,
)

Answer = TypeVar("Answer")

NODE_STATES = {
    "Idle": Availability.FREE,
    "Kept": Availability.PLANNED,
    "Occupied": Availability.BUSY,
    "Closed": Availability.UNUSABLE,
}

JOB_STATES = {
    "Waiting": JobPhase.WAITS,
    "Running": JobPhase.RUNS,
    "Ending": JobPhase.LEAVES,
    "Ended": JobPhase.OVER,
    "Killed": JobPhase.OVER,
}


class MemorySettings(HolderSettings):
    """The table ``[memory]`` of the pilot's configuration."""

    queue: str = SCAVENGE
    """The preemptable queue of the holders."""


class MemoryCluster(SimpleCluster[MemorySettings]):
    """Five verbs and a table of job states."""

    name = "Memory"
    job_variable = JOB_VARIABLE
    states = JOB_STATES

    def __init__(self, settings: MemorySettings, scheduler: MemoryScheduler) -> None:
        super().__init__(settings)
        self.scheduler = scheduler

    def observe(self) -> Observation:
        states, jobs = self._ask(lambda: (self.scheduler.node_states(), self.scheduler.jobs()))
        waiting = [job for job in jobs if job.state == "Waiting"]
        return Observation(
            time.time(),
            tuple(self._node(name, state) for name, state in states.items()),
            tuple(_pending(job) for job in waiting),
            tuple(
                Reservation("maint", starts_s, starts_s + 3600.0, frozenset({node}))
                for node, starts_s in self.scheduler.reserved.items()
            ),
        )

    def submit(self, job: JobRequest) -> str:
        return self._ask(
            lambda: self.scheduler.submit(
                self.settings.queue, job.minutes, job.label, job.node, command=job.argv
            )
        )

    def list(self) -> tuple[JobRecord, ...]:
        jobs = self._ask(self.scheduler.jobs)
        own = [job for job in jobs if job.queue == self.settings.queue]
        return tuple(JobRecord(job.id, job.name, job.state, job.ends_s, job.reason) for job in own)

    def cancel(self, ids: Sequence[str]) -> None:
        self._ask(lambda: self.scheduler.delete(ids))

    def signal(self, ids: Sequence[str], number: signal.Signals) -> None:
        self._ask(lambda: self.scheduler.kill(ids, number))

    @property
    def holder_queues(self) -> frozenset[str]:
        return frozenset({self.settings.queue})

    def _node(self, name: str, state: str) -> NodeView:
        if state not in NODE_STATES:
            raise UnknownStateError("node", state)
        return NodeView(
            name,
            NODE_STATES[state],
            cpus=self.scheduler.nodes[name],
            state=state,
            is_withdrawn=name in self.scheduler.closed,
        )

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Raise an error if the scheduler does not answer: that is not an empty cluster."""
        try:
            return question()
        except (ConnectionError, ValueError) as error:
            raise SchedulerError(f"{self.name}: {error}") from error


def _pending(job: Job) -> PendingJob:
    return PendingJob(job.id, "", (job.queue,), job.count, job.starts_s, frozenset(job.nodes))


SCHEDULER = MemoryScheduler({f"node{number:02d}": 2 for number in range(1, 9)})
SITE = SimpleSite("memory", MemorySettings, lambda settings: MemoryCluster(settings, SCHEDULER))
