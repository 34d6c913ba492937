"""A result file per task, named by its content and written by atomic rename: it is complete, or it
does not exist.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bftrainer.errors import UserError
from bftrainer.system.files import write_atomically
from bftrainer_replay.sweep.cell import Task

Result = Mapping[str, Any]
"""The result of one task. Its ``wall_s`` depends on the machine and is never compared."""


@dataclass(frozen=True, slots=True)
class ResultStore:
    """The results in one folder."""

    folder: Path

    def check_folder(self) -> None:
        """Raise ``UserError`` if results cannot be stored. Creates nothing."""
        folder = self.folder.absolute()
        # The folder may not exist yet: then the nearest one that does has to be writable.
        nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        if not nearest.is_dir():
            problem = "is not a directory"
        elif not os.access(nearest, os.W_OK | os.X_OK):
            problem = "cannot be written"
        else:
            return
        raise UserError(f"{nearest} {problem}; specify another directory with --out")

    def get(self, task: Task) -> Result | None:
        """Return the result of a task; None if there is none yet.

        A file that is not JSON, or has no result, counts as missing. Raises ``UserError`` for a
        file that cannot be read.
        """
        try:
            content = json.loads(self._path(task).read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        except OSError as error:
            raise UserError(f"{self._path(task)}: cannot be read: {error.strerror}") from error
        result = content.get("result") if isinstance(content, dict) else None
        return result if isinstance(result, dict) else None

    def put(self, task: Task, result: Result) -> None:
        """Store the result of a task. Raises ``UserError`` if it cannot be written."""
        content = {"kind": task.kind, "cell": asdict(task.cell), "result": result}
        text = json.dumps(content, indent=1, default=lambda value: value.value)
        try:
            write_atomically(self._path(task), f"{text}\n".encode())
        except OSError as error:
            raise UserError(f"{self.folder}: cannot be written: {error.strerror}") from error

    def _path(self, task: Task) -> Path:
        return self.folder / f"{task.key}.json"
