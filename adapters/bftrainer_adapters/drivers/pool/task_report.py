"""How far a pool is: lines of progress for the pilot, which learns the rate from them, and ``tasks.json`` for people."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace

from bftrainer.progress.append import append_line
from bftrainer.progress.reporter import PROGRESS_BYTES
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.progress_line import Phase, ProgressLine, format_progress
from bftrainer.protocol.task_board import TaskCounts
from bftrainer.protocol.typed_json import write_json

EVERY_S = 1.0
_RATE_OVER_S = 600.0


class TaskReport:
    """Tasks that are settled, done or put aside, count as samples."""

    def __init__(self, directory: TrainerDirectory, incarnation: int) -> None:
        self._directory = directory
        self._incarnation = incarnation
        self._next_s = 0.0
        self._seen: deque[tuple[float, int]] = deque()
        self._written: TaskCounts | None = None
        self._phase = Phase.RUNNING

    def write(self, counts: TaskCounts | None, workers: int, now_s: float, *, leaving: bool) -> None:
        """If a second has passed, or the pool is asked to leave or has ended; without tasks, nothing."""
        if counts is None:
            return
        settled = counts.done + counts.failed
        phase = Phase.DONE if settled == counts.tasks else Phase.CHECKPOINTED if leaving else Phase.RUNNING
        if now_s < self._next_s and phase is self._phase:
            return
        self._next_s, self._phase = now_s + EVERY_S, phase
        at_s = time.time()
        self._seen.append((at_s, settled))
        while at_s - self._seen[0][0] > _RATE_OVER_S:
            self._seen.popleft()
        since_s, since = self._seen[0]
        rate = (settled - since) / max(at_s - since_s, EVERY_S)
        left_s = (counts.tasks - settled) / rate if rate > 0 else None
        line = ProgressLine(
            at_s, phase, self._incarnation, workers, settled, settled, metrics={"failed": counts.failed}
        )
        append_line(self._directory.progress, format_progress(line), PROGRESS_BYTES, "progress")
        if counts != self._written:
            self._written = counts
            write_json(self._directory.tasks, replace(counts, per_hour=3600 * rate, left_s=left_s))
