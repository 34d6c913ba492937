"""Plain preemptible one-node jobs on the idle nodes of a log: the alternative to elastic training,
calculated.

K jobs wait at all times; of n idle nodes, min(K, n) run one. A job saves its work when its node
leaves and continues on any other idle node; every start costs R seconds. Which of the idle nodes
run a job is left to chance, so with l of n nodes leaving, l min(K, n) / n of the jobs are expected
to lose theirs. From K = max n on, nothing is left to chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bftrainer_replay.analysis.window_fragments import fragments_of, joined_and_left, pool_sizes_of
from bftrainer_replay.logs.model import LogWindow

_ENOUGH = 0.99


@dataclass(frozen=True, slots=True)
class PlainJobs:
    """The work of ``jobs`` one-node jobs that wait at all times: the ``share`` of the idle
    node-hours that becomes work.
    """

    jobs: int
    share: float


def plain_jobs(window: LogWindow, numbers: Sequence[int], start_s: float) -> tuple[PlainJobs, ...]:
    """Return the share of the idle node-time that each number of one-node jobs turns into work.

    A start takes ``start_s`` seconds or, if that is shorter, as long as the node stays idle. Which
    of the idle nodes have a job is not simulated: of the nodes that leave at an event, the share
    with a job is that among all idle nodes, and a start costs as much as on average over all
    fragments (periods in which a node is idle).
    """
    sizes = pool_sizes_of(window)
    idle_node_s = sizes.node_hours() * 3600
    fragments = fragments_of(window)
    starts_s = np.dot(np.minimum(fragments.length_s, start_s), fragments.weights)
    mean_start_s = float(starts_s) / max(fragments.count, 1)
    idle_before = sizes.nodes[:-1]
    _, n_left = joined_and_left(window)
    rows = []
    for jobs in numbers:
        running = np.minimum(sizes.nodes, jobs)  # from each event to the next
        # Jobs that are expected to keep their nodes at an event: all but the leaving nodes' share.
        keeping = running[:-1] * (1 - n_left / np.maximum(idle_before, 1))
        # The jobs of the first moment, and those that run after an event without having kept a
        # node.
        start_count = running[0] + float(np.maximum(running[1:] - keeping, 0.0).sum())
        work_s = float(np.dot(running, sizes.duration_s)) - start_count * mean_start_s
        rows.append(PlainJobs(jobs, max(work_s, 0.0) / idle_node_s if idle_node_s else 0.0))
    return tuple(rows)


def plain_curve(window: LogWindow, n_jobs: int, start_s: float) -> tuple[PlainJobs, ...]:
    """Return the work of 1, 2, 5, 10 ... jobs, up to the first number that does nearly all.

    Nearly all is ``_ENOUGH`` of what as many jobs as nodes would do. ``n_jobs`` is always among
    them, and the numbers go at least that far.
    """
    largest = max(int(pool_sizes_of(window).nodes.max(initial=1)), n_jobs)
    round_numbers = [factor * 10**power for power in range(8) for factor in (1, 2, 5)]
    numbers = {n_jobs, largest, *(number for number in round_numbers if number < largest)}
    rows = plain_jobs(window, sorted(numbers), start_s)
    enough = next(row.jobs for row in rows if row.share >= _ENOUGH * rows[-1].share)
    return tuple(row for row in rows if row.jobs <= max(enough, n_jobs))
