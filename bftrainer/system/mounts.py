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
    """A mounted file system: the mount ``point``, the ``kind`` of file system, and the ``source``
    (a device, or a server's folder). ``options``: those of the mount and of its super block, by
    name; the value is empty for an option without one.
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
    """Find the mount that a path lies on: among the mounts above the path, those of ``device``
    (``MAJOR:MINOR``) come first (an overlay hides the device), then the longest mount point, then
    the last line. Raises :class:`InvalidValueError` if there is none.
    """
    best_rank: tuple[bool, int] = (False, -1)
    mount: Mount | None = None
    for line in mountinfo.splitlines():
        # ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - KIND SOURCE SUPER-OPTIONS
        head, _, tail = line.partition(" - ")
        fields, tail_fields = head.split(), tail.split()
        if len(fields) < 6 or len(tail_fields) < 3:
            continue
        line_device, point, options = fields[2], _decoded_field(fields[4]), fields[5]
        kind, source, super_options = tail_fields[:3]
        if not (path + "/").startswith(point.rstrip("/") + "/"):
            continue
        rank = (line_device == device, len(point))
        if rank >= best_rank:
            best_rank = rank
            words = [word.partition("=") for word in f"{options},{super_options}".split(",")]
            values = {name: value for name, _, value in words}
            mount = Mount(point=point, kind=kind, source=_decoded_field(source), options=values)
    if mount is None:
        raise InvalidValueError(f"/proc/self/mountinfo lists no mount above {path}")
    return mount


def _decoded_field(text: str) -> str:
    """Decode a field of mountinfo, where blanks, tabs, line ends and backslashes are octal."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
