"""The text files of a path: one file, plain or compressed, or the members of a tar archive. Nothing
is unpacked to disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer_papers.traces.archives import TAR_DAMAGE, is_archive, members
from bftrainer_replay.text_files import TABLE_BYTES, as_text, damaged, open_bytes, read_bytes


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text that was read from a file or an archive. ``where`` is FILE, or FILE:MEMBER; ``name``
    is the member's own name with its folders.
    """

    where: str
    name: str
    text: str


def texts_of(path: Path) -> list[TextFile]:
    """Read a file, or all files of an archive, as texts, sorted by name. Raises
    :class:`InputFileError` for a damaged file, a file that is too large, or no text.

    The limit holds for one text, and for all texts of an archive together.
    """
    data = read_bytes(path, TABLE_BYTES + 1)
    if len(data) > TABLE_BYTES:
        raise InputFileError(
            str(path), f"has more than {TABLE_BYTES:,} bytes, expected a trace or profile"
        )
    if not data:
        raise InputFileError(str(path), "is empty, expected a trace or profile")
    if is_archive(data):
        del data
        return sorted(_archive_texts(path), key=lambda text: text.name)
    return [TextFile(str(path), path.name, as_text(str(path), data))]


def _archive_texts(path: Path) -> Iterator[TextFile]:
    """Yield the texts of an archive; raises :class:`InputFileError` beyond the limit of all
    together.

    No more than one byte above the limit is read, so that an archive of any size takes bounded
    memory.
    """
    left = TABLE_BYTES
    try:
        with open_bytes(path) as file:
            for member in members(path, file):
                where = f"{path}:{member.name.encode('ascii', 'backslashreplace').decode()}"
                pieces: list[bytes] = []
                while left >= 0 and (piece := member.read(left + 1)):
                    pieces.append(piece)
                    left -= len(piece)
                if left < 0:
                    raise InputFileError(
                        str(path),
                        f"holds more than {TABLE_BYTES:,} bytes, expected a trace or profile",
                    )
                yield TextFile(where, member.name, as_text(where, b"".join(pieces)))
    except InputFileError:
        raise
    except TAR_DAMAGE as error:
        raise damaged(str(path), error) from error
