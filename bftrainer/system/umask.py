"""The modes of files: what a pilot and its drivers write is their user's alone; what a user asks for has the user's own umask.

A process that has called :func:`keep_files_private` creates its files for its user only, whatever umask it was started with.
What it starts or writes on the user's behalf (workers and their checkpoints, results, commands of notices) gets the umask that
the user had: it is handed to child processes (``Popen(umask=...)``), and to :func:`users_mode`.

Only the standard library is imported: training scripts use this module.
"""

from __future__ import annotations

import os

_PRIVATE = 0o077
_users: int | None = None  # of this process, from before its files were private


def keep_files_private() -> None:
    """From now on, this process creates files that only its user can read. Called once, before it has threads."""
    global _users
    if _users is None:
        _users = os.umask(_PRIVATE)


def users_umask() -> int:
    """The umask for processes that are started on the user's behalf; -1, as for ``Popen``: that of this process."""
    return -1 if _users is None else _users


def users_mode(mode: int) -> int:
    """The mode of a new file that the user asked for: ``mode`` without what the user's umask takes away."""
    if _users is not None:
        return mode & ~_users
    return mode & ~_umask_of_process()


def _umask_of_process() -> int:
    """The umask, from /proc: reading it by ``os.umask`` would change it for all threads."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123  # no import for workers
        for line in file:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return _PRIVATE
