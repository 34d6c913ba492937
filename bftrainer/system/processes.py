"""Processes by pid *and* start time: a pid alone may be another program's by now. Linux only (/proc)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_FIELD_STATE, _FIELD_START = 0, 19  # of /proc/PID/stat, counted after the command's closing bracket


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process that cannot be mistaken for another: its pid, and when it started (clock ticks since boot, boot's id)."""

    pid: int
    started: str


def this_process() -> ProcessId:
    """This one."""
    found = identify(os.getpid())
    assert found is not None
    return found


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now; None if there is none, or only its remains."""
    fields = _stat(pid)
    if fields is None or fields[_FIELD_STATE] in ("Z", "X"):
        return None
    return ProcessId(pid, f"{fields[_FIELD_START]}@{_boot_id()}")


def is_alive(process: ProcessId) -> bool:
    """Whether it still runs (a zombie does not)."""
    return identify(process.pid) == process


def send(process: ProcessId, signum: signal.Signals) -> bool:
    """Signal it if it is still the same one; whether it was."""
    if not is_alive(process):
        return False
    with suppress(ProcessLookupError):
        os.kill(process.pid, signum)
        return True
    return False


def with_variable(name: str, value: str) -> Iterator[ProcessId]:
    """Every process of ours whose environment at its start had ``name=value``: children, grandchildren, setsid or not."""
    wanted = f"{name}={value}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue
        if wanted in environ.split(b"\0") and (found := identify(int(entry.name))) is not None:
            yield found


def _stat(pid: int) -> list[str] | None:
    # Without pathlib and buffers: the pilot asks this of every driver five times a second.
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
