"""The tasks of a pool: the lines of a file, or the files of a folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Union

from bftrainer.errors import InputFileError
from bftrainer.system.regular import NotRegularError, open_regular

MOST_BYTES = 1 << 20
"""The most bytes of a line, and of a result."""
MOST_LEVELS = 200
"""The most lists and objects within each other, in a task and in a result: JSON's parser counts
them as calls of Python's stack.
"""
TaskId = Union[int, str]
"""The number of a line, from 1, or the name of a file."""


class TaskSource:
    """The tasks by index, from 0. Of a file, only the places of its lines are kept in memory.

    ``values`` of lines are objects if the file's name ends in ``.jsonl``, else strings; of a
    folder, paths. Blank lines and hidden files are no tasks. Raises :class:`InputFileError`, with
    the line.
    """

    def __init__(self, path: Path) -> None:
        """Read all tasks once, to check them and to compute their digest."""
        self.path = path
        # Of a file: the offset and the number of each task's line. Of a folder: the names of files.
        self._offsets, self._numbers = array("Q"), array("Q")
        self._names: list[str] = []
        try:
            digest = self._read_folder() if path.is_dir() else self._read_file()
        except NotRegularError as error:
            raise InputFileError(
                str(path), "is not a regular file; expected a file of lines, or a folder"
            ) from error
        except OSError as error:
            raise InputFileError(str(path), error.strerror or str(error)) from error
        self.digest = digest
        self._index = {task: index for index, task in enumerate(self._names or self._numbers)}
        if not len(self):
            expected = "a file" if path.is_dir() else "a line"
            raise InputFileError(str(path), f"no tasks: expected {expected} for each")

    def _read_folder(self) -> str:
        """Read the names of a folder's files, and return their digest."""
        self._names = sorted(
            entry.name
            for entry in self.path.iterdir()
            if entry.is_file() and not entry.name.startswith(".")
        )
        names = "\n".join(self._names).encode(errors="surrogateescape")
        return hashlib.sha256(names).hexdigest()

    def _read_file(self) -> str:
        """Check all lines of a file, keep the places of tasks, and return the file's digest."""
        digest = hashlib.sha256()
        with _opened_file(self.path) as file:
            for offset, number, line in _numbered_lines(file, self.path):
                digest.update(line)
                if line.strip():
                    self._parsed_task(line, number)  # raises for a line that is no task
                    self._offsets.append(offset)
                    self._numbers.append(number)
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._names) or len(self._offsets)

    def id_of(self, index: int) -> TaskId:
        """Return the id of a task: the name of its file, or the number of its line."""
        return self._names[index] if self._names else self._numbers[index]

    def index_of(self, task: object) -> int | None:
        """Return the index of the task with this id; None if there is no such task."""
        is_id = isinstance(task, (int, str)) and not isinstance(task, bool)
        return self._index.get(task) if is_id else None

    def value(self, index: int) -> Any:
        """Return what a worker gets as the task: a path, a line, or a line's object. Raises
        :class:`InputFileError` for a file that has changed.
        """
        if self._names:
            return str(self.path / self._names[index])
        try:
            with _opened_file(self.path) as file:
                file.seek(self._offsets[index])
                return self._parsed_task(file.readline(MOST_BYTES + 1), self._numbers[index])
        except OSError as error:
            raise InputFileError(str(self.path), error.strerror or str(error)) from error

    def _parsed_task(self, line: bytes, number: int) -> Any:
        """Return a line's task. Raises :class:`InputFileError` for a line that is not UTF-8, or not
        JSON.
        """
        try:
            text = line.decode().rstrip("\r\n")
            if self.path.suffix != ".jsonl":
                return text
            if is_too_deep(text):
                raise InputFileError(
                    f"{self.path}:{number}", f"is nested in more than {MOST_LEVELS} levels"
                )
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            kind = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
            raise InputFileError(f"{self.path}:{number}", f"not {kind}: {error!s:.200}") from error


def is_too_deep(text: str) -> bool:
    """Return whether JSON text nests more than :data:`MOST_LEVELS` lists and objects. Linear,
    without recursion.
    """
    if text.count("[") + text.count("{") <= MOST_LEVELS:
        return False
    depth = 0
    # Brackets in strings do not count: a string is one match.
    for match in _BRACKET_OR_STRING.finditer(text):
        if match[0] in "[{":
            depth += 1
        elif match[0] in "]}":
            depth -= 1
        if depth > MOST_LEVELS:
            return True
    return False


_BRACKET_OR_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')


def _opened_file(path: Path) -> BinaryIO:
    """Open the user's file for reading. Raises ``OSError``, also for a pipe or a device, which may
    never end.
    """
    return os.fdopen(open_regular(path, follow_links=True), "rb")


def _numbered_lines(file: BinaryIO, path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset, number, line) of each line, in bounded memory. What another program appends
    meanwhile is left out.
    """
    offset, number = 0, 0
    size = os.fstat(file.fileno()).st_size
    while offset < size and (line := file.readline(MOST_BYTES + 1)):
        number += 1
        if len(line) > MOST_BYTES:
            problem = (
                f"longer than {MOST_BYTES >> 20} MiB; put long inputs into files of a "
                "folder, and give the folder"
            )
            raise InputFileError(f"{path}:{number}", problem)
        yield offset, number, line
        offset += len(line)
