"""Slow computations that are no cells of a sweep: each result is a file, named by the inputs of the computation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bftrainer import __version__
from bftrainer.errors import UserError
from bftrainer.system.files import write_atomically


@dataclass(frozen=True, slots=True)
class Memo:
    """Results in one folder. A file that is not JSON is computed again."""

    folder: Path

    def get(self, name: str, depends_on: object, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The stored result for this name and these inputs, or the result of ``compute``, which is then stored."""
        content = json.dumps([__version__, depends_on], sort_keys=True)
        path = self.folder / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:16]}.json"
        try:
            kept = json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):
            kept = None
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        if isinstance(kept, dict):
            return kept
        found = compute()
        try:
            write_atomically(path, f"{json.dumps(found, indent=1)}\n".encode())
        except OSError as error:
            raise UserError(f"{self.folder}: cannot be written: {error.strerror}") from error
        return found
