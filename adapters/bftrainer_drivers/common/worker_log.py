"""A worker's output on disk, with a size limit: the newest half of the limit is always there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from bftrainer.wires.paths import older_part


class CappedLog:
    """``path`` grows to half of ``max_bytes``, is renamed to ``path.1``, and starts again."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self._half_bytes = max(1, max_bytes // 2)
        self._file = path.open("ab", buffering=0)

    def write(self, data: bytes) -> None:
        """Append to the log; when half of the limit is full, rename it and start again. Raises
        ``OSError``, as on a full disk.
        """
        while data:
            room_bytes = self._half_bytes - self._file.tell()
            if room_bytes <= 0:
                self._file.close()
                self.path.replace(older_part(self.path))
                self._file = self.path.open("ab", buffering=0)
                room_bytes = self._half_bytes
            written_bytes = self._file.write(data[:room_bytes]) or 0
            data = data[written_bytes:]

    def close(self) -> None:
        self._file.close()


class Pump(threading.Thread):
    """Copies a pipe into a log until the pipe ends; ``on_marked`` is called once when ``marker``
    was read.

    A full disk must not stop the worker: its output is still read, and lost.
    """

    def __init__(
        self,
        pipe: int,
        log: CappedLog,
        marker: bytes = b"",
        on_marked: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name=f"log {log.path.name}", daemon=True)
        self._pipe = pipe
        self._log = log
        self._marker = marker
        self._on_marked = on_marked

    def run(self) -> None:
        """Copy the pipe until it ends, and look for the marker on the way, also across two
        reads.
        """
        recent = b""
        is_seeking = bool(self._marker)
        with os.fdopen(self._pipe, "rb", buffering=0) as pipe:
            while data := pipe.read(65536):
                if is_seeking:
                    recent = (recent + data)[-len(self._marker) - len(data) :]
                    if self._marker in recent:
                        is_seeking = False
                        self._on_marked()
                try:
                    self._log.write(data)
                except OSError:  # a full disk: this output is lost
                    continue
        self._log.close()
