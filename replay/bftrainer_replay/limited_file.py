"""Bytes of a file, decompressed while they are read, and never more of them than a limit.

gzip, bzip2 and xz make a gigabyte of zeros a megabyte or less. Here a file ends with an error when
more than ``max_bytes`` bytes have come out of it, or when it has grown more than any log does. Its
decompressor gets a bounded amount of memory.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol

from bftrainer.config.validation import refuse_pipe
from bftrainer.counted import counted
from bftrainer.errors import InputFileError

MOST_BYTES = 4 * 1024**3
"""Default of ``--max-bytes``: no log so far had a tenth of this size."""
MOST_GROWTH = 200
"""Limit for the size of the content relative to that of the compressed file. The log of BFTrainer's
authors, mostly zeros, is 73 times as large as its .gz; logs of jobs are 5 to 21 times as large.
"""
FREE_BYTES = 64 * 1024**2
"""Content up to this size is not subject to the limit on growth, however small the file is."""
_XZ_MEMORY = 256 * 1024**2
_PIECE = 256 * 1024
OnBytes = Callable[[int], None]
"""Called with the number of bytes that were read from the disk since its last call."""
DAMAGE = (EOFError, zlib.error, lzma.LZMAError)
"""The errors of reading a damaged or truncated file; bz2 also raises OSError."""


class _Decompressor(Protocol):
    """The interface of the decompressors of bz2 and lzma."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the interface of the others. It checks the length and the checksum
    at the end.
    """

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


def _decompressor_of(start: bytes) -> _Decompressor | None:
    """Return the decompressor of content that begins like this; None for plain content."""
    if start.startswith(b"\x1f\x8b"):
        return _Gzip()
    if start.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    if start.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    return None


class LimitedFile(io.RawIOBase):
    """The content of a file, decompressed. Reading more than ``max_bytes`` raises
    :class:`InputFileError`.

    ``MOST_GROWTH`` holds only if the user has not set a limit (``max_bytes`` is None).
    Several compressed files in a row are one content, as for ``zcat``. ``on_bytes`` is called for
    each piece of the file that is read, before it is decompressed.
    """

    def __init__(
        self, path: Path, max_bytes: int | None = None, on_bytes: OnBytes | None = None
    ) -> None:
        """Open the file, and recognize its compression by its first bytes.

        Raises :class:`InputFileError` if it cannot be opened, or is a pipe.
        """
        self._path = path
        self._on_bytes = on_bytes
        self._max_bytes = MOST_BYTES if max_bytes is None else max_bytes
        self._has_growth_limit = max_bytes is None
        try:
            refuse_pipe(path)
            self._file: IO[bytes] = path.open("rb", buffering=0)
            self._pending = self._file.read(8) or b""
        except OSError as error:
            raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error
        # ``_pending`` are bytes that were read from the disk, but not used yet.
        self._decompressor = _decompressor_of(self._pending)  # None: plain content
        self._bytes_in, self._bytes_out = len(self._pending), 0  # of the disk, of the content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # io says WriteableBuffer
        """Read content into the buffer, as io.RawIOBase does; at most 256 KiB at a time."""
        if self._decompressor:
            data = self._read_decompressed(min(len(buffer), _PIECE))
        else:
            data = self._read_plain(len(buffer))
        self._bytes_out += len(data)
        self._check_limits()
        buffer[: len(data)] = data
        return len(data)

    def _check_limits(self) -> None:
        """Raise :class:`InputFileError` if the content is too large.

        It may be so in all, or, against files that decompress to a multiple of their size, relative
        to the bytes read from the disk.
        """
        if self._bytes_out > self._max_bytes:
            unpacked = " when decompressed" if self._decompressor else ""
            raise InputFileError(
                str(self._path),
                f"has more than {counted(self._max_bytes, 'byte')}{unpacked}; --max-bytes sets "
                "another limit",
            )
        if not self._decompressor or not self._has_growth_limit:
            return
        if self._bytes_out > max(FREE_BYTES, MOST_GROWTH * self._bytes_in):
            raise InputFileError(
                str(self._path),
                f"is more than {MOST_GROWTH} times as large when decompressed, which no real "
                "log is; if you trust the file, "
                "set a limit with --max-bytes",
            )

    def close(self) -> None:
        self._file.close()
        super().close()

    def _read_plain(self, size: int) -> bytes:
        """Read up to ``size`` bytes of a file that is not compressed; empty at the end."""
        if self._pending:
            data = self._pending[:size]
            self._pending = self._pending[size:]
            return data
        return self._from_disk(min(size, _PIECE))

    def _next_compressed(self) -> bytes:
        """Return compressed bytes that no decompressor has got yet; empty at the end."""
        if self._pending:
            data = self._pending
            self._pending = b""
            return data
        data = self._from_disk(_PIECE)
        self._bytes_in += len(data)
        return data

    def _from_disk(self, size: int) -> bytes:
        """Read up to ``size`` bytes of the file as it is stored; empty at the end."""
        data = self._file.read(size) or b""
        if self._on_bytes is not None:
            self._on_bytes(len(data))
        return data

    def _read_decompressed(self, size: int) -> bytes:
        """Return up to ``size`` bytes of the content of a compressed file; empty at the end."""
        while True:
            assert self._decompressor is not None
            if self._decompressor.eof and not self._next_stream(self._decompressor.unused_data):
                return b""
            data = b""
            # A decompressor may still hold content of bytes that it got before.
            if self._decompressor.needs_input and not (data := self._next_compressed()):
                raise EOFError("the compressed file ends before its end marker")
            if content := self._decompressor.decompress(data, size):
                return content

    def _next_stream(self, rest: bytes) -> bool:
        """Begin with the compressed content that follows in the same file; return whether there is
        any.

        ``rest`` are the bytes that the last decompressor has read beyond its end. Padding with
        zeros is allowed, as for ``zcat``. Raises :class:`EOFError` if something else follows.
        """
        start = rest.lstrip(b"\0")
        # Eight bytes suffice to recognize a format.
        while len(start) < 8 and (data := self._next_compressed()):
            start = (start + data).lstrip(b"\0")
        if not start:
            return False
        self._decompressor = _decompressor_of(start)
        self._pending = start
        if self._decompressor is None:
            raise EOFError("something else follows the compressed content")
        return True
