"""Jobs that start while a look reads the cluster: the list of jobs, which is read first, still
shows them as waiting, and their nodes are busy already. Nodes that were released for them would be
released a second time.
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.yielding.facts import CLOCK_STEP_S, NodeWait, WaitingQueue
from bftrainer.decide.yielding.memory import YieldMemory
from bftrainer.decide.yielding.node_sets import NO_NODES, NodeSet
from bftrainer.decide.yielding.offers import Offer


@dataclass(slots=True)
class LateList:
    """Nodes that have become busy since the look before, and for which no job in the list has
    started. ``spoken_for`` of them belong to jobs that left the queue.
    """

    nodes: NodeSet = NO_NODES
    spoken_for: int = 0

    @classmethod
    def of(cls, queue: WaitingQueue, memory: YieldMemory) -> LateList:
        """Return them; none where a job has started that did not wait at the look before: these
        nodes may be its own.
        """
        nodes = queue.busy - memory.busy
        if not nodes or memory.server_s is None:
            return cls()
        earlier = {offer.job.job: offer.job for offer in memory.offers}
        since_s = memory.server_s - CLOCK_STEP_S
        if any(at_s >= since_s and job not in earlier for job, at_s in queue.starts):
            return cls()
        sizes = {job.job: job.size for job in queue.jobs}
        started = (max(job.size - sizes.get(name, 0), 0) for name, job in earlier.items())
        return cls(nodes, sum(started))

    def has_started(self, job: NodeWait, earlier: Offer | None) -> bool:
        """Whether a job that was offered nodes at the look before may have started on these. The
        answer is yes once: it gets other nodes at the next look if it has not.
        """
        if earlier is None or earlier.void is not None or earlier.may_have_started:
            return False
        is_offered = earlier.released > earlier.released_before or earlier.looks > 0
        count = len(self.nodes & job.nodes) - self.spoken_for
        size = job.task_size or job.fewest or job.size
        if not is_offered or count < size:
            return False
        self.spoken_for += min(count, job.size)
        return True
