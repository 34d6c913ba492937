"""flock(2): who holds the lock of a file. File systems that cannot lock are named, not taken for a
held lock.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from bftrainer.errors import UserError
from bftrainer.system.files import remove_file
from bftrainer.system.regular import open_regular

_TRIES = 100


class NotLockableError(UserError):
    """A file that cannot be locked at all: nothing says whether another process uses it."""


def try_lock(handle: int, path: Path) -> bool:
    """Lock an open file unless another process has the lock; return whether this process has it
    now.

    Raises :class:`NotLockableError` if the file system has no locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise NotLockableError(
            f"{path}: cannot be locked ({error.strerror}); expected a directory on a file "
            "system with locks (flock)"
        ) from error
    return True


class OwnerLock:
    """The lock of a file that other users may read: a file of mode 0600 beside it, ``.NAME.lock``.

    Whoever may read a file can hold its own lock: flock(2) asks for no right to write. The file is
    removed at release; one that a crash has left is locked again.
    """

    def __init__(self, path: Path) -> None:
        target = path.resolve()
        self.path = target.with_name(f".{target.name}.lock")
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Take the lock unless another process of this user has it; return whether this one has it
        now.

        Raises :class:`NotLockableError` if that cannot be told: the directory may be read-only, the
        file system may have no locks, or another user has put a file of this name there.
        """
        for _ in range(_TRIES):
            handle = self._open_lock_file()
            try:
                is_locked = try_lock(handle, self.path)
                is_at_path = is_locked and _is_at(handle, self.path)
            except BaseException:
                os.close(handle)
                raise
            if is_at_path:
                self._handle = handle
                return True
            os.close(handle)
            if not is_locked:
                return False
            # The file was removed, or replaced, before it was locked: lock the new one.
        raise NotLockableError(f"{self.path}: is replaced again and again")

    def release(self) -> None:
        """Give the lock back. May be called twice."""
        if self._handle is not None:
            with suppress(OSError):
                self.path.unlink()
            os.close(self._handle)
            self._handle = None

    def _open_lock_file(self) -> int:
        """Open the lock's file, or make it, and return its descriptor. Raises
        :class:`NotLockableError` if another user has put it there.
        """
        try:
            handle = open_regular(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise NotLockableError(f"{self.path}: cannot be opened ({error.strerror})") from error
        if os.fstat(handle).st_uid != os.geteuid():
            os.close(handle)
            raise NotLockableError(f"{self.path}: belongs to another user")
        return handle


def _is_at(handle: int, path: Path) -> bool:
    """Return whether an open file still has this name: the process that had the lock before may
    have removed it.
    """
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))  # noqa: PTH116  # beside fstat
    except OSError:
        return False


def require_locks(folder: Path) -> None:
    """Raise :class:`~bftrainer.errors.UserError` if files in this folder cannot be locked."""
    probe = folder / f".lock.{os.getpid()}"
    handle = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try_lock(handle, folder)
    finally:
        os.close(handle)
        remove_file(probe)
