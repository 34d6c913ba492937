"""The members of a tar archive, without unpacking it, and with a limit on what its headers take.

A header may announce names and attributes of any length, which :mod:`tarfile` reads into memory: a
gigabyte of them is a megabyte of gzip. Here all headers of an archive together have a limit.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from bftrainer.errors import InputFileError
from bftrainer_replay.limited_file import DAMAGE

MOST_HEADER_BYTES = 16 * 1024 * 1024
"""Limit for headers: 10,000 members with names of 1,000 characters."""
MOST_MEMBERS = 10_000
TAR_DAMAGE = (tarfile.TarError, *DAMAGE, OSError, ValueError, OverflowError)
"""What reading a damaged archive raises; tarfile lets ValueError and OverflowError of malformed
numbers through.
"""


def is_archive(head: bytes) -> bool:
    """Whether content that begins like this is a tar archive."""
    return head[257:262] == b"ustar"


class _Headers:
    """The archive's file as tarfile sees it: it can only be read forward. What is read as a header
    counts against the limit before it is read.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file = path, file
        self._at = 0
        self._left = MOST_HEADER_BYTES
        self.in_content = False

    def tell(self) -> int:
        return self._at

    def seek(self, place: int, whence: int = 0) -> int:
        """Skip forward to ``place`` by reading, and return the position.

        It is short of ``place`` if the file ends before. Raises ``tarfile.ReadError`` for a place
        behind, because a stream cannot be read twice.
        """
        if whence or place < self._at:
            raise tarfile.ReadError("a member begins before the end of the one before it")
        while self._at < place and (
            skipped := len(self._file.read(min(place - self._at, 1024 * 1024)))
        ):
            self._at += skipped
        return self._at

    def read(self, size: int) -> bytes:
        """Read ``size`` bytes; raises :class:`InputFileError` if headers exceed their limit.

        Only what is read as a header counts, not the content of a member. A negative size (all of
        the file) is refused as well.
        """
        if not self.in_content:
            self._left -= size
            if size < 0 or self._left < 0:
                raise InputFileError(
                    str(self._path),
                    f"has headers of more than {MOST_HEADER_BYTES:,} bytes, expected an "
                    "archive of logs",
                )
        data = self._file.read(size)
        self._at += len(data)
        return data


class ArchiveMember:
    """A regular file of an archive, to be read before the next one is asked for."""

    def __init__(self, name: str, size: int, content: IO[bytes], headers: _Headers) -> None:
        self.name, self.size = name, size
        self._content, self._headers = content, headers

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, and at most 1 MiB; empty at the end."""
        self._headers.in_content = True
        try:
            return self._content.read(min(size, 1024 * 1024))
        finally:
            self._headers.in_content = False


def members(path: Path, file: IO[bytes]) -> Iterator[ArchiveMember]:
    """Yield the regular files of the archive in ``file``, in order; others, such as links, are
    skipped.

    Raises :class:`InputFileError` for headers or members beyond the limits, or one of
    ``TAR_DAMAGE`` for a damaged archive.
    """
    headers = _Headers(path, file)
    with tarfile.open(fileobj=headers, mode="r:") as archive:  # type: ignore[call-overload]  # it needs no more of a file
        for count, info in enumerate(archive):
            if count >= MOST_MEMBERS:
                raise InputFileError(
                    str(path),
                    f"has more than {MOST_MEMBERS:,} members, expected an archive of logs",
                )
            if (
                info.isreg()
                and not info.issparse()
                and (content := archive.extractfile(info)) is not None
            ):
                yield ArchiveMember(info.name, info.size, content, headers)
