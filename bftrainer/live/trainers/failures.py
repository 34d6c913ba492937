"""What a failure of a trainer leads to: a retry later or, after several in a row without progress, its end. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bftrainer.domain.fragments import node_of
from bftrainer.domain.state import Nodes
from bftrainer.live.trainers.remarks import last_words
from bftrainer.persistence.registry import TrainerRecord, TrainerStatus
from bftrainer.persistence.registry_writer import TrainerChange

MAX_FAILURES = 4
RETRY_S = 5.0
LONGEST_RETRY_S = RETRY_S * 2**MAX_FAILURES


_OUT_OF_MEMORY = {
    "GPU": re.compile(r"(CUDA|HIP|XPU) (error: )?out of memory|torch\.(cuda\.)?OutOfMemoryError"),
    # srun and slurmstepd since 20.11; the kernel's and Python's words.
    "host": re.compile(r"oom[-_]kill|\bOut [Oo]f [Mm]emory\b|\bMemoryError\b|Cannot allocate memory"),
}
_NODE = re.compile(r"\bnode (\S+?),")


@dataclass(frozen=True, slots=True)
class AfterFailure:
    """``note`` has all of the log's end, ``reason`` the line that says most. ``retry_s`` is None if there is no retry."""

    note: str
    reason: str
    failures: int
    samples: float
    retry_s: float | None

    @property
    def is_final(self) -> bool:
        return self.retry_s is None

    def added_to(self, change: TrainerChange) -> TrainerChange:
        """The change of the registry; ``change`` is what else the end of the driver brings."""
        change = replace(change, failures=self.failures, samples_at_failure=self.samples, reason=self.reason)
        if self.retry_s is None:
            return replace(change, status=TrainerStatus.FAILED, finished=True)
        return replace(change, status=TrainerStatus.QUEUED, retry_s=self.retry_s)


def _memory(reason: str, tail: Sequence[str], nodes: Nodes) -> str:
    """Which memory was too small, on which node and with how many; empty if it was not that."""
    which = next(
        (kind for line in (reason, *tail) for kind, pattern in _OUT_OF_MEMORY.items() if pattern.search(line)), ""
    )
    if not which or not nodes:
        return ""
    named = _NODE.search(reason)
    node = named[1] if named else node_of(min(nodes)) if len(nodes) == 1 else "a node"
    return f"{which} out of memory on {node} at {len(nodes)} node{'s' * (len(nodes) != 1)}"


def after_failure(
    record: TrainerRecord, samples: float, reason: str, tail: Sequence[str], nodes: Nodes = frozenset()
) -> AfterFailure:
    """``samples`` is the trainer's progress, ``tail`` the end of the log of the worker that failed, on one of ``nodes``.

    The furthest progress is in the registry: a pilot that comes back must not take work done again for progress.
    """
    furthest = record.samples_at_failure
    failures = 1 if furthest is None or samples > furthest else record.failures + 1
    note = f"{reason}: {' | '.join(tail)}" if tail else reason
    text = ": ".join(filter(None, [_memory(reason, tail, nodes), reason, last_words(tail)]))
    is_last = failures >= MAX_FAILURES
    return AfterFailure(
        note,
        text if is_last else f"failed {failures} times, will be retried: {text}",
        failures,
        max(samples, furthest or 0.0),
        None if is_last else RETRY_S * 2 ** (failures - 1),
    )
