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
        self._settled = bytearray(len(source))
        self._charges: dict[int, int] = {}
        self._leases: dict[str, int] = {}
        self._started = self.done_count = self.failed_count = 0
        self._use = _locked(results)
        with ExitStack() as undo:
            undo.callback(self._use.release)
            self._results = TaskLog(results, "result", source, users_mode(0o666))
            undo.callback(self._results.close)
            for index, _ in self._results.lines():
                self._settled[index] = 1
            self.done_count = sum(self._settled)
            self._failures = TaskLog(failures, "error", source, _PRIVATE)
            undo.callback(self._failures.close)
            for index, line in self._failures.lines():
                self._charges[index] = self._charges.get(index, 0) + 1
                if line.get("aside"):
                    self._settled[index] = 1
            undo.pop_all()
        self.failed_count = sum(self._settled) - self.done_count
        self._started = sum(self._settled)
        self._queue = deque(index for index, settled in enumerate(self._settled) if not settled)

    @property
    def is_over(self) -> bool:
        return self.done_count + self.failed_count == len(self.source)

    def counts(self) -> TaskCounts:
        """Return how many tasks are in which state, for ``tasks.json``."""
        with self._lock:
            source, names = self.source, (str(self.results), str(self.failures))
            settled, running = self.done_count + self.failed_count, len(self._leases)
            return TaskCounts(
                str(source.path),
                source.digest,
                *names,
                len(source),
                self.done_count,
                running,
                self.failed_count,
                max(self._started - settled - running, 0),
            )

    def take(self, worker: str) -> tuple[TaskId, Any] | None:
        """Give this worker a task, which is the worker's until it settles the task, hands it back
        or ends; None if all remaining tasks are with other workers.
        """
        with self._lock:
            index = self._leases.get(worker)  # it has not heard the answer
            while index is None or self._settled[index]:
                if not self._queue:
                    return None
                index = self._queue.popleft()
                self._started += not self._settled[index]
            self._leases[worker] = index
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
            if self._leases.get(worker) == index:
                del self._leases[worker]
        self._results.sync()

    def hand_back(self, worker: str) -> TaskId | None:
        """Take the worker's task away, so that it is the next one to be given; return it, or None
        if the worker has none.
        """
        with self._lock:
            index = self._leases.pop(worker, None)
            if index is None:
                return None
            self._queue.appendleft(index)
            return self.source.id_of(index)

    def charge(self, task: TaskId, error: str) -> bool:
        """Note that a task which was handed back has failed; return whether it is put aside,
        because it has failed :data:`MOST_FAILURES` times.
        """
        index = self.source.index_of(task)
        assert index is not None, "a task that was taken"
        with self._lock:
            if self._settled[index]:
                return False
            count = self._charges[index] = self._charges.get(index, 0) + 1
            aside = count >= MOST_FAILURES
            further = {"aside": True} if aside else {}
            self._failures.append(self._failures.line(task, error[-_MOST_TRACEBACK:], **further))
            self._failures.sync()
            if index in self._queue:
                self._queue.remove(index)
                if not aside:
                    self._queue.append(index)
            if aside:
                self._settled[index] = 1
                self.failed_count += 1
            return aside

    def close(self) -> None:
        self._results.close()
        self._failures.close()
        self._use.release()


def _locked(results: Path) -> OwnerLock:
    """Lock a file of results for this pool. Raises :class:`InputFileError` if another pool of this
    user has the lock.
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
