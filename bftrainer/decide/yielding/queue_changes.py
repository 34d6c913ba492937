"""What may have changed the scheduler's plan for a waiting job between two looks."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from bftrainer.decide.yielding.facts import NodeWait, WaitingQueue
from bftrainer.decide.yielding.node_sets import NodeSet


@dataclass(frozen=True, slots=True)
class QueueChanges:
    """What may have changed the scheduler's plan for a waiting job between two looks: the end of a
    main job, which leaves nodes, and that one before it is no longer before it or needs other
    nodes, which changes a reservation. The start of a job behind it takes nodes and leaves none.

    ``ranks``: the negative priorities of the jobs that waited, in order. ``lowest``: for each, the
    lowest priority that any of these jobs so far has now (none: those that left the queue).
    """

    has_ended: bool
    ranks: tuple[float, ...]
    lowest: tuple[float, ...]

    @classmethod
    def between(
        cls, before: Iterable[NodeWait], busy_before: NodeSet, queue: WaitingQueue
    ) -> QueueChanges:
        """Return the changes between a look at which these jobs waited and these nodes were busy,
        and this one.

        Where fewer nodes have become busy than the jobs needed that left the queue, another job has
        ended on the nodes that one of them has now, or one was canceled.
        """
        waiting = {job.job: job for job in queue.jobs}
        earlier = sorted(before, key=lambda job: -job.priority)
        needed = sum(job.size for job in earlier if job.job not in waiting)
        has_left = bool(busy_before - queue.busy)
        has_ended = has_left or len(queue.busy - busy_before) < needed
        lowest: list[float] = []
        lowest_priority = math.inf
        for was in earlier:
            job = waiting.get(was.job)
            priority = job.priority if job is not None and is_same_need(job, was) else -math.inf
            lowest_priority = min(priority, lowest_priority)
            lowest.append(lowest_priority)
        return cls(has_ended, tuple(-job.priority for job in earlier), tuple(lowest))

    def concern(self, was: NodeWait, job: NodeWait) -> bool:
        """Whether the plan for a job may have changed, which ``was`` another at the look before."""
        if self.has_ended:
            return True
        before = bisect_right(self.ranks, -was.priority)
        return before > 0 and self.lowest[before - 1] < job.priority


def is_same_need(job: NodeWait, was: NodeWait) -> bool:
    """Whether a job needs what it needed: fewer tasks of an array need the same nodes each."""
    if job is was:
        return True
    if (job.nodes, job.required) != (was.nodes, was.required):
        return False
    if job.size < was.size and was.task_size:
        return (job.task_size or job.size) == was.task_size
    return job.size == was.size
