"""Causes of idle node-time: split by the jobs that waited in the queue.

The paper calls its idle nodes "resources that cannot be backfilled" (Table 1). A log with a queue allows a check: while a job
waits that requests no more nodes than are idle, the scheduler could have started it by its size (though not necessarily by its
time limit, memory, partition or priority). The report shows how often this is the case.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.analysis.fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow, Queue

_NOTHING = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class IdleCauses:
    """Idle node-hours by the state of the queue: no job; a job that requests no more nodes than are idle; only larger jobs.

    A job waits from the time it is eligible. Waits shorter than the log's debounce time do not count.
    """

    no_job_waits_node_h: float
    a_waiting_job_fits_node_h: float
    only_larger_jobs_wait_node_h: float

    @property
    def node_hours(self) -> float:
        """The sum, which is the window's resource integral."""
        return self.no_job_waits_node_h + self.a_waiting_job_fits_node_h + self.only_larger_jobs_wait_node_h

    def shares(self) -> tuple[float, float, float]:
        """The fields as fractions of the idle node-time (zeros if no node is idle)."""
        whole = self.node_hours or 1.0
        parts = (self.no_job_waits_node_h, self.a_waiting_job_fits_node_h, self.only_larger_jobs_wait_node_h)
        return parts[0] / whole, parts[1] / whole, parts[2] / whole


def idle_causes(window: LogWindow) -> IdleCauses | None:
    """Split the window's idle node-time; None if the log has no queue."""
    if window.queue is None:
        return None
    pool = pool_sizes_of(window)
    since, smallest = smallest_waiting(window.queue, window.debounce_s)
    edges = np.union1d(pool.start_s, since[(since > window.start_s) & (since < window.end_s)])
    length_s = np.diff(edges, append=window.end_s)
    idle = pool.nodes[np.searchsorted(pool.start_s, edges, side="right") - 1]
    place = np.searchsorted(since, edges, side="right") - 1
    wanted = np.where(place >= 0, smallest[np.maximum(place, 0)], _NOTHING)
    node_h = idle * length_s / 3600
    no_job, fits = wanted == _NOTHING, wanted <= idle
    return IdleCauses(float(node_h[no_job].sum()), float(node_h[fits].sum()), float(node_h[~no_job & ~fits].sum()))


def smallest_waiting(queue: Queue, debounce_s: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The size of the smallest waiting job as a step function: ``sizes[k]`` holds from ``times[k]`` on.

    If no job waits, the size is the largest int64.
    """
    until = np.where(np.isnan(queue.start_s), queue.end_s, queue.start_s)
    real = (until >= queue.eligible_s + max(debounce_s, 1e-3)) & np.isfinite(queue.eligible_s)
    begin, end, nodes = queue.eligible_s[real], until[real], queue.nodes[real]
    moments = np.unique(np.concatenate((begin, end[np.isfinite(end)])))
    if not len(moments):
        return np.zeros(1), np.array([_NOTHING], dtype=np.int64)
    order = np.argsort(begin, kind="stable")
    begins, ends, sizes = begin[order].tolist(), end[order].tolist(), nodes[order].tolist()
    waiting: list[tuple[int, float]] = []
    smallest: list[int] = []
    place = 0
    for at_s in moments.tolist():
        while place < len(begins) and begins[place] <= at_s:
            heapq.heappush(waiting, (sizes[place], ends[place]))
            place += 1
        while waiting and waiting[0][1] <= at_s:
            heapq.heappop(waiting)
        smallest.append(waiting[0][0] if waiting else _NOTHING)
    return moments, np.array(smallest, dtype=np.int64)
