"""All unfinished jobs by bjobs, and the main jobs among them that wait for nodes, for a pilot that
makes way for main jobs itself. Pure.

No text that other users write is read. LSF's tools have printed names of jobs into JSON without
escapes, so the name of one job could make the list of all jobs unreadable. LSF selects holders by
their name instead, and tells their IDs (:func:`holders_argv`).

From manuals and the stand-in: no real LSF was available. LSF tells how many slots a job needs, and
not reliably why it is pending, so every pending job counts as one that idle hosts would let start.
One that waits for something else costs a few offers (:mod:`bftrainer.decide.yielding`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bftrainer.cluster.model import NodeView, NodeWaits, PendingJob
from bftrainer.decide.yielding.facts import ListedHolder, NodeWait
from bftrainer.errors import SchedulerError, UnknownStateError
from bftrainer_clusters.lsf.jobs import HOLDER_NAME, PHASES, hosts_of, run_time_s
from bftrainer_clusters.lsf.text import records, says_nothing, value_of
from bftrainer_clusters.simple import JobPhase

JOB_FIELDS = "jobid stat user queue nreq_slot run_time exec_host"
_LABEL = re.compile(r"bftrainer:([^\s:]+):\S+")
_WAITING, _HELD = "PEND", "PSUSP"
_RECENT_S = 300.0
"""How long a main job counts as one that has started lately."""


def jobs_argv() -> list[str]:
    """Build the query for all unfinished jobs of all users."""
    return ["bjobs", "-u", "all", "-o", JOB_FIELDS, "-json"]


def holders_argv() -> list[str]:
    """Build the query for the IDs of all users' unfinished holders."""
    return ["bjobs", "-u", "all", "-J", HOLDER_NAME, "-o", "jobid", "-json"]


@dataclass(frozen=True, slots=True)
class ListedHolders:
    """Which jobs are holders: ``ids`` of those of all users, and the ``labels`` of those of
    ``user``, by ID.
    """

    ids: frozenset[str] = frozenset()
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def pilot_of(self, job: str, user: str) -> str:
        """Return ``user/pilot`` of a holder; empty for a main job. The pilots of other users have
        no names here. A main job that only looks like a holder is its user's own loss, and the user
        is LSF's word.
        """
        if user != self.user:
            return f"{user}/" if job in self.ids else ""
        label = _LABEL.fullmatch(self.labels.get(job, ""))
        return "" if label is None else f"{user}/{label[1]}"


@dataclass(frozen=True, slots=True)
class UnfinishedJob:
    """A job that is not over. ``slots`` is how many it needs, ``priority`` its queue's. ``pilot``:
    ``user/pilot`` of a holder, empty for a main job. ``hosts`` and ``ran_s`` of a running job.
    """

    id: str
    user: str
    queue: str
    state: str
    slots: int
    priority: int
    pilot: str = ""
    hosts: tuple[str, ...] = ()
    ran_s: float = 0.0

    def size(self, slots_per_node: int) -> int:
        """Return how many whole nodes the job needs."""
        return max(-(-self.slots // slots_per_node), 1)


@dataclass(frozen=True, slots=True)
class UnfinishedJobs:
    """All jobs of all users."""

    jobs: tuple[UnfinishedJob, ...]

    def hidden_queues(self, counts: Mapping[str, int], user: str) -> frozenset[str]:
        """Return the queues that have jobs by ``counts`` (slots of jobs by queue), while no job of
        them is listed here, nor any of another user than ``user`` in other queues.
        """
        if any(job.user != user for job in self.jobs):
            return frozenset()
        listed = {job.queue for job in self.jobs}
        return frozenset(name for name, slots in counts.items() if slots and name not in listed)

    def with_holders(self, holders: ListedHolders) -> UnfinishedJobs:
        """Return the same jobs, with the pilots of holders."""
        jobs = self.jobs
        return UnfinishedJobs(
            tuple(replace(job, pilot=holders.pilot_of(job.id, job.user)) for job in jobs)
        )

    def pending(self, slots_per_node: int) -> tuple[PendingJob, ...]:
        """Return the pending jobs, those of pilots included."""
        return tuple(
            PendingJob(
                job.id,
                job.user,
                (job.queue,),
                job.size(slots_per_node),
                is_eligible=job.state == _WAITING,
            )
            for job in self.jobs
            if job.state in (_WAITING, _HELD)
        )

    def node_waits(
        self, nodes: Iterable[NodeView], slots: Mapping[str, int], at_s: float
    ) -> NodeWaits:
        """Return which main jobs wait for nodes, which holders run, and which main jobs have
        started lately. ``slots`` of each node; a node of the smallest size counts for the number of
        nodes that a job needs, so that no job gets too few.
        """
        names = frozenset(node.name for node in nodes)
        smallest = min((slots[name] for name in names if slots[name] > 0), default=1)
        waiting: list[NodeWait] = []
        holders: list[ListedHolder] = []
        starts: list[tuple[str, float]] = []
        for job in self.jobs:
            phase = PHASES[job.state]
            if job.pilot:
                is_leaving = phase in (JobPhase.SUSPENDED, JobPhase.LEAVES)
                holders += [ListedHolder(job.id, host, is_leaving, job.pilot) for host in job.hosts]
            elif job.state == _WAITING:
                waiting.append(NodeWait(job.id, job.size(smallest), float(job.priority), names))
            elif phase is JobPhase.RUNS and job.ran_s <= _RECENT_S:
                starts.append((job.id, at_s - job.ran_s))
        return NodeWaits(tuple(waiting), tuple(holders), tuple(starts))


def parse_holder_ids(text: str) -> frozenset[str]:
    """Parse the answer to :func:`holders_argv`. Raises ``SchedulerError``."""
    if says_nothing(text):
        return frozenset()
    return frozenset(value_of(item, "JOBID") for item in records(text, "holders"))


def parse_jobs(text: str, priorities: Mapping[str, int]) -> UnfinishedJobs:
    """Parse the answer to :func:`jobs_argv`, as if no job were a holder; ``priorities`` of queues.
    Raises ``SchedulerError``, and ``UnknownStateError`` for a state that the manual does not list.
    """
    if says_nothing(text):
        return UnfinishedJobs(())
    jobs = [_unfinished_job(item, priorities) for item in records(text, "jobs")]
    return UnfinishedJobs(tuple(job for job in jobs if PHASES[job.state] is not JobPhase.OVER))


def _unfinished_job(item: dict[str, Any], priorities: Mapping[str, int]) -> UnfinishedJob:
    """Parse one job of bjobs; ``priorities`` are those of the queues."""
    job, state, slots = (value_of(item, key) for key in ("JOBID", "STAT", "NREQ_SLOT"))
    if state not in PHASES:
        raise UnknownStateError("job", state)
    if slots not in ("", "-") and not slots.isdecimal():
        raise SchedulerError(f"job {job}: {slots!r} is not a number of slots")
    if state == _WAITING and not slots.isdecimal():
        raise SchedulerError(
            f"bjobs does not show how many slots job {job} needs (SECURE_JOB_INFO_LEVEL), so the "
            'pilot cannot make way for main jobs; set nodes.give_way = "site"'
        )
    queue, user = value_of(item, "QUEUE"), value_of(item, "USER")
    return UnfinishedJob(
        job,
        user,
        queue,
        state,
        int(slots) if slots.isdecimal() else 1,
        priorities.get(queue, 0),
        hosts=hosts_of(value_of(item, "EXEC_HOST")),
        ran_s=run_time_s(item) if state == "RUN" else 0.0,
    )
