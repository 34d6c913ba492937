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
_MAX_QUEUED = 200
_MODULE = "bftrainer.pilot.audit.process"


class Audit(Protocol):
    """What a pilot does with an audit.

    ``decided`` queues the answers of a decision, ``tick`` is called in every tick of the loop and
    returns lines for the event log, ``close`` ends the audit's process.
    """

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
class _QueuedAnswer:
    """An answer of a decision that has not been sent to the process yet.

    ``place``: its index among the answers of the decision. ``value``: its objective value.
    """

    decision: int
    place: int
    problem: Problem
    value: float


class Auditor:
    """Audits the decisions of a pilot in a process of its own."""

    def __init__(self, state_dir: Path, clock: Clock, start_after_s: float = START_AFTER_S) -> None:
        """Prepare the audit of the pilot in ``state_dir``; no process is started yet.

        The process starts ``start_after_s`` seconds of ``clock`` after the first decision.
        """
        self._state_dir = state_dir
        self._clock = clock
        self._start_after_s = start_after_s
        self._queue: deque[_QueuedAnswer] = deque()
        self._dropped_count = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._process_settings: tuple[float, bool] | None = None
        self._start_at_s: float | None = None  # None: nothing was decided yet
        self._unsent_bytes = b""
        self._is_busy = False  # a problem was sent, or begun to be, and its result was not read
        self._lines = JsonTail(state_dir / AUDIT_LOG)

    def decided(self, number: int, solved: Iterable[Solved]) -> None:
        """Queue the answers behind the decision ``number`` of the journal, to be compared with the
        MILP later.

        ``solved`` has each problem with the answer of the pilot's solver. Only answers that are
        said to be optimal are queued; of too many, the oldest are dropped.
        """
        for place, (problem, answer) in enumerate(solved):
            # An answer that is not said to be optimal may differ from the optimum.
            if answer.status is Status.OPTIMAL:
                self._queue.append(
                    _QueuedAnswer(
                        decision=number,
                        place=place,
                        problem=problem,
                        value=answer.objective_value,
                    )
                )
        while len(self._queue) > _MAX_QUEUED:
            self._queue.popleft()
            self._dropped_count += 1
        if self._start_at_s is None:
            self._start_at_s = self._clock.elapsed_s() + self._start_after_s

    def tick(self, config: DecisionsConfig) -> Sequence[str]:
        """Start the process of the audit if it is time, read its new results, and send the next
        problem; return lines for the event log.

        Called in every round of the pilot's loop. An error of the operating system suspends the
        audit for some minutes, and decisions go on.
        """
        settings = config.audit_share, config.restricted_license
        if self._process is not None and self._process_settings != settings:
            self.close()  # started again below, with the settings of the reloaded configuration
        # A share of 0: no audit.
        if not config.audit_share:
            self._queue.clear()
            return ()
        notes: list[str] = []
        try:
            notes += self._check_process()
            if self._process is None and self._is_due():
                self._start_process(settings)
            notes += self._read_results()
            if self._process is not None:
                self._send_problem()
        except OSError as error:
            notes += self._suspend_audit(f"{error.strerror or error}")
        return notes

    def close(self) -> None:
        """End the process, if one runs. The answer that it was comparing is lost."""
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None, "it was started with a pipe"
        process.kill()
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):  # a file system that hangs keeps no pilot
            process.wait(1.0)
        self._unsent_bytes, self._is_busy = b"", False

    def _is_due(self) -> bool:
        return (
            bool(self._queue)
            and self._start_at_s is not None
            and self._clock.elapsed_s() >= self._start_at_s
        )

    def _start_process(self, settings: tuple[float, bool]) -> None:
        """Start the process of the audit with these ``settings``: its share of a CPU core, and
        whether the license that the package gurobipy contains may be used.
        """
        share, restricted = settings
        self._lines.skip()  # the event log has the results of earlier audits
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
        # A write that would wait for the process raises BlockingIOError instead.
        os.set_blocking(process.stdin.fileno(), False)
        self._process, self._process_settings = process, settings

    def _check_process(self) -> list[str]:
        """Suspend the audit if its process has ended by itself. Returns a line for the event log
        then, else none.
        """
        if self._process is None or (status := self._process.poll()) is None:
            return []
        return self._suspend_audit(f"its process ended with status {status}")

    def _suspend_audit(self, cause: str) -> list[str]:
        """Stop the audit for ``_START_AGAIN_S`` seconds. Returns the line for the event log, with
        the ``cause``; decisions go on without the audit.
        """
        self.close()
        self._start_at_s = self._clock.elapsed_s() + _START_AGAIN_S
        return [
            f"stopped for {_START_AGAIN_S / 60:g} minutes: {cause} (see {ERRORS}); decisions do "
            "not depend on it"
        ]

    def _send_problem(self) -> None:
        """Write to the process as much as its pipe takes: the rest of the last problem or, once the
        result of that was read, the next problem. Call only while the process runs.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        if not self._unsent_bytes and not self._is_busy and self._queue:
            self._unsent_bytes, self._is_busy = self._problem_line(self._queue.popleft()), True
            self._dropped_count = 0  # the message tells the process how many there were
        if self._unsent_bytes:
            with suppress(BlockingIOError):
                sent = os.write(self._process.stdin.fileno(), self._unsent_bytes)
                self._unsent_bytes = self._unsent_bytes[sent:]

    def _problem_line(self, answer: _QueuedAnswer) -> bytes:
        """Return a queued answer and its problem as one line of JSON for the process of the audit,
        with the number of answers that were dropped since the last line.
        """
        message = {
            "decision": answer.decision,
            "place": answer.place,
            "value": answer.value,
            "dropped": self._dropped_count,
            "problem": document_of(answer.problem),
        }
        return f"{json.dumps(message)}\n".encode()

    def _read_results(self) -> list[str]:
        """Read the audit's new lines. Returns a line for the event log about each answer that
        differs.
        """
        notes: list[str] = []
        # Without a problem under way there is no result; is_read sees cheaply that the file has not
        # grown.
        if not self._is_busy or self._lines.is_read():
            return notes
        for line in self._lines.read():
            self._is_busy = False  # one line per problem, and one problem at a time
            if line.get("result") == "differs":
                file = line.get("problem")
                hint = f"; for a bug report, the problem is in {file}" if file else ""
                notes.append(f"decision {line.get('decision')}: {line.get('reason')}{hint}")
        return notes
