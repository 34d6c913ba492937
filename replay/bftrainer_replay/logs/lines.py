"""Text of a log file line by line, plain or compressed, with an end to every kind of nonsense."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bftrainer.errors import InputFileError

LONGEST_LINE = 32 * 1024 * 1024
"""Characters. A job on all cores of the largest machine, each core named, stays below this."""
HEAD = 64 * 1024
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError)
# (magic, opener); tar archives are not text and are left to those who expect them.
_COMPRESSED: tuple[tuple[bytes, Any], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
)


def open_bytes(path: Path) -> IO[bytes]:
    """The file's content, decompressed on the way if it is .gz, .bz2 or .xz by content."""
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


def read_head(path: Path) -> bytes:
    """The first 64 KB of the content, to recognise the format by."""
    with open_bytes(path) as file:
        try:
            return file.read(HEAD)
        except (*DAMAGE, OSError) as error:
            raise InputFileError(str(path), f"is damaged or truncated ({error}); expected a whole file") from error


class Lines:
    """Iterates over (line number, text without its line end).

    Only what an importer uses must be clean: job names in Latin-1 are common, so undecodable bytes become surrogates,
    which no time, number or node name may contain. ``cut`` says afterwards that the last line had no line end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = False

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for number, line in self.pieces(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise InputFileError(f"{self.path}:{number}", f"is longer than {LONGEST_LINE:,} characters")
            yield number, line.rstrip("\r\n")

    def pieces(self, longest: int) -> Iterator[tuple[int, str]]:
        """(line number, text) with lines cut into pieces of at most ``longest`` characters; line ends are kept."""
        number, whole = 0, True
        with open_bytes(self.path) as raw:
            file = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="\n")
            while True:
                try:
                    line = file.readline(longest)
                except (*DAMAGE, OSError) as error:
                    problem = f"is damaged or truncated after this line ({error}); expected a whole file"
                    raise InputFileError(f"{self.path}:{number}", problem) from error
                if not line:
                    return
                number += whole
                whole = line.endswith("\n")
                self.cut = not whole
                yield number, line
