"""flock(2): who holds the lock of a file. File systems that cannot lock are named, not taken for a held lock."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from bftrainer.errors import UserError
from bftrainer.system.files import remove_file


def try_lock(handle: int, path: Path) -> bool:
    """Lock an open file, unless another process has; return whether it is locked now.

    Raises :class:`~bftrainer.errors.UserError` if the file system has no locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise UserError(
            f"{path}: cannot be locked ({error.strerror}); expected a directory on a file system with locks (flock)"
        ) from error
    return True


def require_locks(folder: Path) -> None:
    """Raises :class:`~bftrainer.errors.UserError` if files of a folder cannot be locked."""
    probe = folder / f".lock.{os.getpid()}"
    handle = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try_lock(handle, folder)
    finally:
        os.close(handle)
        remove_file(probe)
