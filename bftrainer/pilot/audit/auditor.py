"""The pilot's side of the audit: it starts the process, sends it problems, and reads what differs.

Nothing here waits. Problems are sent through a pipe that never blocks, one at a time when the last
one is done; those for which there is no time are counted. Whatever happens to the process, the
pilot goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bftrainer.config.pilot import DecisionsConfig
from bftrainer.config.problem_file import document_of
from bftrainer.decide.allocation.recording import Solved
from bftrainer.decide.domain.problem import Problem, Status
from bftrainer.pilot.audit.totals import AUDIT_LOG
from bftrainer.system.clock import Clock
from bftrainer.system.json_tail import JsonTail
from bftrainer.system.own_programs import module_command

NOTE = "audit"
"""The kind of the audit's lines in the event log."""
ERRORS = "audit.err"
"""What the process printed, in the state directory."""
START_AFTER_S = 60.0
"""The audit starts so long after the first decision: a pilot that has just started has more
important work.
"""
_START_AGAIN_S = 600.0
_MOST_WAITING = 200
_MODULE = "bftrainer.pilot.audit.process"


class Audit(Protocol):
    """What a pilot does with an audit. ``tick`` returns lines for the event log."""

    def decided(self, number: int, solved: Iterable[Solved]) -> None: ...

    def tick(self, config: DecisionsConfig) -> Sequence[str]: ...

    def close(self) -> None: ...


class NoAudit:
    """No audit: for pilots in memory."""

    def decided(self, number: int, solved: Iterable[Solved]) -> None: ...

    def tick(self, config: DecisionsConfig) -> Sequence[str]:
        return ()

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An answer of a decision that has not been sent yet."""

    decision: int
    place: int
    problem: Problem
    value: float


class Auditor:
    """Audits the decisions of a pilot in a process of its own."""

    def __init__(self, state_dir: Path, clock: Clock, start_after_s: float = START_AFTER_S) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self._start_after_s = start_after_s
        self._waiting: deque[_Waiting] = deque()
        self._dropped = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._started_with: tuple[float, bool] | None = None
        self._not_before_s: float | None = None  # None: nothing was decided yet
        self._unsent = b""
        self._is_busy = False
        self._lines = JsonTail(state_dir / AUDIT_LOG)

    def decided(self, number: int, solved: Iterable[Solved]) -> None:
        """Queue the proven answers behind the decision ``number`` of the journal, to be compared
        later. Of too many, the oldest are dropped.
        """
        for place, (problem, answer) in enumerate(solved):
            if answer.status is Status.OPTIMAL:
                waiting = _Waiting(number, place, problem, answer.objective_value)
                self._waiting.append(waiting)
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft()
            self._dropped += 1
        if self._not_before_s is None:
            self._not_before_s = self._clock.elapsed_s() + self._start_after_s

    def tick(self, config: DecisionsConfig) -> Sequence[str]:
        """Start the process if it is time, send the next problem, and read what has come out."""
        wanted = config.audit_share, config.restricted_license
        if self._process is not None and self._started_with != wanted:
            self.close()
        if not config.audit_share:
            self._waiting.clear()
            return ()
        notes: list[str] = []
        try:
            notes += self._ended()
            if self._process is None and self._is_due():
                self._start(wanted)
            notes += self._differing()
            if self._process is not None:
                self._send()
        except OSError as error:
            notes += self._given_up(f"{error.strerror or error}")
        return notes

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None, "it was started with a pipe"
        process.kill()
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):  # a file system that hangs keeps no pilot
            process.wait(1.0)
        self._unsent, self._is_busy = b"", False

    def _is_due(self) -> bool:
        return (
            bool(self._waiting)
            and self._not_before_s is not None
            and self._clock.elapsed_s() >= self._not_before_s
        )

    def _start(self, wanted: tuple[float, bool]) -> None:
        """Start the process of the audit with the ``wanted`` settings: its share of a core, and
        whether Gurobi's license in its package may be used.
        """
        share, restricted = wanted
        self._lines.skip()  # what earlier audits found was told then
        arguments = (str(self._state_dir), repr(share), str(int(restricted)))
        with (self._state_dir / ERRORS).open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603  # our own program
                module_command(_MODULE, *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
        assert process.stdin is not None, "it was started with a pipe"
        os.set_blocking(process.stdin.fileno(), False)
        self._process, self._started_with = process, wanted

    def _ended(self) -> list[str]:
        if self._process is None or (status := self._process.poll()) is None:
            return []
        return self._given_up(f"its process ended with status {status}")

    def _given_up(self, cause: str) -> list[str]:
        """Stop the audit and try again later. Returns a line for the event log; decisions go on
        without it.
        """
        self.close()
        self._not_before_s = self._clock.elapsed_s() + _START_AGAIN_S
        return [
            f"stopped for {_START_AGAIN_S / 60:g} minutes: {cause} (see {ERRORS}); decisions do "
            "not depend on it"
        ]

    def _send(self) -> None:
        """Send the next problem if the process has done the last one, or the rest of one, as far as
        the pipe takes it.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        if not self._unsent and not self._is_busy and self._waiting:
            self._unsent, self._is_busy = self._message(self._waiting.popleft()), True
            self._dropped = 0
        if self._unsent:
            with suppress(BlockingIOError):
                sent = os.write(self._process.stdin.fileno(), self._unsent)
                self._unsent = self._unsent[sent:]

    def _message(self, waiting: _Waiting) -> bytes:
        """Return an answer with its problem as one line of JSON for the process of the audit."""
        message = {
            "decision": waiting.decision,
            "place": waiting.place,
            "value": waiting.value,
            "dropped": self._dropped,
            "problem": document_of(waiting.problem),
        }
        return f"{json.dumps(message)}\n".encode()

    def _differing(self) -> list[str]:
        """Read the audit's new lines. Returns a line for the event log about each answer that
        differs.
        """
        notes: list[str] = []
        if not self._is_busy or self._lines.is_read():
            return notes
        for line in self._lines.read():
            self._is_busy = False
            if line.get("result") == "differs":
                where = line.get("problem")
                kept = f"; for a bug report, the problem is in {where}" if where else ""
                notes.append(f"decision {line.get('decision')}: {line.get('reason')}{kept}")
        return notes
