"""The process of one trainer's driver: started in its own session so that it survives the pilot,
and found again by its pid.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import IO

from bftrainer.errors import UserError
from bftrainer.system.locks import try_lock
from bftrainer.system.own_programs import module_command
from bftrainer.system.processes import ProcessId, identify, is_alive
from bftrainer.system.processes import send as send_signal
from bftrainer.system.regular import open_regular
from bftrainer.system.umask import users_umask
from bftrainer.wires.driver_pid import driver_of_any_version, read_driver_pid
from bftrainer.wires.log_tail import last_exception
from bftrainer.wires.paths import TrainerDirectory, older_part
from bftrainer.wires.typed_json import OtherVersionError

_LOG_BYTES = 1 << 20
# Drivers that this process has started. They may outlive the launcher that started them.
_children: list[subprocess.Popen[bytes]] = []


class DriverProcess:
    """The driver of one trainer directory, if there is one.

    ``foreign`` says why a driver cannot be adopted: it speaks another version of the trainer
    directory.
    """

    def __init__(self, directory: TrainerDirectory) -> None:
        """Find the driver of this trainer ``directory`` by its pid file, if one runs or has run."""
        self._directory = directory
        # The driver holds this lock from before its first instruction to its end.
        self._lock = directory.driver_lock
        self._child: subprocess.Popen[bytes] | None = None
        # Empty: the driver can be adopted, or there is none.
        self.foreign = ""
        self._log_start_bytes = 0  # where the lines of the present driver begin in its log
        self._process = self._read_process()

    def _read_process(self) -> ProcessId | None:
        """Return the process that the driver's pid file names; None where the file is missing,
        damaged or of another host.

        For a file of another version of the format, :attr:`foreign` says why the driver cannot be
        adopted.
        """
        try:
            return read_driver_pid(self._directory.driver_pid)
        except OtherVersionError as error:
            self.foreign = str(error)
            return driver_of_any_version(self._directory.driver_pid)

    def lock(self) -> int | None:
        """Return a descriptor that holds the driver's lock, for :meth:`start`, which closes it;
        None where a running driver has the lock.

        That driver is then adopted: :meth:`is_alive` reads its pid file.
        """
        lock = open_regular(self._lock, os.O_RDWR | os.O_CREAT)
        if not try_lock(lock, self._lock):
            os.close(lock)
            self._process = None  # is_alive reads the pid file again
            return None
        return lock

    def start(self, module: str, lock: int) -> None:
        """Start the driver: the program ``module`` with the path of the trainer directory as its
        argument. The driver inherits ``lock`` (:meth:`lock`), which is closed here in any case.
        """
        path = self._directory.path
        try:
            with self._own_log() as log:
                self._log_start_bytes = log.tell()
                child = subprocess.Popen(  # noqa: S603  # our own program
                    module_command(module, str(path)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=path,
                    start_new_session=True,
                    pass_fds=(lock,),
                    umask=users_umask(),
                )
        finally:
            os.close(lock)
        _children.append(child)
        self._child = child
        self._process = identify(child.pid)
        self.foreign = ""

    def _own_log(self) -> IO[bytes]:
        """Open the log of the driver to append to it; one that is too large is put aside first."""
        log = self._directory.driver_log
        file = os.fdopen(open_regular(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")
        if file.tell() <= _LOG_BYTES:
            return file
        file.close()
        log.replace(older_part(log))
        return self._own_log()

    def last_exception(self) -> str:
        """Return the exception that ended the driver, by its log; empty if there is none."""
        with suppress(OSError, UserError):
            return last_exception(self._directory.driver_log, self._log_start_bytes)
        return ""

    def kill(self) -> None:
        """Send SIGKILL to the driver; its reaper ends its workers. This process is never killed,
        whatever the driver's pid file says.
        """
        if self._process is not None and self._process.pid != os.getpid():
            send_signal(self._process, signal.SIGKILL)

    @property
    def is_known(self) -> bool:
        """Whether there is, or was, a driver process whose id is known."""
        return self._process is not None

    def is_alive(self) -> bool:
        """Whether the driver runs, no matter which pilot started it. Waits for a child that has
        ended, so that no zombie stays.

        A driver that is new since the last call is adopted: its pid file is read.
        """
        if self._child is not None and self._child.poll() is not None:
            _children.remove(self._child)
            self._child = None
        # A driver that another pilot has started: it takes the lock before it writes its pid file.
        if self._process is None and self._is_locked():
            self._process = self._read_process()
            return True
        if (
            self._child is not None
            and self._process is not None
            and self._child.pid == self._process.pid
        ):
            return True  # an ended child would have been reaped above
        if self._process is not None and is_alive(self._process):
            return True
        # The pid file of another version may not name the process that has the lock.
        return bool(self.foreign) and self._is_locked()

    def _is_locked(self) -> bool:
        """Whether a driver has the lock; also True where that cannot be told."""
        try:
            handle = open_regular(self._lock, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            return not try_lock(handle, self._lock)
        except UserError:
            return True  # it cannot be told: there must never be two drivers
        finally:
            os.close(handle)
