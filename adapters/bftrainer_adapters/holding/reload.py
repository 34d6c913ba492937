"""What both schedulers' sites do alike: name the pilot, and apply a configuration table that was read again."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

from bftrainer.config.validation import ConfigTable

_Table = TypeVar("_Table", bound=ConfigTable)


def pilot_name(state_dir: Path) -> str:
    """Pilots of one user differ in their state directories. Without blanks: it is a word in the comments of jobs."""
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '_', state_dir.name)}-{zlib.crc32(str(state_dir).encode()):08x}"


def reloaded(was: ConfigTable | None, fresh: _Table, keys: Collection[str]) -> tuple[_Table, tuple[str, ...]]:
    """The settings to go on with: of ``fresh`` those ``keys`` that may change; and the others that differ."""
    before = dict(was or ())
    back = {key: value for key, value in before.items() if key not in keys and value != getattr(fresh, key)}
    return fresh.model_copy(update=back), tuple(sorted(back))
