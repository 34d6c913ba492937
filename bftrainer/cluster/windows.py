"""Which nodes are idle and cannot be filled by the scheduler, and until when. Pure.

A window ends when a pending job is planned to start on the node, when a reservation begins there,
or when the scheduler says so of the node itself; that of a node that is drained is over. A node
that is kept for a larger job (PLANNED) may run in the meantime what is shorter than the wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from bftrainer.cluster.model import Availability, Hidden, NodeView, Observation, PendingJob
from bftrainer.errors import WindowsUnknownError


@dataclass(frozen=True, slots=True)
class PilotJobs:
    """The jobs and partitions of pilots themselves in an observation, which end no window.

    ``job_ids`` are holders. ``partitions`` are scavenger partitions (queues): their pending jobs
    are no main-queue jobs, and a node in none of them cannot be held. ``shares_partitions``:
    preemption is by QOS, so main-queue jobs may wait in these partitions as well.
    ``assume_window_s`` is the length of a window where the site hides other users' jobs.
    ``cpus_per_gpu`` and ``mib_per_gpu`` are the most that a holder takes for each GPU of a part; 0:
    no parts.
    """

    job_ids: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    assume_window_s: float | None = None
    shares_partitions: bool = False
    cpus_per_gpu: int = 0
    mib_per_gpu: int = 0

    def main_partitions(self, node: NodeView) -> frozenset[str]:
        """Return the partitions in which main-queue jobs can get a node."""
        partitions = frozenset(node.partitions)
        return partitions if self.shares_partitions else partitions - self.partitions

    def may_have(self, node: NodeView) -> bool:
        """Whether a holder could run on a node."""
        if not self.partitions or not node.partitions:  # partitions play no part
            return True
        return not self.partitions.isdisjoint(node.partitions)


class EndKind(Enum):
    """What ends a window."""

    PENDING_JOB = "pending job"
    RESERVATION = "reservation"
    BACKFILL_WINDOW = "backfill window"
    WITHDRAWN = "withdrawn"
    ASSUMED = "assumed"
    NEVER = "nothing known"


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """When the backfill window of a node ends (scheduler's epoch; infinite: never), and the id of
    the job or reservation.
    """

    at_s: float
    kind: EndKind
    id: str = ""


_IDLE = (Availability.FREE, Availability.PLANNED)
_NEVER = WindowEnd(math.inf, EndKind.NEVER)


@dataclass(frozen=True, slots=True)
class FreeNode:
    """An idle node that the scheduler cannot fill, and the end of its window."""

    node: NodeView
    end: WindowEnd

    def window_s(self, at_s: float) -> float:
        """Seconds from ``at_s`` to the end of the window."""
        return self.end.at_s - at_s


def free_nodes(
    observation: Observation, ours: PilotJobs, with_asleep: bool = False, with_shared: bool = False
) -> tuple[FreeNode, ...]:
    """Return the idle nodes that the scheduler cannot fill now, each with the end of its window,
    sorted by name. ``with_asleep``: nodes that are powered down as well; ``with_shared``: nodes on
    which main jobs leave GPUs idle as well.

    Raises :class:`~bftrainer.errors.WindowsUnknownError` where jobs are hidden and no window is
    assumed.
    """
    ends = window_ends(observation, ours)
    usable = set(_IDLE)
    if with_asleep:
        usable.add(Availability.ASLEEP)
    if with_shared:
        usable.add(Availability.SHARED)
    free = []
    for node in sorted(observation.nodes, key=lambda node: node.name):
        end = ends[node.name]
        if (
            end.at_s <= observation.at_s
            or node.availability not in usable
            or not ours.may_have(node)
        ):
            continue
        is_planned = node.availability is Availability.PLANNED or node.is_planned
        if is_planned and end.kind is EndKind.NEVER:
            # The job that the node is kept for is not in this observation, and neither is the time
            # of its start: unknown is not free.
            continue
        free.append(FreeNode(node, end))
    return tuple(free)


def window_ends(observation: Observation, ours: PilotJobs) -> dict[str, WindowEnd]:
    """Return when the window of every node ends, idle or not, since ends count for held nodes as
    well.

    Raises :class:`~bftrainer.errors.WindowsUnknownError` where jobs are hidden and no window is
    assumed.
    """
    ends = {node.name: _NEVER for node in observation.nodes}
    hidden = observation.hidden & {Hidden.JOBS, Hidden.RESERVATIONS}
    if hidden:
        if ours.assume_window_s is None:
            hidden_facts = " and ".join(sorted(kind.value for kind in hidden))
            raise WindowsUnknownError(
                f"the site hides other users' {hidden_facts}, so the end of a window is unknown; "
                "set assume_window_s in the site's table to the number of seconds that a node may "
                "be held, or have an operator run the pilot"
            )
        ends = {
            name: WindowEnd(observation.at_s + ours.assume_window_s, EndKind.ASSUMED)
            for name in ends
        }
    for node in observation.nodes:
        if node.window_end_s is not None:
            _end_at(ends, (node.name,), WindowEnd(node.window_end_s, EndKind.BACKFILL_WINDOW))
        if node.is_withdrawn:
            _end_at(ends, (node.name,), WindowEnd(observation.at_s, EndKind.WITHDRAWN))
    for job in sorted(observation.pending, key=lambda job: job.id):
        if job.starts_s is not None and not _is_ours(job, ours):
            _end_at(ends, job.nodes, WindowEnd(job.starts_s, EndKind.PENDING_JOB, job.id))
    for reservation in sorted(observation.reservations, key=lambda reservation: reservation.id):
        if reservation.ends_s > observation.at_s:
            _end_at(
                ends,
                reservation.nodes,
                WindowEnd(reservation.starts_s, EndKind.RESERVATION, reservation.id),
            )
    return ends


def may_be_taken_at_once(observation: Observation, ours: PilotJobs) -> bool:
    """Whether a node that has just become idle may be between two main jobs: a job waits, or jobs
    are hidden or not listed.

    Jobs that are not eligible count: the end of the job that they depend on also ends their wait.
    """
    is_unknown = Hidden.JOBS in observation.hidden or not observation.lists_pending
    return is_unknown or any(not _is_ours(job, ours) for job in observation.pending)


def _is_ours(job: PendingJob, ours: PilotJobs) -> bool:
    """Whether a pending job is a pilot's: one of the holders, or a job that waits only in the
    holders' partitions where main-queue jobs cannot wait.
    """
    if job.id in ours.job_ids:
        return True
    return (
        not ours.shares_partitions
        and bool(job.partitions)
        and ours.partitions.issuperset(job.partitions)
    )


def _end_at(ends: dict[str, WindowEnd], nodes: Iterable[str], end: WindowEnd) -> None:
    """Let the windows of these nodes end at ``end``, unless they end earlier."""
    for name in nodes:
        if name in ends and end.at_s < ends[name].at_s:
            ends[name] = end
