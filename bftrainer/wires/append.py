"""Appends a line to a file of a trainer directory. A training never ends because a line cannot be
written.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bftrainer.wires.paths import older_part


def append_line(path: Path, line: str, most_bytes: int, subject: str, flags: int = 0) -> None:
    """Append ``line`` and a newline to the file at ``path``; a file that already has more than
    ``most_bytes`` is renamed first (:func:`.older_part`). ``flags`` are more flags of ``open``.
    An error is only printed on stderr, where ``subject`` names the line.
    """
    try:
        if path.exists() and path.stat().st_size > most_bytes:
            path.replace(older_part(path))
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)
    except OSError as error:  # a full disk must not end the training
        print(f"bftrainer: {subject} is not written: {error}", file=sys.stderr)
