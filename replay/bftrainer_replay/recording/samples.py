"""Samples of a live cluster, and how they are debounced. Pure functions.

A node that is idle in a single sample is a transition between two jobs (paper 2.1), and so is a job
that waits in a single sample. Therefore a sample is debounced when the next one is there: a node
counts as idle if it was also idle in the sample before or after. The pilot can offer a node only at
its second sample; the record has the node from the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bftrainer.cluster.model import Hidden, Observation
from bftrainer.cluster.selection import idle_gpus
from bftrainer.cluster.windows import PilotJobs, free_nodes
from bftrainer.decide.domain.state import Nodes
from bftrainer_replay.logs.model import levels

Waiting = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """The ``idle`` nodes of ``machine_nodes`` at ``at_s``, and (id, nodes) of every waiting job;
    None: jobs are hidden.

    By GPU, both count GPUs, and ``per_node`` has those of each node.
    """

    at_s: float
    idle: Nodes
    machine_nodes: int
    waiting: Waiting | None
    per_node: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class DebouncedSample:
    """A sample without transitions. ``smallest`` is the size of the smallest waiting job, None
    without any.
    """

    at_s: float
    idle: Nodes
    machine_nodes: int
    smallest: int | None
    queue_hidden: bool = False
    per_node: Mapping[str, int] | None = None


def sample_of(
    seen: Observation, ours: PilotJobs, chosen: Nodes | None = None, by_gpu: bool = False
) -> ClusterSample:
    """Select the nodes that a pilot could use now, or their GPUs: idle, in a window of any length.

    Only the nodes in ``chosen`` count (None: all). Hidden jobs do not matter for idle nodes, so
    ``ours.assume_window_s`` should be infinite.
    """
    names = frozenset(node.name for node in seen.nodes)
    among = names if chosen is None else names & chosen
    windows = free_nodes(seen, ours, with_shared=by_gpu)
    free = [window.node for window in windows if window.node.name in among]
    idle, count, per_node = frozenset(node.name for node in free), len(among), None
    if by_gpu:
        per_node = {
            node.name: node.gpu_count
            for node in seen.nodes
            if node.name in among and node.gpu_count
        }
        idle = frozenset(levels({node.name: idle_gpus(node, ours) for node in free}, idle))
        count = sum(per_node.values())
    waiting = None
    if Hidden.JOBS not in seen.hidden:
        waiting = frozenset(
            (job.id, max(job.size, 1))
            for job in seen.pending
            if job.is_eligible
            and not (job.partitions and ours.partitions.issuperset(job.partitions))
        )
    return ClusterSample(seen.at_s, idle, count, waiting, per_node)


def debounced(
    before: ClusterSample | None, sample: ClusterSample, after: ClusterSample | None
) -> DebouncedSample:
    """Leave out idle nodes and waiting jobs that neither the sample ``before`` nor the one
    ``after`` has: transitions. Either may be missing (None).
    """
    others = [other for other in (before, after) if other is not None]
    idle = sample.idle & frozenset[str]().union(*(other.idle for other in others))
    if sample.waiting is None:
        return DebouncedSample(sample.at_s, idle, sample.machine_nodes, None, True, sample.per_node)
    neighbors = [other.waiting for other in others if other.waiting is not None]
    waits = sample.waiting & Waiting().union(*neighbors) if neighbors else sample.waiting
    smallest = min((size for _, size in waits), default=None)
    return DebouncedSample(
        sample.at_s, idle, sample.machine_nodes, smallest, per_node=sample.per_node
    )
