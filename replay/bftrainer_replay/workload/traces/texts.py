"""The texts of a file: one, plain or compressed, or those of a tar archive. Nothing is unpacked to disk."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer_replay.logs.lines import DAMAGE, open_bytes

MOST_BYTES = 256 * 1024 * 1024
"""Of one text, and of all texts of an archive: the largest public profile has 15 MB."""
MOST_MEMBERS = 10_000
_DAMAGE = (*DAMAGE, tarfile.TarError, OSError)


@dataclass(frozen=True, slots=True)
class Text:
    """``where`` is the file, or FILE:MEMBER; ``name`` its own name with folders, without the archive's."""

    where: str
    name: str
    text: str


def texts_of(path: Path) -> list[Text]:
    """The texts, in order of name. Raises :class:`InputFileError` for what is damaged, too large, or no text."""
    with open_bytes(path) as file:
        try:
            data = file.read(MOST_BYTES + 1)
        except _DAMAGE as error:
            raise InputFileError(str(path), f"is damaged or truncated ({error}); expected a whole file") from error
    if len(data) > MOST_BYTES:
        raise InputFileError(str(path), f"has more than {MOST_BYTES:,} bytes, expected a trace or profile")
    if not data:
        raise InputFileError(str(path), "is empty, expected a trace or profile")
    if data[257:262] == b"ustar":
        return sorted(_members(path), key=lambda text: text.name)
    return [Text(str(path), path.name, _decoded(str(path), data))]


def _members(path: Path) -> Iterator[Text]:
    left = MOST_BYTES
    try:
        with tarfile.open(path) as archive:
            for count, member in enumerate(archive):
                if count >= MOST_MEMBERS:
                    raise InputFileError(
                        str(path), f"has more than {MOST_MEMBERS:,} members, expected a trace or profile"
                    )
                if not member.isfile():
                    continue
                left -= member.size
                if left < 0:
                    raise InputFileError(
                        str(path), f"holds more than {MOST_BYTES:,} bytes, expected a trace or profile"
                    )
                content = archive.extractfile(member)
                where = f"{path}:{member.name.encode('ascii', 'backslashreplace').decode()}"
                if content is not None:
                    yield Text(where, member.name, _decoded(where, content.read()))
    except _DAMAGE as error:
        raise InputFileError(str(path), f"is damaged or truncated ({error}); expected a whole archive") from error


def _decoded(where: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputFileError(where, f"is not text in UTF-8 ({error.reason} at byte {error.start})") from error
    if "\0" in text:
        raise InputFileError(f"{where}:{text.count(chr(10), 0, text.index(chr(0))) + 1}", "has a NUL, expected text")
    return text
