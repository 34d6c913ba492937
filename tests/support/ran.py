"""A command in a process of its own: its exit status and both streams."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from support.patience import PATIENCE


def ran(
    *argv: object, limit_s: float = 60.0, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """``limit_s`` is for two idle cores."""
    words, timeout = [str(word) for word in argv], limit_s * PATIENCE
    return subprocess.run(
        words, capture_output=True, text=True, timeout=timeout, check=check, **options
    )


def python(*argv: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return ran(sys.executable, *argv, **options)
