"""The text files of a path: one file, plain or compressed, or the members of a tar archive. Nothing is unpacked to disk."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer_replay.text_files import DAMAGE, as_text, damaged, read_bytes

MOST_BYTES = 256 * 1024 * 1024
"""Limit for one text, and for all texts of an archive together. The largest public profile has 15 MB."""
MOST_MEMBERS = 10_000


@dataclass(frozen=True, slots=True)
class TextFile:
    """``where`` is FILE, or FILE:MEMBER; ``name`` is the member's own name with its folders."""

    where: str
    name: str
    text: str


def texts_of(path: Path) -> list[TextFile]:
    """The texts, sorted by name. Raises :class:`InputFileError` for a damaged file, a file that is too large, or no text."""
    data = read_bytes(path, MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InputFileError(str(path), f"has more than {MOST_BYTES:,} bytes, expected a trace or profile")
    if not data:
        raise InputFileError(str(path), "is empty, expected a trace or profile")
    if data[257:262] == b"ustar":
        return sorted(_members(path), key=lambda text: text.name)
    return [TextFile(str(path), path.name, as_text(str(path), data))]


def _members(path: Path) -> Iterator[TextFile]:
    left = MOST_BYTES
    try:
        with tarfile.open(path) as archive:
            for count, member in enumerate(archive):
                if count >= MOST_MEMBERS:
                    problem = f"has more than {MOST_MEMBERS:,} members, expected a trace or profile"
                    raise InputFileError(str(path), problem)
                if not member.isfile():
                    continue
                left -= member.size
                if left < 0:
                    problem = f"holds more than {MOST_BYTES:,} bytes, expected a trace or profile"
                    raise InputFileError(str(path), problem)
                content = archive.extractfile(member)
                where = f"{path}:{member.name.encode('ascii', 'backslashreplace').decode()}"
                if content is not None:
                    yield TextFile(where, member.name, as_text(where, content.read()))
    except (*DAMAGE, tarfile.TarError, OSError) as error:
        raise damaged(str(path), error) from error
