"""``driver.pid``: which process the driver is, so that a pilot that starts finds the drivers of the
one before.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer.system.processes import ProcessId, identify, this_process
from bftrainer.wires.typed_json import (
    OtherVersionError,
    from_fields,
    read_json,
    read_object,
    write_json,
)

MAX_PID = 2**22 + 1
"""Linux gives no process a larger number (proc(5), pid_max)."""


@dataclass(frozen=True, slots=True)
class DriverPid:
    """A driver's process. ``start_ticks``: field 22 of ``/proc/PID/stat`` (proc(5)), clock ticks
    from boot to the start of the process.
    """

    pid: int
    start_ticks: int
    host: str


def write_own_pid(path: Path) -> int:
    """Write ``driver.pid`` for the calling process; return its pid."""
    process = this_process()
    write_json(path, DriverPid(process.pid, int(_start_ticks(process)), socket.gethostname()))
    return process.pid


def read_driver_pid(path: Path) -> ProcessId | None:
    """Return the process that ``driver.pid`` names, which may have ended; None if the file is
    missing, damaged or of another host.

    Raises :class:`OtherVersionError`: a driver that speaks another version cannot be adopted.
    """
    try:
        return _recorded_process(read_json(DriverPid, path))
    except OtherVersionError:
        raise
    except InputFileError:
        return None


def driver_of_any_version(path: Path) -> ProcessId | None:
    """Return the process that ``driver.pid`` names, whatever version of bftrainer wrote the file;
    it may have ended. None if the file cannot be understood.
    """
    try:
        return _recorded_process(from_fields(DriverPid, read_object(path), str(path)))
    except InputFileError:
        return None


def _recorded_process(record: DriverPid) -> ProcessId | None:
    """Return the process of a record; None if it is of another host, or its pid is impossible. A
    process that has ended gets a start time that no live process has.
    """
    if record.host != socket.gethostname() or not 0 < record.pid < MAX_PID:
        return None
    process = identify(record.pid)  # another one may have its pid by now
    if process is not None and _start_ticks(process) == str(record.start_ticks):
        return process
    return ProcessId(record.pid, f"{record.start_ticks}@ended")


def _start_ticks(process: ProcessId) -> str:
    """Return the clock ticks from boot to the start of a process."""
    return process.started.partition("@")[0]
