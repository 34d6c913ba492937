"""Ends a dead driver's workers: a child of the driver that waits for the end of its standard input.

A driver that is killed cannot end its workers, and no process would tell them of changes of nodes. The kernel closes the pipe
in any case. Lines: ``+ PID process`` or ``+ PID group`` (to be killed), ``- PID`` (has ended).

Run as ``python -m bftrainer_adapters.drivers.common.reaper``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable

from bftrainer.system.processes import ProcessId, identify


def remaining(lines: Iterable[str]) -> dict[ProcessId, bool]:
    """Read all lines; the processes that are left to kill, and whether as a group."""
    left: dict[int, tuple[ProcessId, bool]] = {}
    for line in lines:
        match line.split():
            case ["+", pid, how]:
                if (found := identify(int(pid))) is not None:
                    left[int(pid)] = (found, how == "group")
            case ["-", pid]:
                left.pop(int(pid), None)
    return dict(left.values())


def kill(identity: ProcessId, as_group: bool) -> None:
    """SIGKILL, unless the process has ended.

    Only srun itself is killed, never its group: Slurm then ends the step within 0.1 s. Without the helper process of its
    srun the step is orphaned and continues (22.05.8).
    """
    if identify(identity.pid) != identity:
        return
    try:
        (os.killpg if as_group else os.kill)(identity.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class Reaper:
    """The driver's end of the pipe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        argv = [sys.executable, "-m", "bftrainer_adapters.drivers.common.reaper"]
        self._process = subprocess.Popen(argv, cwd="/", stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603  # our own program

    def watch(self, pid: int, as_group: bool) -> None:
        """End this process when the driver ends."""
        self._say(f"+ {pid} {'group' if as_group else 'process'}\n")

    def forget(self, pid: int) -> None:
        self._say(f"- {pid}\n")

    def close(self) -> None:
        """End the reaper; it kills what it still watches."""
        assert self._process.stdin is not None
        with self._lock:
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
    for one, group in remaining(sys.stdin).items():
        kill(one, group)
