"""Which nodes are idle and cannot be filled by the scheduler, and until when. Pure.

A node is free for us if its flags are IDLE, alone or with flags that do not matter, or IDLE+PLANNED: then it is kept for a
larger job that cannot start yet, and what is shorter than the wait may run in between. (``sinfo -t idle`` also returns
drained, reserved and maintenance nodes; measured with Slurm 22.05.8.) The PLANNED flag disappears once a holder is on the
node, so the end of a window comes from the pending job's own plan, never from the flag.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from bftrainer.domain.cluster import Hidden, NodeFlag, NodeView, Observation, PendingJob
from bftrainer.errors import WindowsUnknownError

# Flags that say how a node came to be, not what it may be used for.
_HARMLESS = frozenset({NodeFlag.CLOUD, NodeFlag.DYNAMIC_NORM})
_FREE = _HARMLESS | {NodeFlag.IDLE, NodeFlag.PLANNED}


@dataclass(frozen=True, slots=True)
class Ours:
    """What the observation shows of ourselves: it ends no window.

    ``partitions`` are scavenger partitions: their pending jobs wait for us as we wait for them, and a node in none of them
    cannot be held. ``job_ids`` are holders.
    ``assume_window_s`` stands for the ends of windows where the site hides other users' jobs.
    """

    job_ids: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    assume_window_s: float | None = None


class EndKind(Enum):
    """What ends a window."""

    PENDING_JOB = "pending job"
    RESERVATION = "reservation"
    ASSUMED = "assumed"
    NEVER = "nothing known"


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """When the backfill window of a node ends (scheduler's epoch; infinite: never), and the id of the job or reservation."""

    at_s: float
    kind: EndKind
    id: str = ""


_NEVER = WindowEnd(math.inf, EndKind.NEVER)


@dataclass(frozen=True, slots=True)
class FreeNode:
    """An idle node that the scheduler does not fill, and the end of its window."""

    node: NodeView
    end: WindowEnd

    def window_s(self, at_s: float) -> float:
        """Seconds that are left of it at ``at_s``."""
        return self.end.at_s - at_s


def free_nodes(seen: Observation, ours: Ours) -> tuple[FreeNode, ...]:
    """The free nodes, by name.

    Raises :class:`~bftrainer.errors.WindowsUnknownError` where jobs are hidden and nothing is assumed, and
    :class:`~bftrainer.errors.UnknownStateError` for a state nobody knows.
    """
    ends = window_ends(seen, ours)
    free = []
    for node in sorted(seen.nodes, key=lambda node: node.name):
        flags, end = node.flags, ends[node.name]
        if NodeFlag.IDLE not in flags or flags - _FREE or end.at_s <= seen.at_s:
            continue
        if ours.partitions and node.partitions and ours.partitions.isdisjoint(node.partitions):
            continue
        # Planned, but for which job and when is not in this answer: unknown is not free.
        if NodeFlag.PLANNED in flags and end.kind is EndKind.NEVER:
            continue
        free.append(FreeNode(node, end))
    return tuple(free)


def window_ends(seen: Observation, ours: Ours) -> dict[str, WindowEnd]:
    """The end of every node's window, whether it is free now or not: the ends also count for nodes that are held."""
    ends = {node.name: _NEVER for node in seen.nodes}
    hidden = seen.hidden & {Hidden.JOBS, Hidden.RESERVATIONS}
    if hidden:
        if ours.assume_window_s is None:
            what = " and ".join(sorted(kind.value for kind in hidden))
            raise WindowsUnknownError(
                f"the site hides other users' {what} (PrivateData), so nobody here can see until when a node is free; "
                "set slurm.assume_window_s to the seconds that a node may be held, or have the pilot run by an operator"
            )
        ends = {name: WindowEnd(seen.at_s + ours.assume_window_s, EndKind.ASSUMED) for name in ends}
    for job in sorted(seen.pending, key=lambda job: job.id):
        if job.starts_s is not None and not _is_ours(job, ours):
            _end_at(ends, job.nodes, WindowEnd(job.starts_s, EndKind.PENDING_JOB, job.id))
    for reservation in sorted(seen.reservations, key=lambda reservation: reservation.id):
        if reservation.ends_s > seen.at_s:
            _end_at(ends, reservation.nodes, WindowEnd(reservation.starts_s, EndKind.RESERVATION, reservation.id))
    return ends


def _is_ours(job: PendingJob, ours: Ours) -> bool:
    return job.id in ours.job_ids or (bool(job.partitions) and ours.partitions.issuperset(job.partitions))


def _end_at(ends: dict[str, WindowEnd], nodes: Iterable[str], end: WindowEnd) -> None:
    for name in nodes:
        if name in ends and end.at_s < ends[name].at_s:
            ends[name] = end
