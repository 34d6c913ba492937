"""Which nodes of a log to replay: a list from a file, or some spread over all of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from bftrainer.errors import InputFileError


def read_node_list(path: Path) -> tuple[str, ...]:
    """Node names, one a line, in the file's order; empty lines are passed over, anything else odd is refused."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputFileError(str(path), f"is not text in UTF-8 ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error
    line_of: dict[str, int] = {}
    for line, row in enumerate(text.splitlines(), start=1):
        name = row.strip()
        if not name:
            continue
        if len(name.split()) > 1:
            raise InputFileError(f"{path}:{line}", f"{name!r:.60} has a blank inside, expected one node name a line")
        if name in line_of:
            raise InputFileError(f"{path}:{line}", f"node {name} stands on line {line_of[name]} already")
        line_of[name] = line
    if not line_of:
        raise InputFileError(str(path), "names no node, expected one name a line")
    return tuple(line_of)


def spread(nodes: Iterable[str], count: int) -> tuple[str, ...]:
    """The first ``count`` nodes by the SHA-256 of their names.

    Neighbours go idle together, so the first names of a machine are no fair sample of it. The order by hash is even,
    the same everywhere, and nested: 64 nodes are among the 128. (The paper's sample is the first 1,024 columns of the
    authors' table, whose order is shuffled too.)
    """
    return tuple(sorted(nodes, key=lambda name: (hashlib.sha256(name.encode()).digest(), name))[:count])
