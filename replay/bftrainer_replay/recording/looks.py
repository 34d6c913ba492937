"""What one look at the scheduler showed, and what of it counts. Pure.

A node that is idle in one look only is a transition between two jobs (paper 2.1), and so is a job that waits in one look
only. So a look counts once the next one is there: idle are the nodes that were idle before or afterwards, too. In contrast
to the pilot, which can only offer a node at its second look, the record has it from the first.
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.core.windows import PilotJobs, free_nodes
from bftrainer.domain.cluster import Hidden, Observation
from bftrainer.domain.state import Nodes

Waiting = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """``idle`` nodes of ``machine_nodes`` at ``at_s``, and (id, nodes) of every waiting job; None: nobody can tell."""

    at_s: float
    idle: Nodes
    machine_nodes: int
    waiting: Waiting | None


@dataclass(frozen=True, slots=True)
class Settled:
    """A look without transitions. ``smallest`` is the size of the smallest waiting job, None without any."""

    at_s: float
    idle: Nodes
    machine_nodes: int
    smallest: int | None
    is_told: bool = True


def look_of(seen: Observation, ours: PilotJobs, chosen: Nodes | None = None) -> ClusterSample:
    """The nodes that a pilot could have now: idle, and free for longer than no time at all.

    ``chosen`` are the only nodes to look at (None: all). Whose jobs are hidden does not matter for idle nodes, so
    ``ours.assume_window_s`` should be infinite.
    """
    names = frozenset(node.name for node in seen.nodes)
    among = names if chosen is None else names & chosen
    idle = frozenset(free.node.name for free in free_nodes(seen, ours)) & among
    waiting = None
    if Hidden.JOBS not in seen.hidden:
        waiting = frozenset(
            (job.id, max(job.size, 1))
            for job in seen.pending
            if job.is_eligible and not (job.partitions and ours.partitions.issuperset(job.partitions))
        )
    return ClusterSample(seen.at_s, idle, len(among), waiting)


def settled(before: ClusterSample | None, look: ClusterSample, after: ClusterSample | None) -> Settled:
    """``look`` without what only it shows; ``before`` and ``after`` are its neighbours, where there are any."""
    there = [other for other in (before, after) if other is not None]
    idle = look.idle & frozenset[str]().union(*(other.idle for other in there))
    if look.waiting is None:
        return Settled(look.at_s, idle, look.machine_nodes, None, is_told=False)
    known = [other.waiting for other in there if other.waiting is not None]
    waits = look.waiting & Waiting().union(*known) if known else look.waiting
    return Settled(look.at_s, idle, look.machine_nodes, min((size for _, size in waits), default=None))
