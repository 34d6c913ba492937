"""Reads files that other programs write: whatever lies there, the reader neither waits nor runs out
of memory.

A named pipe makes ``open`` wait for a writer, a device may never end, a link leads elsewhere, and a
file may be of any length. Only the standard library is imported: training scripts use this module.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from bftrainer.system.shared_files import while_replaced

MAX_BYTES = 1 << 20
"""No message between programs is longer."""
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class NotRegularError(OSError):
    """A pipe, device, folder, socket or link where a regular file is expected."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "is not a regular file", str(path))

    def __str__(self) -> str:
        return f"{self.filename}: is not a regular file"


def open_regular(
    path: str | Path, flags: int = os.O_RDONLY, *, follow_links: bool = False, mode: int = 0o600
) -> int:
    """Open a regular file and return its descriptor. Raises :class:`NotRegularError` for anything
    else, and ``OSError`` as ``os.open`` does.

    ``follow_links`` is for files that the user names, because the user may keep them elsewhere
    behind a link. ``mode`` is that of a file that is created.
    """
    links = 0 if follow_links else os.O_NOFOLLOW
    try:
        handle = os.open(path, flags | links | _FLAGS, mode)
    except OSError as error:
        # A link; a pipe without a reader, or a socket; a folder opened for writing.
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise NotRegularError(path) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotRegularError(path)
    return handle


def read_regular(
    path: str | Path, max_bytes: int = MAX_BYTES, *, follow_links: bool = False
) -> bytes:
    """Return the content of a regular file. Raises ``OSError``, with ``EFBIG`` for a file of more
    than ``max_bytes``.
    """

    def read() -> bytes:
        with os.fdopen(open_regular(path, follow_links=follow_links), "rb") as file:
            return file.read(max_bytes + 1)

    data = while_replaced(read)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"has more than {max_bytes:,} bytes", str(path))
    return data


def read_end(path: str | Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the last bytes of a regular file, however long it is. Raises ``OSError``."""
    with os.fdopen(open_regular(path), "rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - max_bytes, 0))
        return file.read(max_bytes)


def open_regular_to_append(path: str | Path, mode: int) -> int:
    """Open a regular file that the user names, to read and to append to; return its descriptor. A
    new file gets ``mode``, whatever the umask.

    Raises :class:`NotRegularError`, or another ``OSError``.
    """
    flags = os.O_RDWR | os.O_APPEND
    try:
        handle = open_regular(path, flags | os.O_CREAT | os.O_EXCL, mode=mode)
    except FileExistsError:  # a file, or a link, also one to a file that is still to be made
        return open_regular(path, flags | os.O_CREAT, follow_links=True, mode=mode)
    with suppress(OSError):  # a file system without modes
        os.fchmod(handle, mode)  # without the umask
    return handle


def stamp_of(path: str | Path) -> tuple[int, int, int] | None:
    """Return a value that changes when the file is replaced or written; None for a file that cannot
    be opened.

    The file is opened, not only statted: a network file system asks its server at open.
    """
    try:
        handle = open_regular(path)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        return status.st_ino, status.st_mtime_ns, status.st_size
    finally:
        os.close(handle)
