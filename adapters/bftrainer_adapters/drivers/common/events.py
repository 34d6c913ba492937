"""``events.jsonl``: what a driver reports, one JSON object a line, each by one ``write``."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path


class DriverEvent(Enum):
    """The values of ``event``; ``docs/trainer-directory.md`` lists their further keys."""

    STARTED = "started"
    WARMING = "warming"
    WARM = "warm"
    WARMING_CANCELLED = "warming_cancelled"
    WORKER_STARTED = "worker_started"
    WORKER_EXITED = "worker_exited"
    WITHHELD = "withheld"
    RUNNING = "running"
    HUNG = "hung"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """Whether the driver ends after it."""
        return self in (DriverEvent.STOPPED, DriverEvent.DONE, DriverEvent.FAILED)


class EventWriter:
    """Appends reports of one incarnation; safe to share between threads."""

    def __init__(self, path: Path, incarnation: int, clock: Callable[[], float] = time.time) -> None:
        self.incarnation = incarnation
        self._clock = clock
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, event: DriverEvent, **fields: object) -> None:
        """Append one line."""
        head = {"time": round(self._clock(), 4), "event": event.value, "incarnation": self.incarnation}
        line = json.dumps({**head, **fields}) + "\n"
        with self._lock:
            os.write(self._file, line.encode())

    def close(self) -> None:
        """Give the file back; nothing may be written after it."""
        os.close(self._file)
