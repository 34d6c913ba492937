"""Reads a growing ``.jsonl`` file: whole lines only, each line once, from a remembered offset.

A writer may rename a long file to ``.1`` and start a new one; the unread rest of the old file is read first.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class JsonTail:
    """``offset`` is the first unread byte; keep it to continue after a restart."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self._path = os.fspath(path)
        self.offset = offset
        self._file: tuple[int, int] | None = None  # device and inode of the file that was read last

    def skip(self, but_bytes: int = 0) -> None:
        """Move to the present end of the file, or ``but_bytes`` before it."""
        if self.path.exists():
            found = self.path.stat()
            self._file = found.st_dev, found.st_ino
            self.offset = max(found.st_size - but_bytes, 0)
        else:
            self.offset = 0

    def read(self) -> list[dict[str, Any]]:
        """The objects appended since the last call. A line that is no JSON object (a torn write) is skipped."""
        rest: list[dict[str, Any]] = []
        try:
            # Opened rather than only statted: a network file system asks its server at open. Most files have not grown.
            handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return rest
        try:
            found = os.fstat(handle)
            now = found.st_dev, found.st_ino
            if now != self._file:
                rest = self._rest_of_the_old()
                self._file = now
            if found.st_size < self.offset:
                self.offset = 0  # the file was started again since the last read
            return rest + self._new_lines(handle, found.st_size)
        finally:
            os.close(handle)

    def _rest_of_the_old(self) -> list[dict[str, Any]]:
        """The unread lines of the file that was renamed; sets the offset to 0."""
        if self._file is None:
            return []
        try:
            handle = os.open(f"{self._path}.1", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self.offset = 0
            return []
        try:
            old = os.fstat(handle)
            known = (old.st_dev, old.st_ino) == self._file
            return self._new_lines(handle, old.st_size) if known else []
        finally:
            os.close(handle)
            self.offset = 0

    def _new_lines(self, handle: int, size: int) -> list[dict[str, Any]]:
        if size <= self.offset:
            return []
        data = os.pread(handle, size - self.offset, self.offset)
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        found: list[dict[str, Any]] = []
        for line in whole.splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                found.append(value)
        return found
