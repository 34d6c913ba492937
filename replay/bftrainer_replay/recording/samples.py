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
    """A cluster of ``machine_nodes`` nodes at ``at_s``: its ``idle`` nodes, and the pair (id,
    number of nodes) of every waiting job (None: the site hides jobs).

    In a recording by GPU, nodes stand for GPUs, and ``per_node`` is the number of GPUs of each
    node.
    """

    at_s: float
    idle: Nodes
    machine_nodes: int
    waiting: Waiting | None
    per_node: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class DebouncedSample:
    """A sample without transitions. ``smallest`` is the size of the smallest waiting job (None: no
    job waits, or ``is_queue_hidden``).
    """

    at_s: float
    idle: Nodes
    machine_nodes: int
    smallest: int | None
    is_queue_hidden: bool = False
    per_node: Mapping[str, int] | None = None


def sample_of(
    observation: Observation,
    pilot_jobs: PilotJobs,
    chosen: Nodes | None = None,
    by_gpu: bool = False,
) -> ClusterSample:
    """Return the nodes that a pilot could use now, or their GPUs, and the jobs that wait.

    A node counts if it is idle, for whatever time. Only the nodes in ``chosen`` count (None: all).
    Hidden jobs do not matter for idle nodes, so ``pilot_jobs.assume_window_s`` should be infinite.
    A job that waits for the pilot's own partitions alone does not count as waiting.
    """
    names = frozenset(node.name for node in observation.nodes)
    if chosen is not None:
        names &= chosen
    windows = free_nodes(observation, pilot_jobs, with_shared=by_gpu)
    free = [window.node for window in windows if window.node.name in names]
    idle = frozenset(node.name for node in free)
    machine_nodes, per_node = len(names), None
    if by_gpu:
        per_node = {
            node.name: node.gpu_count
            for node in observation.nodes
            if node.name in names and node.gpu_count
        }
        idle = frozenset(levels({node.name: idle_gpus(node, pilot_jobs) for node in free}, idle))
        machine_nodes = sum(per_node.values())
    waiting = None
    if Hidden.JOBS not in observation.hidden:
        waiting = frozenset(
            (job.id, max(job.size, 1))
            for job in observation.pending
            if job.is_eligible
            and not (job.partitions and pilot_jobs.partitions.issuperset(job.partitions))
        )
    return ClusterSample(observation.at_s, idle, machine_nodes, waiting, per_node)


def debounced(
    before: ClusterSample | None, sample: ClusterSample, after: ClusterSample | None
) -> DebouncedSample:
    """Return the sample without transitions, the idle nodes and waiting jobs that it alone has.

    They are in neither of the samples ``before`` and ``after``, of which one may be missing (None).
    """
    neighbors = [neighbor for neighbor in (before, after) if neighbor is not None]
    idle = sample.idle & frozenset[str]().union(*(neighbor.idle for neighbor in neighbors))
    smallest = None
    if sample.waiting is not None:
        queues = [neighbor.waiting for neighbor in neighbors if neighbor.waiting is not None]
        # A job cannot be compared where both neighbors hide jobs: then it counts.
        waiting = sample.waiting & Waiting().union(*queues) if queues else sample.waiting
        smallest = min((size for _, size in waiting), default=None)
    return DebouncedSample(
        at_s=sample.at_s,
        idle=idle,
        machine_nodes=sample.machine_nodes,
        smallest=smallest,
        is_queue_hidden=sample.waiting is None,
        per_node=sample.per_node,
    )
