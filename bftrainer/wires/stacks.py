"""Where a worker hangs: Python's fault handler writes the stack of a process that gets SIGABRT to
its log.
"""

from __future__ import annotations

import re
import resource
import signal
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bftrainer.system.processes import ProcessId, is_alive, send
from bftrainer.wires.log_tail import last_lines

VARIABLE = "PYTHONFAULTHANDLER"
"""With it, Python installs the fault handler at its start. Other programs ignore it, and end by the
signal.
"""
WITHIN_S = 3.0
"""A process writes its stack and ends within this time."""
_LOG_LINES, _LOG_BYTES = 400, 1 << 16
_STACK = re.compile(r".*\bCurrent thread 0x[0-9a-f]+.*\(most recent call first\):")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)')
_FAULT = "Fatal Python error: Aborted"
_WRAPPERS = frozenset({"wrapper", "inner", "decorate_context", "_wrapped_call_impl", "_call_impl"})
_MOST_CALLS = 3


class StackFrame(NamedTuple):
    """A call on a stack."""

    file: str
    line: int
    function: str

    @property
    def is_of_script(self) -> bool:
        """Whether the call is in the user's own code, not in an installed package or in Python's
        library.
        """
        return not self.file.startswith("<") and not re.search(
            r"/(site|dist)-packages/|/lib(64)?/python3", self.file
        )


def request_stacks(processes: Collection[ProcessId]) -> None:
    """Let Python processes write their stacks to their logs and end (SIGABRT); return when they
    have ended, or after :data:`WITHIN_S`. No core is written.
    """
    for process in processes:
        with suppress(OSError, ValueError):
            resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
        send(process, signal.SIGABRT)
    deadline_s = time.monotonic() + WITHIN_S
    while any(map(is_alive, processes)) and time.monotonic() < deadline_s:
        time.sleep(0.02)


def hung_at(logs: Iterable[Path]) -> str:
    """Return where a hung worker waits, as :func:`stack_text` says it, by the first log with a
    stack of the user's script; empty if no log has one.
    """
    for log in logs:
        for frames in stacks(last_lines(log, _LOG_LINES, _LOG_BYTES)):
            text = stack_text(frames)
            if text:
                return text
    return ""


def output_before_stack(log: Path) -> list[str]:
    """Return the last 20 lines that a worker wrote before the fault handler wrote its stack."""
    lines = last_lines(log, _LOG_LINES, _LOG_BYTES)
    fault_index = next((index for index, line in enumerate(lines) if _FAULT in line), len(lines))
    return lines[:fault_index][-20:]


def stacks(lines: Sequence[str]) -> list[list[StackFrame]]:
    """Parse the stacks of main threads in a log; in each, the innermost call comes first."""
    results: list[list[StackFrame]] = []
    is_in_stack = False
    for line in lines:
        frame = _FRAME.fullmatch(line)
        if _STACK.match(line):
            results.append([])
            is_in_stack = True
        elif is_in_stack and frame is not None:
            results[-1].append(StackFrame(frame["file"], int(frame["line"]), frame["function"]))
        else:
            is_in_stack = False
    return results


def stack_text(frames: Sequence[StackFrame]) -> str:
    """Describe a stack by the script's line and the calls that it made there: ``train.py:12 in
    init_process_group, rendezvous``. Empty if no call is the script's.

    ``frames`` begin with the innermost call. Without other calls, the script's function is named.
    """
    depth = next((index for index, frame in enumerate(frames) if frame.is_of_script), None)
    if depth is None:
        return ""
    script_frame = frames[depth]
    calls = [
        frame.function for frame in reversed(frames[:depth]) if frame.function not in _WRAPPERS
    ]
    place = f"{Path(script_frame.file).name}:{script_frame.line}"
    return f"{place} in {', '.join(calls[:_MOST_CALLS]) or script_frame.function}"
