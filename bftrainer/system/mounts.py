"""The file system that holds a path, from /proc/self/mountinfo (proc(5))."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class Mount:
    """``options``: those of the mount and of its super block, by name; empty values for those
    without one.
    """

    point: str
    kind: str
    source: str
    options: Mapping[str, str]


def mount_of(folder: Path) -> Mount:
    """Return the mount on which a folder lies. Raises :class:`InvalidValueError` where /proc does
    not list it.
    """
    device = folder.stat().st_dev
    return find_mount(
        Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape"),
        str(folder.resolve()),
        f"{os.major(device)}:{os.minor(device)}",
    )


def find_mount(mountinfo: str, path: str, device: str) -> Mount:
    """Find the mount that a path lies on: among the mounts above the path, those of ``device`` come
    first (an overlay hides the device), then the longest mount point, then the last line.
    """
    best: tuple[bool, int] = (False, -1)
    mount: Mount | None = None
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(" - ")
        fields, rest = head.split(), tail.split()
        if len(fields) < 6 or len(rest) < 3:
            continue
        point = _unescaped(fields[4])
        if not (path + "/").startswith(point.rstrip("/") + "/"):
            continue
        rank = (fields[2] == device, len(point))
        if rank >= best:
            best = rank
            words = [word.partition("=") for word in (*fields[5].split(","), *rest[2].split(","))]
            mount = Mount(
                point, rest[0], _unescaped(rest[1]), {name: value for name, _, value in words}
            )
    if mount is None:
        raise InvalidValueError(f"/proc/self/mountinfo lists no mount above {path}")
    return mount


def _unescaped(text: str) -> str:
    """Decode a field of mountinfo, where blanks, tabs, line ends and backslashes are octal."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
