"""A log of a pool: one line of JSON for each result, or for each failure, of a task.

A line that a crash has cut is removed, so that the log has whole lines only. The user names the
file of results, and may name a wrong one: nothing is removed before every other line has proved to
be of this log, and the last one to be the beginning of such a line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bftrainer.errors import InputFileError
from bftrainer.system.regular import NotRegularError, open_regular_to_append
from bftrainer.wires.task_source import MOST_BYTES, MOST_LEVELS, TaskId, TaskSource, is_too_deep

_LINE_BYTES = 2 * MOST_BYTES
"""The most bytes of a line with its newline: the longest result, and what stands around it."""
_OPENING = b'{"task": '
_TASK = re.compile(r'[0-9]{1,18}|"[^"\\]*(?:\\.[^"\\]*)*"')
_LONGEST_NAME = 2048
"""Characters of a file's name, with all of them as escapes."""


class TaskLog:
    """The log of a pool's results or failures, lines ``{"task": ID, KEY: ...}``. Raises
    :class:`InputFileError` if the file cannot be read and written.
    """

    def __init__(self, path: Path, key: str, source: TaskSource, mode: int) -> None:
        """Open the log, whose lines have the key ``key`` (``result`` or ``error``) and tasks of
        ``source``; a new file gets ``mode``.
        """
        self.path = path
        self._key = key
        self._source = source
        try:
            self._handle = open_regular_to_append(path, mode)
        except NotRegularError as error:
            raise InputFileError(
                str(path), f"is not a regular file; expected a file for the {key}s"
            ) from error
        except OSError as error:
            raise InputFileError(str(path), f"cannot be written: {error.strerror}") from error

    def lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Read the log: for each line, the index of its task and its object. At the end, a last
        line that a crash has cut is removed from the file.

        Raises :class:`InputFileError`, with the line, for a line that is not of this log.
        """
        whole_bytes, number = 0, 0  # of the lines that were read
        is_cut = False
        with os.fdopen(os.dup(self._handle), "rb") as file:
            file.seek(0)
            size = os.fstat(self._handle).st_size  # another program may append without end
            while whole_bytes < size and (line := file.readline(_LINE_BYTES)):
                number += 1
                record = self._parsed_entry(line)
                if record is None:
                    is_last = self._is_beginning(line) and not file.read(1)
                    if not is_last:
                        raise self._foreign_line_error(number, line)
                    is_cut = True
                    break
                yield record
                whole_bytes += len(line)
                # A whole line, of which a crash, or an editor, has left out the end.
                if not line.endswith(b"\n"):
                    self.append(b"\n")
                    whole_bytes += 1
        if is_cut:
            os.ftruncate(self._handle, whole_bytes)

    def append(self, line: bytes) -> None:
        """Append a whole line, or (on a full disk) nothing. Raises ``OSError``."""
        previous_size = os.fstat(self._handle).st_size
        try:
            if os.write(self._handle, line) != len(line):
                raise OSError("the disk is full")
        except OSError:
            os.ftruncate(self._handle, previous_size)
            raise

    def sync(self) -> None:
        """Wait until all lines are on disk."""
        os.fsync(self._handle)

    def close(self) -> None:
        os.close(self._handle)

    def line(self, task: TaskId, value: Any, **more_keys: object) -> bytes:
        """Format a line of this log: the result or the error of a task is ``value``. Raises
        ``ValueError`` or ``TypeError`` for a value that could not be written or read back.
        """
        text = json.dumps({"task": task, self._key: value, **more_keys})
        if is_too_deep(text):
            raise ValueError(
                f"the {self._key} of task {task} is nested in more than {MOST_LEVELS} levels"
            )
        return text.encode() + b"\n"

    def _parsed_entry(self, line: bytes) -> tuple[int, dict[str, Any]] | None:
        """Parse a line into (index of its task, object); None for a line that is not of this
        log.
        """
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or self._key not in record:
            return None
        index = self._source.index_of(record.get("task"))
        return None if index is None else (index, record)

    def _is_beginning(self, line: bytes) -> bool:
        """Return whether ``line`` can be what a crash has left of a line of this log: its first
        bytes, followed by zeros where data were not on disk yet.

        The task is looked up in the source only if something follows it: ``12`` at the end may be
        the beginning of ``123``.
        """
        beginning = line.rstrip(b"\0")
        if b"\n" in beginning or b"\0" in beginning or not beginning.isascii():
            return False
        if not beginning.startswith(_OPENING):
            return _OPENING.startswith(beginning)
        text = beginning[len(_OPENING) :].decode("ascii")
        task = _TASK.match(text)
        if task is None:
            # Nothing, or the beginning of a file's name.
            return not text or (text[0] == '"' and len(text) < _LONGEST_NAME)
        text_after_task = text[task.end() :]
        if not text_after_task:
            return True
        separator = f', "{self._key}": '
        is_task_of_source = self._source.index_of(json.loads(task[0])) is not None
        has_separator = text_after_task.startswith(separator) or separator.startswith(
            text_after_task
        )
        return is_task_of_source and has_separator

    def _foreign_line_error(self, number: int, line: bytes) -> InputFileError:
        """Build the error for line ``number``, which is not of this log."""
        problem = f"expected {self._key}s of the tasks in {self._source.path}, found {line[:60]!r}"
        if is_too_deep(line.decode(errors="replace")):
            problem = (
                f"is nested in more than {MOST_LEVELS} levels, expected {self._key}s of "
                f"the tasks in {self._source.path}"
            )
        return InputFileError(
            f"{self.path}:{number}", f"{problem}; give another file for the {self._key}s"
        )
