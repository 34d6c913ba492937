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
    how: the number of a signal, or ``group`` (:data:`GROUP`). A process that has ended before its
    line was read is not among them.
    """
    watched: dict[int, tuple[ProcessId, str]] = {}
    for line in lines:
        match line.split():
            case ["+", pid, manner]:
                if (process := identify(int(pid))) is not None:
                    watched[int(pid)] = (process, manner)
            case ["-", pid]:
                watched.pop(int(pid), None)
    return dict(watched.values())


def end(watched: Mapping[ProcessId, str]) -> None:
    """End the processes that :func:`remaining` has returned: groups are killed, other processes get
    their signals.
    """
    by_signal: dict[str, list[ProcessId]] = {}
    for process, manner in watched.items():
        if manner != GROUP:
            by_signal.setdefault(manner, []).append(process)
        elif is_alive(process):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    for number, processes in by_signal.items():
        end_all(processes, signal.Signals(int(number)))


class Reaper:
    """The driver's end of the pipe: starts the reaper, and tells it which processes to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        argv = module_command("bftrainer_drivers.common.reaper")
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            argv, cwd="/", stdin=subprocess.PIPE, start_new_session=True
        )

    def watch(self, pid: int, end_signal: signal.Signals | None) -> None:
        """Let the reaper end this process when the driver ends: by ``end_signal``
        (:attr:`DriverSettings.ends_by`), or, if that is None, by killing its group.
        """
        self._write_line(f"+ {pid} {GROUP if end_signal is None else end_signal.value}\n")

    def forget(self, pid: int) -> None:
        self._write_line(f"- {pid}\n")

    def close(self) -> None:
        """End the reaper; it kills what it still watches."""
        assert self._process.stdin is not None
        with self._lock, suppress(BrokenPipeError):  # killed, and lines for it wait in the buffer
            self._process.stdin.close()
        self._process.wait(timeout=60)  # on a busy node it may not have started yet

    def _write_line(self, line: str) -> None:
        """Send a line to the reaper; do nothing if it has ended."""
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
