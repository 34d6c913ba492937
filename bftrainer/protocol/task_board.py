"""Which tasks of a pool are done, which worker has which, and which have failed too often.

Results are lines of one log that only this process appends to, ``{"task": ID, "result": ...}``: a task is done once its line is
on disk. A line that a crash has cut is removed, and its task runs again: at least once, and each result is there once.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bftrainer.errors import InputFileError
from bftrainer.protocol.task_source import MOST_BYTES, TaskId, TaskSource

MOST_FAILURES = 3
"""Of a task, until it is put aside."""
PUT_ASIDE = "failed"
"""The metric of a pool's progress that counts such tasks."""
_MOST_TRACEBACK = 8000


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """``tasks.json``: how far a pool is. ``failed``: put aside. ``repeated``: starts of tasks beyond the first of each.

    ``per_hour``: settled in the last ten minutes or less, per hour; ``left_s``: until the end, at that rate (None: unknown).
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
    """Safe to use from several threads; :meth:`done` returns once the result is on disk.

    ``results`` and ``failures`` are logs. Raises :class:`InputFileError` if they cannot be read or written.
    """

    def __init__(self, source: TaskSource, results: Path, failures: Path) -> None:
        self.source, self.results, self.failures = source, results, failures
        self._lock = threading.Lock()
        self._settled = bytearray(len(source))
        self._charges: dict[int, int] = {}
        self._leases: dict[str, int] = {}
        self._started = self.done_count = self.failed_count = 0
        self._log, self._failures = _appended(results), _appended(failures)
        try:
            fcntl.flock(self._log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputFileError(str(results), "in use by another pool; give another file for the results") from None
        except OSError as error:  # a file system without locks: unknown
            print(f"bftrainer: {results}: {error.strerror}", file=sys.stderr)
        for index, _ in self._logged(results, "result"):
            self._settled[index] = 1
        self.done_count = sum(self._settled)
        for index, line in self._logged(failures, "error"):
            self._charges[index] = self._charges.get(index, 0) + 1
            if line.get("aside"):
                self._settled[index] = 1
        self.failed_count = sum(self._settled) - self.done_count
        self._started = sum(self._settled)
        self._queue = deque(index for index, settled in enumerate(self._settled) if not settled)

    @property
    def is_over(self) -> bool:
        return self.done_count + self.failed_count == len(self.source)

    def counts(self) -> TaskCounts:
        with self._lock:
            source, names = self.source, (str(self.results), str(self.failures))
            settled, running = self.done_count + self.failed_count, len(self._leases)
            return TaskCounts(
                str(source.path), source.digest, *names, len(source), self.done_count, running, self.failed_count,
                max(self._started - settled - running, 0),
            )  # fmt: skip

    def take(self, worker: str) -> tuple[TaskId, Any] | None:
        """A task for this worker until it settles it, hands it back or ends; None: all that is left is with others."""
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
        """The result of a task, kept if it is the first one."""
        index = self.source.index_of(task)
        assert index is not None, "a task that was taken"
        line = json.dumps({"task": task, "result": result}).encode() + b"\n"
        with self._lock:
            if not self._settled[index]:
                _write(self._log, line)
                self._settled[index] = 1
                self.done_count += 1
            if self._leases.get(worker) == index:
                del self._leases[worker]
        os.fsync(self._log)

    def hand_back(self, worker: str) -> TaskId | None:
        """The worker's task, if it has one, is the next one to be taken."""
        with self._lock:
            index = self._leases.pop(worker, None)
            if index is None:
                return None
            self._queue.appendleft(index)
            return self.source.id_of(index)

    def charge(self, task: TaskId, error: str) -> bool:
        """A task that was handed back has failed. Whether it is put aside, since it fails too often."""
        index = self.source.index_of(task)
        assert index is not None, "a task that was taken"
        with self._lock:
            if self._settled[index]:
                return False
            count = self._charges[index] = self._charges.get(index, 0) + 1
            aside = count >= MOST_FAILURES
            line = {"task": task, "error": error[-_MOST_TRACEBACK:], **({"aside": True} if aside else {})}
            _write(self._failures, json.dumps(line).encode() + b"\n")
            os.fsync(self._failures)
            if index in self._queue:
                self._queue.remove(index)
                if not aside:
                    self._queue.append(index)
            if aside:
                self._settled[index] = 1
                self.failed_count += 1
            return aside

    def close(self) -> None:
        for log in (self._log, self._failures):
            os.close(log)

    def _logged(self, path: Path, key: str) -> Iterator[tuple[int, dict[str, Any]]]:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(2 * MOST_BYTES), b""), 1):
                try:
                    found = json.loads(line)
                    index = self.source.index_of(found["task"]) if key in found else None
                except (ValueError, TypeError, KeyError):
                    index = None
                if index is None:
                    problem = f"expected {key}s of the tasks in {self.source.path}, found {line[:60]!r}"
                    raise InputFileError(f"{path}:{number}", f"{problem}; give another file for the {key}s")
                yield index, found


def _appended(path: Path) -> int:
    """A descriptor for whole lines: what a crash has left of the last one is removed. Raises :class:`InputFileError`."""
    try:
        log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        end = size = os.fstat(log).st_size
        while end > 0 and (piece := os.pread(log, min(end, 1 << 16), max(end - (1 << 16), 0))).rfind(b"\n") < 0:
            end -= len(piece)
        end = end - len(piece) + piece.rfind(b"\n") + 1 if end > 0 else 0
        if end < size:
            os.ftruncate(log, end)
    except OSError as error:
        raise InputFileError(str(path), f"cannot be written: {error.strerror}") from error
    return log


def _write(log: int, line: bytes) -> None:
    """A whole line, or (on a full disk) none. Raises ``OSError``."""
    before = os.fstat(log).st_size
    try:
        if os.write(log, line) != len(line):
            raise OSError("the disk is full")
    except OSError:
        os.ftruncate(log, before)
        raise
