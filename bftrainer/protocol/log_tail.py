"""The end of a worker's or a driver's log."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from bftrainer.protocol.paths import older_part
from bftrainer.system.printable import printable
from bftrainer.system.regular import open_regular

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(:|$)")
"""The line after a traceback."""
_RANK = re.compile(r"\[rank\d+\]: ")
"""torch.distributed puts it before each line of a traceback."""


def last_lines(path: Path, count: int = 20, max_bytes: int = 8192, since: int = 0) -> list[str]:
    """The last lines of a log, which may begin before the last rotation; empty without a log. ``since``: bytes to leave out."""
    data = b""
    for part in (path,) if since else (older_part(path), path):
        with suppress(FileNotFoundError), os.fdopen(open_regular(part), "rb") as file:
            file.seek(max(since, part.stat().st_size - max_bytes))
            data += file.read(max_bytes)
    return data[-max_bytes:].decode(errors="replace").splitlines()[-count:]


def last_exception(path: Path, since: int = 0) -> str:
    """The line of the last exception in a log (``ValueError: ...``), on one printable line; empty without one."""
    found, in_traceback = "", False
    lines = last_lines(path, count=10_000, max_bytes=1 << 16, since=since)
    for line in (_RANK.sub("", line, count=1) for line in lines):
        if line.startswith("Traceback (most recent call last):"):
            found, in_traceback = "", True
        elif in_traceback and _EXCEPTION.match(line):
            found, in_traceback = line.rstrip(), False
    return printable(found)[:300]
