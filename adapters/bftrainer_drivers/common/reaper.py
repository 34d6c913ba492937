"""Ends a dead driver's workers: a child of the driver that waits for the end of its standard input.

A driver that is killed cannot end its workers, and no process would tell them of changes of nodes.
The kernel closes the pipe in any case. Lines: ``+ PID SIGNAL`` (to be ended by it), ``+ PID group``
(to be killed with its group), ``- PID`` (has ended).

Run as ``python -m bftrainer_drivers.common.reaper``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress

from bftrainer.system.own_programs import module_command
from bftrainer.system.processes import ProcessId, end_all, identify, is_alive

GROUP = "group"


def remaining(lines: Iterable[str]) -> dict[ProcessId, str]:
    """Read the driver's lines to their end; return the processes that are still to be ended, and
    how: a signal's number, or ``group``.
    """
    left: dict[int, tuple[ProcessId, str]] = {}
    for line in lines:
        match line.split():
            case ["+", pid, how]:
                if (process := identify(int(pid))) is not None:
                    left[int(pid)] = (process, how)
            case ["-", pid]:
                left.pop(int(pid), None)
    return dict(left.values())


def end(left: Mapping[ProcessId, str]) -> None:
    """End the processes that :func:`remaining` has returned."""
    single: dict[str, list[ProcessId]] = {}
    for process, how in left.items():
        if how != GROUP:
            single.setdefault(how, []).append(process)
        elif is_alive(process):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    for by, processes in single.items():
        end_all(processes, signal.Signals(int(by)))


class Reaper:
    """The driver's end of the pipe: starts the reaper, and tells it which processes to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        argv = module_command("bftrainer_drivers.common.reaper")
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            argv, cwd="/", stdin=subprocess.PIPE, start_new_session=True
        )

    def watch(self, pid: int, by: signal.Signals | None) -> None:
        """Let the reaper end this process when the driver ends: by the signal ``by``
        (:attr:`DriverSettings.ends_by`), or, if that is None, by killing its group.
        """
        self._say(f"+ {pid} {GROUP if by is None else by.value}\n")

    def forget(self, pid: int) -> None:
        self._say(f"- {pid}\n")

    def close(self) -> None:
        """End the reaper; it kills what it still watches."""
        assert self._process.stdin is not None
        with self._lock, suppress(BrokenPipeError):  # killed, and lines for it wait in the buffer
            self._process.stdin.close()
        self._process.wait(timeout=60)  # on a busy node it may not have started yet

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with self._lock:
            try:
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError):
                return  # killed or closed: nothing ends the workers of a driver that dies now


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end(remaining(sys.stdin))
