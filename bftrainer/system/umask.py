"""The modes of files: what a pilot and its drivers write is their user's alone; what a user asks
for has the user's own umask.

Within :func:`private_files` a process creates its files for its user only, whatever umask it was
started with. What it starts or writes on the user's behalf (workers and their checkpoints, results
of a pool, commands of notices, the pilot's next job) keeps the umask that the user had: child
processes get :func:`users_umask`, files :func:`users_mode`.

Only the standard library is imported: training scripts use this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_PRIVATE = 0o077
_user_umask: int | None = None  # of this process, from before its files were private


@contextmanager
def private_files() -> Iterator[None]:
    """Let this process create files that only its user can read, within the block. Enter it before
    the process has threads.
    """
    global _user_umask
    if _user_umask is not None:
        yield
        return
    _user_umask = os.umask(_PRIVATE)
    try:
        yield
    finally:
        os.umask(_user_umask)
        _user_umask = None


def users_umask() -> int:
    """Return the user's own umask, for processes that are started on the user's behalf
    (``Popen(umask=...)``).
    """
    return _umask_of_process() if _user_umask is None else _user_umask


def users_mode(mode: int) -> int:
    """Return the mode of a new file that the user asked for: ``mode`` without the bits that the
    user's umask takes away.
    """
    return mode & ~users_umask()


def _umask_of_process() -> int:
    """Return the umask of this process, from /proc: reading it by ``os.umask`` would change it for
    all threads.
    """
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123  # no import for workers
        for line in file:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return _PRIVATE
