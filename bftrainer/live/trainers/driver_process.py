"""The process of one trainer's driver: started in its own session so that it survives the pilot, and found again by its pid."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys

from bftrainer.protocol.driver_pid import read_driver_pid
from bftrainer.protocol.paths import TrainerDirectory, older_part
from bftrainer.system.processes import ProcessId, identify, is_alive
from bftrainer.system.processes import send as send_signal

_LOG_BYTES = 1 << 20
# Drivers that this process has started. They may outlive the launcher that started them.
_children: list[subprocess.Popen[bytes]] = []


class DriverProcess:
    """The driver of one trainer directory, if there is one. Raises ``OtherVersionError`` where it cannot be adopted."""

    def __init__(self, directory: TrainerDirectory) -> None:
        self._directory = directory
        self._lock = directory.driver_lock  # of the driver from before its first instruction to its end
        self._child: subprocess.Popen[bytes] | None = None
        self._process: ProcessId | None = read_driver_pid(directory.driver_pid)

    def lock(self) -> int | None:
        """A descriptor that holds the lock, for ``start``; None where a driver has it, which is adopted."""
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            self._process = None
            return None
        return lock

    def start(self, module: str, lock: int) -> None:
        """Start ``python -m MODULE TRAINER_DIR``, which inherits the lock."""
        path, own_log = self._directory.path, self._directory.driver_log
        if own_log.exists() and own_log.stat().st_size > _LOG_BYTES:
            own_log.replace(older_part(own_log))
        with own_log.open("ab") as log:
            child = subprocess.Popen(  # noqa: S603  # our own program
                [sys.executable, "-m", module, str(path)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=path, start_new_session=True,
                pass_fds=(lock,),
            )  # fmt: skip
        os.close(lock)
        _children.append(child)
        self._child, self._process = child, identify(child.pid)

    def kill(self) -> None:
        """SIGKILL. The driver's reaper ends its workers."""
        if self._process is not None:
            send_signal(self._process, signal.SIGKILL)

    @property
    def is_known(self) -> bool:
        """Whether there is, or was, such a process."""
        return self._process is not None

    def is_alive(self) -> bool:
        """Whether the driver runs, started here or not. Reaps a child that has ended."""
        if self._child is not None and self._child.poll() is not None:
            _children.remove(self._child)
            self._child = None
        if self._process is None and self._is_locked():
            self._process = read_driver_pid(self._directory.driver_pid)
            return True
        if self._child is not None and self._process is not None and self._child.pid == self._process.pid:
            return True  # it would have been reaped above
        return self._process is not None and is_alive(self._process)

    def _is_locked(self) -> bool:
        try:
            handle = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False
