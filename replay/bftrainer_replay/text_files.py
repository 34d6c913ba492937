"""Reads text files, plain or compressed, and says what is wrong with them in one way."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO

from bftrainer.errors import InputFileError
from bftrainer_replay.limited_file import DAMAGE, LimitedFile, OnBytes

HEAD_BYTES = 64 * 1024
TABLE_BYTES = 256 * 1024 * 1024
"""Limit for a file that is read as a whole: a table, a trace, a list of nodes. The largest public
profile has 15 MB.
"""


def open_bytes(
    path: Path, max_bytes: int | None = None, on_bytes: OnBytes | None = None
) -> IO[bytes]:
    """Open a file, which is decompressed while reading if the content is gzip, bzip2 or xz.

    ``max_bytes`` limits the content; ``on_bytes`` is called with the number of bytes of each piece
    of the file that is read.
    """
    return io.BufferedReader(LimitedFile(path, max_bytes, on_bytes), 128 * 1024)


def read_bytes(path: Path, size: int) -> bytes:
    """Read at most ``size`` bytes of the content. Raises :class:`InputFileError`."""
    with open_bytes(path) as file:
        pieces: list[bytes] = []
        remaining = size
        try:
            while remaining > 0 and (piece := file.read(min(remaining, 1024 * 1024))):
                pieces.append(piece)
                remaining -= len(piece)
        except (*DAMAGE, OSError) as error:
            raise damaged(str(path), error) from error
    return b"".join(pieces)


def read_head(path: Path) -> bytes:
    """Read the first 64 KB of the content, from which the format is recognized."""
    return read_bytes(path, HEAD_BYTES)


def read_text(path: Path) -> str:
    """Read the whole content as text. Raises :class:`InputFileError`."""
    data = read_bytes(path, TABLE_BYTES + 1)
    if len(data) > TABLE_BYTES:
        raise InputFileError(
            str(path), f"has more than {TABLE_BYTES:,} bytes, expected a smaller table or list"
        )
    return as_text(str(path), data)


def as_text(where: str, data: bytes) -> str:
    """Return bytes as UTF-8 text without a byte order mark.

    ``where`` names the file for messages. Raises :class:`InputFileError`, also for a NUL.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputFileError(
            where, f"is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from error
    if "\0" in text:  # date parsing would ignore a NUL and all that follows
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputFileError(f"{where}:{line}", "has a NUL character, expected text")
    return text


def damaged(where: str, error: Exception) -> InputFileError:
    """Return the error for a compressed file or archive that cannot be read to its end."""
    return InputFileError(where, f"is damaged or truncated ({error}); expected a complete file")
