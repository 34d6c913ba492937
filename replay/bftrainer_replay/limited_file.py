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
"""Default of ``--max-bytes``: no log so far had a tenth of it."""
MOST_GROWTH = 200
"""The log of BFTrainer's authors, mostly zeros, is 73 times as large as its .gz; logs of jobs are 5
to 21 times as large.
"""
FREE_BYTES = 64 * 1024**2
"""What may come out of any file, however small."""
_XZ_MEMORY = 256 * 1024**2
_PIECE = 256 * 1024
OnBytes = Callable[[int], None]
"""Called with the number of bytes that were read from the disk since its last call."""
DAMAGE = (EOFError, zlib.error, lzma.LZMAError)
"""What reading a damaged or truncated file raises; bz2 also raises OSError."""


class _Decompressor(Protocol):
    """What bz2 and lzma share."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """zlib's decompressor with that interface. It checks the length and the checksum at the end."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


def _decompressor(start: bytes) -> _Decompressor | None:
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

    The limit on growth holds unless the user has set a limit (``max_bytes`` is None without one).
    Several compressed files in a row are one content, as for ``zcat``. ``on_bytes`` is called for
    each piece of the file that is read, before it is decompressed.
    """

    def __init__(
        self, path: Path, max_bytes: int | None = None, on_bytes: OnBytes | None = None
    ) -> None:
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
        self._inner = _decompressor(self._pending)
        self._bytes_in, self._bytes_out = len(self._pending), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # io says WriteableBuffer
        """Read content into the buffer, as io.RawIOBase does; at most 256 KiB at a time."""
        if self._inner:
            data = self._decompressed(min(len(buffer), _PIECE))
        else:
            data = self._plain(len(buffer))
        self._bytes_out += len(data)
        self._check_limits()
        buffer[: len(data)] = data
        return len(data)

    def _check_limits(self) -> None:
        """Raise :class:`InputFileError` if too many bytes have come out, in all or relative to
        those read.
        """
        if self._bytes_out > self._max_bytes:
            unpacked = " when decompressed" if self._inner else ""
            raise InputFileError(
                str(self._path),
                f"has more than {counted(self._max_bytes, 'byte')}{unpacked}; --max-bytes sets "
                "another limit",
            )
        if not self._inner or not self._has_growth_limit:
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

    def _plain(self, size: int) -> bytes:
        """Read up to ``size`` bytes of a file that is not compressed; empty at the end."""
        if self._pending:
            data, self._pending = self._pending[:size], self._pending[size:]
            return data
        return self._from_disk(min(size, _PIECE))

    def _more(self) -> bytes:
        """Return compressed bytes that no decompressor has seen yet; empty at the end."""
        if self._pending:
            data, self._pending = self._pending, b""
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

    def _decompressed(self, size: int) -> bytes:
        """Return up to ``size`` bytes of the content of a compressed file; empty at the end."""
        while True:
            assert self._inner is not None
            if self._inner.eof and not self._next_stream(self._inner.unused_data):
                return b""
            data = b""
            if self._inner.needs_input and not (data := self._more()):
                raise EOFError("the compressed file ends before its end marker")
            if content := self._inner.decompress(data, size):
                return content

    def _next_stream(self, rest: bytes) -> bool:
        """Begin with the compressed file that follows in the same file; return whether there is
        one. Padding with zeros is allowed, as for ``zcat``.
        """
        rest = rest.lstrip(b"\0")
        while len(rest) < 8 and (more := self._more()):
            rest = (rest + more).lstrip(b"\0")
        if not rest:
            return False
        self._inner, self._pending = _decompressor(rest), rest
        if self._inner is None:
            raise EOFError("something else follows the compressed content")
        return True
