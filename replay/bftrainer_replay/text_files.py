"""Reads text files, plain or compressed, and says what is wrong with them in one way."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from pathlib import Path
from typing import IO, Any

from bftrainer.errors import InputFileError

HEAD_BYTES = 64 * 1024
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError)
# (magic, opener). Tar archives are not text: their readers open them.
_COMPRESSED: tuple[tuple[bytes, Any], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
)


def open_bytes(path: Path) -> IO[bytes]:
    """The file's content, decompressed while reading if the content is gzip, bzip2 or xz."""
    try:
        with path.open("rb") as raw:
            start = raw.read(8)
    except OSError as error:
        raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error
    for magic, opener in _COMPRESSED:
        if start.startswith(magic):
            opened: IO[bytes] = opener(path, "rb")
            return opened
    return path.open("rb")


def read_bytes(path: Path, size: int = -1) -> bytes:
    """At most ``size`` bytes of the content (-1: all of it). Raises :class:`InputFileError`."""
    with open_bytes(path) as file:
        try:
            return file.read(size)
        except (*DAMAGE, OSError) as error:
            raise damaged(str(path), error) from error


def read_head(path: Path) -> bytes:
    """The first 64 KB of the content, from which the format is recognized."""
    return read_bytes(path, HEAD_BYTES)


def read_text(path: Path) -> str:
    """The whole content as text. Raises :class:`InputFileError`."""
    return as_text(str(path), read_bytes(path))


def as_text(where: str, data: bytes) -> str:
    """Bytes as UTF-8 text without a byte order mark. Raises :class:`InputFileError`, also for a NUL."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputFileError(where, f"is not UTF-8 text ({error.reason} at byte {error.start})") from error
    if "\0" in text:  # csv rejects it up to Python 3.10; date parsing accepts text up to it
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputFileError(f"{where}:{line}", "has a NUL character, expected text")
    return text


def damaged(where: str, error: Exception) -> InputFileError:
    """The error for a compressed file or archive that cannot be read to its end."""
    return InputFileError(where, f"is damaged or truncated ({error}); expected a complete file")
