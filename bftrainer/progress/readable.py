"""Whether the files of a checkpoint can be read, seen from their formats: cheap, without loading
them.

A kill, or a full disk, leaves a file that exists and is too short. Only its end tells.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

_MAX_JSON_BYTES = 100_000_000
_LENGTH = struct.Struct("<Q")
"""The length of the header, with which a file of safetensors begins."""
_READ_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile)


def unreadable_file(folder: Path) -> str | None:
    """Return the name of a file of a checkpoint that is incomplete; None if none is.

    Files of JSON, of safetensors, and of ``torch.save`` (torch 1.6 or newer) are checked, and that
    each file that an index of shards names exists. Others count as complete.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError:
        return folder.name
    for path in paths:
        is_complete = _FORMATS.get(path.suffix)
        try:
            if is_complete is not None and not is_complete(path):
                return path.name
        except _READ_ERRORS:
            return path.name
    return None


def _is_complete_json(path: Path) -> bool:
    """Whether a file is JSON and, if it is the index of a model, all files that it names exist."""
    if path.stat().st_size > _MAX_JSON_BYTES:
        return True
    content = json.loads(path.read_bytes())
    if not path.name.endswith(".index.json"):
        return True
    return all((path.parent / name).is_file() for name in set(content["weight_map"].values()))


def _is_complete_safetensors(path: Path) -> bool:
    """Whether the file is as long as its header says."""
    size = path.stat().st_size
    with path.open("rb") as file:
        (header_bytes,) = _LENGTH.unpack(file.read(_LENGTH.size).ljust(_LENGTH.size, b"\0"))
        if not 0 < header_bytes <= min(size - _LENGTH.size, _MAX_JSON_BYTES):
            return False
        header = json.loads(file.read(header_bytes))
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    return bool(size == _LENGTH.size + header_bytes + max(ends, default=0))


def _is_complete_zip(path: Path) -> bool:
    """Whether the file has the directory with which a zip archive ends, as ``torch.save`` writes
    one. A file of another format counts as complete, unless it is empty.
    """
    with path.open("rb") as file:
        first = file.read(2)
        if first != b"PK":
            return bool(first)
        with zipfile.ZipFile(file):
            return True


_FORMATS: dict[str, Callable[[Path], bool]] = {
    ".json": _is_complete_json,
    ".safetensors": _is_complete_safetensors,
    ".pt": _is_complete_zip,
    ".pth": _is_complete_zip,
    ".bin": _is_complete_zip,
}
