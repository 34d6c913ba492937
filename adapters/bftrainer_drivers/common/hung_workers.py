"""Where the workers of a hung trainer wait: their stacks, and the end of their output before them.

A Python process writes its stack to its log on SIGABRT, where PYTHONFAULTHANDLER was set at its
start (``bftrainer.wires.stacks``). The signal is sent on the node, by a command behind the
trainer's prefix: srun forwards no SIGABRT (22.05), and dies of it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from bftrainer.wires.environment import TRAINER_DIR
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.stacks import hung_at, output_before_stack
from bftrainer_drivers.common.command_line import filled_prefix
from bftrainer_drivers.common.outcome import DriverOutcome

SIGNAL_TIMEOUT_S = 10.0
"""The commands on the nodes may take so long; then the workers are killed without stacks."""
_STACK_TIMEOUT_S = 3.0
_MAX_HOSTS = 16
"""Stacks of so many hosts show where a group waits."""
_ABORT = f"""
for process in /proc/[0-9]*; do
    read -r name 2>/dev/null <"$process/comm" || continue
    case "$name" in python*) ;; *) continue ;; esac
    tr '\\0' '\\n' 2>/dev/null <"$process/environ" | grep -qxF "{TRAINER_DIR}=$1" || continue
    kill -ABRT "${{process#/proc/}}" 2>/dev/null
done
"""


def request_stacks(hosts: Iterable[HostSlots], prefix: Sequence[str], directory: Path) -> None:
    """Let the Python workers on these hosts write their stacks to their logs and end; return within
    :data:`SIGNAL_TIMEOUT_S`. ``directory`` is the trainer's: its workers name it in their
    environment.
    """
    deadline_s = time.monotonic() + SIGNAL_TIMEOUT_S
    signalers: list[subprocess.Popen[bytes]] = []
    for host in list(hosts)[:_MAX_HOSTS]:
        command = ["/bin/bash", "-c", _ABORT, "bftrainer-stacks", str(directory)]
        signalers.append(
            subprocess.Popen(  # noqa: S603 - our own command
                [*filled_prefix(prefix, host), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
    for signaler in signalers:
        try:
            signaler.wait(max(deadline_s - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            signaler.terminate()  # SIGKILL of srun would leave its step


def with_stack(
    outcome: DriverOutcome, logs: Sequence[Path], wait_s: float = _STACK_TIMEOUT_S
) -> DriverOutcome:
    """Return the outcome of a hang with the place where a worker waits and the last output of the
    first log that has any before its stack. Wait ``wait_s`` at most until a stack is in a log.
    """
    deadline_s = time.monotonic() + wait_s
    while not (place := hung_at(logs)) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    outputs = [lines for lines in map(output_before_stack, logs) if lines]
    reason = f"{outcome.reason}; a worker waits at {place}" if place else outcome.reason
    return replace(outcome, reason=reason, tail=tuple(outputs[0]) if outputs else ())
