"""Which tasks of a pool are done, which worker has which, and which have failed too often.

Results are lines of one log that only this process appends to, ``{"task": ID, "result": ...}``: a
task is done once its line is on disk. The task of a line that a crash has cut runs again: at least
once, and each result is there once.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bftrainer.errors import InputFileError
from bftrainer.system.locks import NotLockableError, OwnerLock
from bftrainer.system.umask import users_mode
from bftrainer.wires.task_log import TaskLog
from bftrainer.wires.task_source import TaskId, TaskSource

MOST_FAILURES = 3
"""The failures after which a task is put aside."""
PUT_ASIDE = "failed"
"""The metric of a pool's progress that counts such tasks."""
_MOST_TRACEBACK = 8000
_PRIVATE = 0o600
"""Mode of the log of failures: it is beside the pilot's files, and quotes the user's script."""


@dataclass(frozen=True)
class TaskCounts:
    """``tasks.json``: how far a pool is. ``failed``: put aside. ``repeated``: starts of tasks
    beyond the first of each.

    ``per_hour``: settled in the last ten minutes or less, per hour; ``left_s``: until the end, at
    that rate (None: unknown).
    """

    source: str
    digest: str
    results: str
    failures: str
    tasks: int
    done: int = 0
    running: int = 0
    failed: int = 0
    repeated: int = 0
    per_hour: float = 0.0
    left_s: float | None = None


class TaskBoard:
    """Keeps which tasks of a pool are open, given, done or put aside. Safe to use from several
    threads; :meth:`done` returns once the result is on disk.

    ``results`` and ``failures`` are logs. Raises :class:`InputFileError` if they cannot be read or
    written.
    """

    def __init__(self, source: TaskSource, results: Path, failures: Path) -> None:
        self.source, self.results, self.failures = source, results, failures
        self._lock = threading.Lock()
        # By index of the task: 1 if the task is done or put aside, and its number of failures.
        self._settled = bytearray(len(source))
        self._failure_counts: dict[int, int] = {}
        self._task_of_worker: dict[str, int] = {}
        # Starts of tasks, settled tasks of earlier runs included: they began once.
        self._start_count = self.done_count = self.failed_count = 0
        self._results_lock = _lock_of_results(results)
        with ExitStack() as cleanup:  # if a log cannot be read
            cleanup.callback(self._results_lock.release)
            self._results = TaskLog(results, "result", source, users_mode(0o666))
            cleanup.callback(self._results.close)
            for index, _ in self._results.lines():
                self._settled[index] = 1
            self.done_count = sum(self._settled)
            self._failures = TaskLog(failures, "error", source, _PRIVATE)
            cleanup.callback(self._failures.close)
            for index, line in self._failures.lines():
                self._failure_counts[index] = self._failure_counts.get(index, 0) + 1
                if line.get("aside"):
                    self._settled[index] = 1
            cleanup.pop_all()
        self.failed_count = sum(self._settled) - self.done_count
        self._start_count = sum(self._settled)
        self._queue = deque(
            index for index, is_settled in enumerate(self._settled) if not is_settled
        )

    @property
    def is_over(self) -> bool:
        """Whether each task is done or put aside."""
        return self.done_count + self.failed_count == len(self.source)

    def counts(self) -> TaskCounts:
        """Return how many tasks are in which state, for ``tasks.json``."""
        with self._lock:
            settled_count = self.done_count + self.failed_count
            running_count = len(self._task_of_worker)
            return TaskCounts(
                source=str(self.source.path),
                digest=self.source.digest,
                results=str(self.results),
                failures=str(self.failures),
                tasks=len(self.source),
                done=self.done_count,
                running=running_count,
                failed=self.failed_count,
                repeated=max(self._start_count - settled_count - running_count, 0),
            )

    def take(self, worker: str) -> tuple[TaskId, Any] | None:
        """Give this worker a task, which is the worker's until it settles the task, hands it back
        or ends; None if all remaining tasks are with other workers.
        """
        with self._lock:
            # A worker that has a task asks again if it has not got the answer.
            index = self._task_of_worker.get(worker)
            while index is None or self._settled[index]:
                if not self._queue:
                    return None
                index = self._queue.popleft()
                if not self._settled[index]:
                    self._start_count += 1
            self._task_of_worker[worker] = index
            return self.source.id_of(index), self.source.value(index)

    def done(self, worker: str, task: TaskId, result: Any) -> None:
        """Write the result of a task to disk; a second result of the same task is dropped."""
        index = self.source.index_of(task)
        assert index is not None, "a task that was taken"
        line = self._results.line(task, result)
        with self._lock:
            if not self._settled[index]:
                self._results.append(line)
                self._settled[index] = 1
                self.done_count += 1
            if self._task_of_worker.get(worker) == index:
                del self._task_of_worker[worker]
        self._results.sync()

    def hand_back(self, worker: str) -> TaskId | None:
        """Take the worker's task away, so that it is the next one to be given; return it, or None
        if the worker has none.
        """
        with self._lock:
            index = self._task_of_worker.pop(worker, None)
            if index is None:
                return None
            self._queue.appendleft(index)
            return self.source.id_of(index)

    def charge(self, task: TaskId, error: str) -> bool:
        """Record that a task which was handed back has failed, with its traceback; return whether
        it is put aside, because it has failed :data:`MOST_FAILURES` times. A task that is tried
        again becomes the last one in the queue.
        """
        index = self.source.index_of(task)
        assert index is not None, "a task that was taken"
        with self._lock:
            if self._settled[index]:  # by another worker, meanwhile
                return False
            failure_count = self._failure_counts.get(index, 0) + 1
            self._failure_counts[index] = failure_count
            is_put_aside = failure_count >= MOST_FAILURES
            more_keys = {"aside": True} if is_put_aside else {}
            self._failures.append(self._failures.line(task, error[-_MOST_TRACEBACK:], **more_keys))
            self._failures.sync()
            if index in self._queue:
                self._queue.remove(index)
                if not is_put_aside:
                    self._queue.append(index)
            if is_put_aside:
                self._settled[index] = 1
                self.failed_count += 1
            return is_put_aside

    def close(self) -> None:
        """Close the logs, and let another pool use the file of results."""
        self._results.close()
        self._failures.close()
        self._results_lock.release()


def _lock_of_results(results: Path) -> OwnerLock:
    """Lock a file of results for this pool. Raises :class:`InputFileError` if another pool of this
    user has the lock. A file that cannot be locked is used all the same, with a line on stderr.
    """
    lock = OwnerLock(results)
    try:
        if not lock.acquire():
            raise InputFileError(
                str(results), "in use by another pool; give another file for the results"
            )
    except NotLockableError as error:  # whether another pool uses the file is unknown
        print(f"bftrainer: {error}", file=sys.stderr)
    return lock
