"""Writes ``events.jsonl``: each line by one ``write``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bftrainer.wires.driver_events import AnyDriverEvent, EventLine, format_event


class EventWriter:
    """Appends the events of one incarnation; safe to share between threads."""

    def __init__(
        self, path: Path, incarnation: int, clock: Callable[[], float] = time.time
    ) -> None:
        self.incarnation = incarnation
        self._clock = clock
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, event: AnyDriverEvent, incarnation: int | None = None) -> None:
        """Append an event, of the writer's incarnation unless another one is named."""
        line = f"{format_event(EventLine(self._clock(), incarnation or self.incarnation, event))}\n"
        with self._lock:
            os.write(self._file, line.encode())

    def close(self) -> None:
        os.close(self._file)
