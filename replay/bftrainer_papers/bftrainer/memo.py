"""What is not a cell of a sweep and still takes a while: computed once, kept as one file, named by what it depends on."""

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

Found = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Memo:
    """Results below one folder. A file that is no JSON counts as not there."""

    folder: Path

    def get(self, name: str, depends_on: object, compute: Callable[[], Found]) -> Found:
        """What is kept under this name and content, or what ``compute`` says now."""
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
