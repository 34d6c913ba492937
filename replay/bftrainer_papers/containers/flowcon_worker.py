"""FlowCon on workers: soft limits for the containers of each worker, independent of the other workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bftrainer.policies.flowcon import Lists, Measured, Rules
from bftrainer_papers.containers.hosts import ContainerHost, WorkerDecision


@dataclass(frozen=True, slots=True)
class FlowConWorker:
    """FlowCon as in [FlowCon 5.1]: limits as set by ``docker update``; no container moves."""

    rules: Rules = field(default_factory=Rules)
    name: str = "flowcon"

    def decide(self, at_s: float, workers: Sequence[ContainerHost], memory: object) -> tuple[WorkerDecision, object]:
        """The memory is one :class:`Lists` per worker."""
        before = memory if isinstance(memory, tuple) else (Lists(),) * len(workers)
        after = tuple(
            self.rules.listen(lists, {c.id: Measured(c.loss, c.used_s) for c in worker.containers}, at_s)
            for lists, worker in zip(before, workers, strict=True)
        )
        limits = tuple((m.id, m.limit) for lists in after for m in lists.members)
        due = [lists.next_s for lists in after if lists.members]
        return WorkerDecision(limits, wake_at_s=min(due, default=None)), after
