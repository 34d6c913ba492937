"""Processes identified by pid and start time, because a pid may be reused. Linux only (/proc)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

PATIENCE_S = 1.0
# Fields of /proc/PID/stat, counted after the command's closing bracket.
_FIELD_STATE = 0
_FIELD_PARENT = 1
_FIELD_START = 19


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A unique process: its pid and its start time (clock ticks since boot, boot id)."""

    pid: int
    started: str


def this_process() -> ProcessId:
    """The calling process."""
    process = identify(os.getpid())
    assert process is not None
    return process


def identify(pid: int) -> ProcessId | None:
    """Return the process that has this pid now; None if there is none, or only a zombie."""
    fields = _stat_fields(pid)
    if fields is None or fields[_FIELD_STATE] in ("Z", "X"):
        return None
    return ProcessId(pid, f"{fields[_FIELD_START]}@{_boot_id()}")


def is_alive(process: ProcessId) -> bool:
    """Whether the process is still running (a zombie is not)."""
    return identify(process.pid) == process


def send(process: ProcessId, signum: signal.Signals) -> bool:
    """Send a signal to a process, unless its pid belongs to another one by now; return whether it
    was sent.
    """
    if not is_alive(process):
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, signum)
        return True
    return False


def end_all(processes: Sequence[ProcessId], signum: signal.Signals = signal.SIGKILL) -> None:
    """End processes by a signal and wait until none is left; those that still live after
    :data:`PATIENCE_S` get SIGKILL, and then this returns without waiting, as for SIGKILL itself.

    The signal is repeated five times: a program that has just started may lose one, srun 22.05 for
    a fifth of a second.
    """
    start_s, round_count = time.monotonic(), 0
    while alive := [process for process in processes if is_alive(process)]:
        passed_s = time.monotonic() - start_s
        if signum is signal.SIGKILL or passed_s >= PATIENCE_S:
            for process in alive:
                send(process, signal.SIGKILL)
            return
        if passed_s >= round_count * PATIENCE_S / 5:
            round_count += 1
            for process in alive:
                send(process, signum)
        time.sleep(0.01)


def with_variable(name: str, value: str) -> Iterator[ProcessId]:
    """Yield all processes of this user that were started with ``name=value`` in the
    environment.

    This finds the processes of a job or trainer even if they left its session or process group. The
    calling process is not among them.
    """
    variable = f"{name}={value}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes()
        except OSError:  # it has ended, or belongs to another user
            continue
        if variable in environ.split(b"\0"):
            process = identify(int(entry.name))
            if process is not None:
                yield process


def environment_of(process: ProcessId) -> dict[str, str]:
    """Return the environment that the process was started with; empty if the process has ended or
    belongs to another user.
    """
    try:
        data = Path(f"/proc/{process.pid}/environ").read_bytes()
    except OSError:
        return {}
    items = data.decode(errors="surrogateescape").split("\0")
    variables = dict(item.partition("=")[::2] for item in items)
    # Checked after the read: else another process may have got the pid, and have been read.
    return variables if is_alive(process) else {}


def parent_of(process: ProcessId) -> int:
    """The pid of the process's parent; 0 if it is gone."""
    fields = _stat_fields(process.pid)
    return 0 if fields is None else int(fields[_FIELD_PARENT])


def _stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the command's name; None if there is no such
    process.
    """
    # Without pathlib and buffers: the pilot calls this for every driver five times a second.
    try:
        handle = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        text = os.read(handle, 4096)
    except ProcessLookupError:
        return None
    finally:
        os.close(handle)
    return text.decode(errors="replace").rpartition(")")[2].split()


@lru_cache(maxsize=1)
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
