"""Main-queue jobs that wait although the nodes of holders would be enough for them: where
preemption works, no such wait is long. Pure but for its clock.

Such a job may wait for memory, a feature or a license. So it is no proof, but a reason to read the
site again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bftrainer.cluster.model import Availability, NodeView
from bftrainer_clusters.slurm.job_list import HOLDER_NAME, JobList, waits
from bftrainer_clusters.slurm.limit_waits import SharedLimits

PROMISED_S = 60.0
"""Within this time a main job gets the nodes of holders, with Slurm's longest default interval
between two cycles.
"""
_FOR_NODES = "Resources"
_IDLE = (Availability.FREE, Availability.PLANNED)


@dataclass(frozen=True, slots=True)
class MainJobWait:
    """A job that would have enough nodes if those of holders were idle."""

    job: str


def waits_for_holders(
    jobs: JobList, nodes: Iterable[NodeView], user: str, own: SharedLimits
) -> tuple[MainJobWait, ...]:
    """Return the main jobs that wait for nodes and would have enough if the nodes of the holders of
    ``user`` were idle. ``own`` has the QOS or partition of pilots' jobs, which are no main jobs.
    """
    held_nodes = {
        job["%n"]
        for job in jobs.jobs
        if job["%j"] == HOLDER_NAME and job["%u"] == user and job["%T"] == "RUNNING"
    }
    if not held_nodes:
        return ()
    candidates = [node for node in nodes if node.name in held_nodes or node.availability in _IDLE]
    job_waits = []
    for job in jobs.jobs:
        # Only names of bftrainer's own jobs are in the list: a job with a name is one of them.
        if (
            not waits(job)
            or job["%r"] != _FOR_NODES
            or job["%j"]
            or _is_pilots(job, own)
            or not job["%D"].isdecimal()
        ):
            continue
        partitions = set(job["%P"].split(","))
        usable = [node.name for node in candidates if not partitions.isdisjoint(node.partitions)]
        if len(usable) >= int(job["%D"]) and not held_nodes.isdisjoint(usable):
            job_waits.append(MainJobWait(job["%A"]))
    return tuple(job_waits)


def _is_pilots(job: dict[str, str], own: SharedLimits) -> bool:
    """Return whether a job counts as a pilot's: other jobs of the holders' QOS, or of their
    partition, are as preemptible as holders.
    """
    return job["%q"] == own.own_qos if own.own_qos else job["%P"] == own.own_partition


@dataclass
class WaitingMainJobs:
    """Remembers since when main jobs have waited for held nodes, from look to look."""

    elapsed_s: Callable[[], float]
    _since_s: dict[str, float] = field(default_factory=dict)

    def is_too_long(self, jobs: tuple[MainJobWait, ...]) -> bool:
        """Take the jobs that wait at this look, and return whether one of them has waited at each
        look for :data:`PROMISED_S`. Each job counts once.
        """
        now_s = self.elapsed_s()
        self._since_s = {wait.job: self._since_s.get(wait.job, now_s) for wait in jobs}
        overdue = [job for job, since_s in self._since_s.items() if now_s - since_s >= PROMISED_S]
        for job in overdue:
            self._since_s[job] = float("inf")  # so that it is never overdue again
        return bool(overdue)
