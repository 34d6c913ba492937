"""Samples of a live cluster, and how they are debounced. Pure functions.

A node that is idle in a single sample is a transition between two jobs (paper 2.1), and so is a job that waits in a single
sample. Therefore a sample is debounced when the next one is there: a node counts as idle if it was also idle in the sample
before or after. The pilot can offer a node only at its second sample; the record has the node from the first.
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.core.windows import PilotJobs, free_nodes
from bftrainer.domain.cluster import Hidden, Observation
from bftrainer.domain.state import Nodes

Waiting = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """The ``idle`` nodes of ``machine_nodes`` at ``at_s``, and (id, nodes) of every waiting job; None: jobs are hidden."""

    at_s: float
    idle: Nodes
    machine_nodes: int
    waiting: Waiting | None


@dataclass(frozen=True, slots=True)
class DebouncedSample:
    """A sample without transitions. ``smallest`` is the size of the smallest waiting job, None without any."""

    at_s: float
    idle: Nodes
    machine_nodes: int
    smallest: int | None
    queue_hidden: bool = False


def sample_of(seen: Observation, ours: PilotJobs, chosen: Nodes | None = None) -> ClusterSample:
    """The nodes that a pilot could use now: idle, with a window of any length.

    Only the nodes in ``chosen`` count (None: all). Hidden jobs do not matter for idle nodes, so ``ours.assume_window_s``
    should be infinite.
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


def debounced(before: ClusterSample | None, sample: ClusterSample, after: ClusterSample | None) -> DebouncedSample:
    """``sample`` without idle nodes and waiting jobs that neither ``before`` nor ``after`` has; either may be missing."""
    others = [other for other in (before, after) if other is not None]
    idle = sample.idle & frozenset[str]().union(*(other.idle for other in others))
    if sample.waiting is None:
        return DebouncedSample(sample.at_s, idle, sample.machine_nodes, None, queue_hidden=True)
    known = [other.waiting for other in others if other.waiting is not None]
    waits = sample.waiting & Waiting().union(*known) if known else sample.waiting
    return DebouncedSample(sample.at_s, idle, sample.machine_nodes, min((size for _, size in waits), default=None))
