"""Which nodes of a log to replay: a list from a file, or a sample of all nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer_replay.text_files import read_text


def read_node_list(path: Path) -> tuple[str, ...]:
    """Return the node names of a file, one per line, in the file's order.

    Blank lines are ignored. Raises :class:`InputFileError`, also for a name that is listed twice.
    """
    line_of: dict[str, int] = {}
    for line, row in enumerate(read_text(path).splitlines(), start=1):
        name = row.strip()
        if not name:
            continue
        if len(name.split()) > 1:
            raise InputFileError(
                f"{path}:{line}", f"{name!r:.60} contains a space, expected one node name per line"
            )
        if name in line_of:
            raise InputFileError(
                f"{path}:{line}", f"duplicate node {name}, first on line {line_of[name]}"
            )
        line_of[name] = line
    if not line_of:
        raise InputFileError(str(path), "has no node names, expected one per line")
    return tuple(line_of)


def hashed_sample(nodes: Iterable[str], count: int) -> tuple[str, ...]:
    """Return the first ``count`` nodes by the SHA-256 of their names, a fair sample.

    Adjacent nodes become idle together, so the first names are not a fair sample. The order by hash
    is even, the same on every machine, and nested: the sample of 64 is part of the sample of 128.
    (The paper's sample is the first 1,024 columns of the authors' table, which is shuffled too.)
    """
    return tuple(
        sorted(nodes, key=lambda name: (hashlib.sha256(name.encode()).digest(), name))[:count]
    )
