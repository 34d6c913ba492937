"""Which process is meant: a pid alone is reused, a pid with its start time is not. ``driver.pid`` holds both."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer.system.files import write_atomically


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """``start_ticks``: field 22 of ``/proc/PID/stat`` (proc(5)), clock ticks after boot."""

    pid: int
    start_ticks: int
    host: str

    @property
    def alive(self) -> bool:
        """Whether it still runs on this host; a zombie does not."""
        return self.host == socket.gethostname() and identify(self.pid) == self


def identify(pid: int) -> ProcessIdentity | None:
    """Who has this pid now; None if nobody, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # Field 2 is the program's name in brackets and may itself hold spaces and brackets.
    state, *fields = stat.rpartition(")")[2].split()
    if state in ("Z", "X"):
        return None
    return ProcessIdentity(pid, int(fields[18]), socket.gethostname())


def write_own_identity(path: Path) -> ProcessIdentity:
    """Say in ``path`` who the calling process is."""
    me = identify(os.getpid())
    assert me is not None, "a running process has a /proc entry"
    value = {"version": 1, "pid": me.pid, "start_ticks": me.start_ticks, "host": me.host}
    write_atomically(path, json.dumps(value).encode())
    return me


def read_identity(path: Path) -> ProcessIdentity | None:
    """Who ``path`` speaks of; None without the file. Raises :class:`InputFileError`."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return ProcessIdentity(int(value["pid"]), int(value["start_ticks"]), str(value["host"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputFileError(str(path), f"not a pid file: {error!r}") from error
