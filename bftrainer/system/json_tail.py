"""Reads a growing ``.jsonl`` file: whole lines only, each line once, from a remembered offset, in
memory that is bounded.

A writer may rename a long file to ``.1`` and start a new one; the unread rest of the old file is
read first.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bftrainer.system.regular import open_regular

PIECE_BYTES = 1 << 20
"""The most bytes of a file that one call of ``read`` reads; the rest comes with the next call. No
line is longer.
"""


@dataclass(frozen=True)
class BadLine:
    """A line that is no JSON object. ``text`` is its beginning."""

    problem: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.problem}: {self.text!r}" if self.text else self.problem


class JsonTail:
    """The unread lines of one file. ``offset`` is the first unread byte; keep the number to
    continue after a restart.

    The file is opened without blocking and must be a regular file: other kinds raise
    ``NotRegularError``.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self._path = os.fspath(path)
        self.offset = offset
        self._file: tuple[int, int] | None = None  # device and inode of the file that was read last
        self._in_long_line = False  # whether ``offset`` is within a line that is too long

    def skip(self, but_bytes: int = 0) -> None:
        """Skip everything up to the present end of the file, but the last ``but_bytes`` bytes."""
        self._in_long_line = False
        try:
            status = os.lstat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            self.offset = 0
            return
        self._file = status.st_dev, status.st_ino
        self.offset = max(status.st_size - but_bytes, 0)

    def read(self) -> list[dict[str, Any]]:
        """Return the objects appended since the last call. A line that is no JSON object (a torn
        write) is skipped.
        """
        return [line for line in self.read_lines() if not isinstance(line, BadLine)]

    def read_lines(self) -> list[dict[str, Any] | BadLine]:
        """Read the lines appended since the last call; a line that is no JSON object is returned as
        a :class:`BadLine` in its place.

        A call reads at most ``PIECE_BYTES``. An empty answer means that no whole line is left, or
        that the piece held none.
        """
        try:
            # Opened rather than only statted: a network file system asks its server at open. Most
            # files have not grown.
            handle = open_regular(self._path)
        except FileNotFoundError:
            return []
        try:
            status = os.fstat(handle)
            opened_file = status.st_dev, status.st_ino
            old_lines: list[dict[str, Any] | BadLine] = []
            if opened_file != self._file:
                old_lines, is_complete = self._old_file_lines()
                if not is_complete:
                    return old_lines
                # At the first read, the offset given at the construction is of this file.
                if self._file:
                    self.offset = 0
                self._file = opened_file
                self._in_long_line = False
            if status.st_size < self.offset:
                # The file was started again since the last read.
                self.offset = 0
                self._in_long_line = False
            return old_lines + self._new_lines(handle, status.st_size)
        finally:
            os.close(handle)

    def is_read(self) -> bool:
        """Return whether nothing is left to read, from a stat alone: quick, and reliable for files
        that programs of this host write.
        """
        try:
            status = os.lstat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return status.st_size == self.offset and (status.st_dev, status.st_ino) == self._file

    def backlog_bytes(self) -> int:
        """Return how many bytes of the file have not been read."""
        try:
            return max(os.lstat(self._path).st_size - self.offset, 0)
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _old_file_lines(self) -> tuple[list[dict[str, Any] | BadLine], bool]:
        """Return the next unread lines of the file that was read last and is renamed to ``.1`` now,
        and whether no more are left there. Nothing is left if it is not there.
        """
        if self._file is None:
            return [], True
        try:
            handle = open_regular(f"{self._path}.1")
        except FileNotFoundError:
            return [], True
        try:
            status = os.fstat(handle)
            if (status.st_dev, status.st_ino) != self._file:
                return [], True
            previous_offset = self.offset
            lines = self._new_lines(handle, status.st_size)
            # A line that is not whole stays so: its file has been renamed.
            is_complete = self.offset == previous_offset or self.offset >= status.st_size
            return lines, is_complete
        finally:
            os.close(handle)

    def _new_lines(self, handle: int, size: int) -> list[dict[str, Any] | BadLine]:
        """Return the next whole lines of an open file from ``offset`` on, :data:`PIECE_BYTES` at
        most. A longer line is returned once, as a :class:`BadLine`, and skipped to its end.
        """
        if size <= self.offset:
            return []
        try:
            data = os.pread(handle, min(size - self.offset, PIECE_BYTES), self.offset)
        except OSError as error:
            # Another host has just replaced the file: the next call opens the new one.
            if error.errno == errno.ESTALE:
                return []
            raise
        end = data.rfind(b"\n") + 1
        if not end:
            if len(data) < PIECE_BYTES:
                if self._in_long_line:  # its end is still to come
                    self.offset += len(data)
                return []
            self.offset += len(data)
            if self._in_long_line:
                return []
            self._in_long_line = True
            return [BadLine(f"a line has more than {PIECE_BYTES:,} bytes", _shown_beginning(data))]
        self.offset += end
        lines = data[:end].split(b"\n")[:-1]
        if self._in_long_line:  # the first line is its end
            self._in_long_line = False
            del lines[0]
        return [_parsed_line(line) for line in lines if line.strip()]


def _parsed_line(line: bytes) -> dict[str, Any] | BadLine:
    """Parse a line into its object, or into a :class:`BadLine` that says what is wrong."""
    try:
        value = json.loads(line)
    except UnicodeDecodeError:
        return BadLine("a line is not UTF-8", _shown_beginning(line))
    except ValueError:
        return BadLine("a line is not JSON", _shown_beginning(line))
    except RecursionError:
        return BadLine("a line is nested too deeply", _shown_beginning(line))
    return (
        value
        if isinstance(value, dict)
        else BadLine("a line is not a JSON object", _shown_beginning(line))
    )


def _shown_beginning(line: bytes) -> str:
    return line[:60].decode(errors="replace")
