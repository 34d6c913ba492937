"""The exceptions of bftrainer::

BFTrainerError                    exit status 1: an internal or external failure
├── UserError                     exit status 2: the message says what, where and what is expected
│   ├── InvalidValueError         a value breaks a rule of the model; file and line are not known
│   ├── InputFileError            the same with its location: file, line or key
│   ├── UnknownNameError          a name that is not on the list; the message has the list
│   ├── NoFeasibleCountsError     no allocation satisfies the legal sizes of all trainers
│   ├── StateDirError             a state directory is unsafe, in use, or of another version
│   │   └── DirectoryInUseError   another pilot uses it
│   ├── UndecidedError            a program cannot decide; has the option by which the user does
│   ├── WindowsUnknownError       the site hides the jobs that end windows
│   └── TrainerFailedError        no result: the trainer failed, was canceled or rejected
├── WaitTimeoutError              a trainer has not ended in time; also a TimeoutError
├── SolverError                   a solver has no usable answer; has the Reason
├── StoreError                    the journal or registry could not be written or read
├── CommandError                  a program is missing, timed out or failed; has its argv
├── SchedulerError                the batch scheduler did not answer, or its answer is invalid
│   ├── UnknownStateError         it reported an unknown state, which is never treated as idle
│   └── PostponedError            it was not asked, or it refused: too many calls. No outage
├── PilotFailedError              a running pilot met a user's error; its job starts it again
├── LeaseLostError                another pilot has taken over this state directory
└── RejectedAnswerError           an answer of a solver or policy broke a rule and was not used
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import Enum

_LONGEST_MESSAGE = 2400


class BFTrainerError(Exception):
    """Root of the tree; ``exit_status`` is the exit status of the command line.

    Messages quote files and scheduler output, which may hold anything: a very long message is
    shortened.
    """

    exit_status = 1

    def __init__(self, message: str = "") -> None:
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[: _LONGEST_MESSAGE // 2]} ... {message[-_LONGEST_MESSAGE // 4 :]}"
        super().__init__(message)


class UserError(BFTrainerError):
    """The user can fix it. The message is one line."""

    exit_status = 2


class InvalidValueError(UserError, ValueError):
    """A value breaks a rule of the model. Readers of files re-raise it as :class:`InputFileError`,
    with the location.
    """


class InputFileError(UserError):
    """A file, or standard input, is invalid.

    ``where`` is ``FILE``, ``FILE:LINE`` or ``FILE: key.path``.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


_SHORT_LIST = 10


class UnknownNameError(UserError):
    """An unknown name; the message suggests the nearest valid name, and lists all of them if they
    are few or none is near.
    """

    def __init__(self, kind: str, name: str, valid: Iterable[str], where: str = "") -> None:
        known = sorted(valid)
        near = difflib.get_close_matches(name[:200], known, n=1)  # a name from a file may be long
        hint = f", did you mean {near[0]!r}?" if near else ";"
        valid_names = "" if near and len(known) > _SHORT_LIST else f" valid: {', '.join(known)}"
        place = f"{where}: " if where else ""
        super().__init__(f"{place}unknown {kind} {name!r:.80}{hint}{valid_names}")
        self.kind = kind
        self.name = name


class NoFeasibleCountsError(UserError):
    """No counts satisfy the legal sizes of all trainers within the pool."""


class UndecidedError(UserError):
    """Nothing that a program can read decides; the user has to.

    ``option`` is the command's option for the answer (``--partition``), ``choices`` are the answers
    among which to choose; none: a flag, which says yes.
    """

    def __init__(self, option: str, question: str, choices: tuple[str, ...] = ()) -> None:
        super().__init__(f"{question}; decide with {option}")
        self.option = option
        self.question = question
        self.choices = choices


class StateDirError(UserError):
    """A state directory cannot be used: wrong owner or mode, in use by another pilot, or the schema
    of a newer version.
    """


class DirectoryInUseError(StateDirError):
    """Another pilot, which may be alive, uses the state directory."""


class WindowsUnknownError(UserError):
    """Free nodes and their windows cannot be determined; the message names the hidden facts and the
    remedy.
    """


class TrainerFailedError(UserError):
    """The trainer is not done, so it has no result: it has failed, or it was canceled or
    rejected.
    """


class WaitTimeoutError(BFTrainerError, TimeoutError):
    """The trainer has not ended in time. It goes on."""


class CommandError(BFTrainerError):
    """A program is missing, timed out or failed. ``status`` is its exit status, or None if it did
    not exit by itself.
    """

    def __init__(self, argv: Iterable[str], problem: str, status: int | None = None) -> None:
        self.argv = tuple(argv)
        super().__init__(f"{self.argv[0]}: {problem}")
        self.problem = problem
        self.status = status

    @property
    def brief(self) -> str:
        """The program, and the last line that it printed, which names the cause in most cases."""
        program = self.argv[0]
        last_line = self.problem.rpartition(" / ")[2].removeprefix(f"{program}: ")
        return f"{program}: {last_line}"


class SchedulerError(BFTrainerError):
    """The batch scheduler could not be reached, or its answer is empty, truncated or otherwise
    invalid.

    ``answer`` is (argv, output) of a command whose output could not be parsed, for a bug report.
    """

    answer: tuple[tuple[str, ...], str] | None = None


class UnknownStateError(SchedulerError):
    """An unknown state ``text`` of a node or job (``kind``)."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"unknown {kind} state {text!r}")
        self.kind = kind
        self.text = text


class PostponedError(SchedulerError):
    """The scheduler was not asked, or it refused to answer, because calls are limited. It may be
    asked in ``retry_s``.
    """

    def __init__(self, message: str, retry_s: float) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class StoreError(BFTrainerError):
    """SQLite or the disk failed. What could not be written must not be carried out."""


class PilotFailedError(BFTrainerError):
    """A running pilot met what would be a user's error elsewhere; it ends, and its job script
    starts it again.
    """


class LeaseLostError(BFTrainerError):
    """The lease row names another pilot, which has taken over."""


class Reason(Enum):
    """Why the chain fell back to the next solver."""

    NO_PACKAGE = "no package"
    NO_LICENSE = "no license"
    TOO_LARGE = "too large for the license"
    TIME_LIMIT = "time limit"
    INFEASIBLE = "infeasible"
    NUMERICAL = "numerical trouble"
    REJECTED = "answer rejected by the check"


class SolverError(BFTrainerError):
    """A solver has no usable answer, for a ``reason``. Exit status 2 if the user can install or
    license the solver.
    """

    def __init__(self, solver: str, reason: Reason, detail: str) -> None:
        super().__init__(f"{solver}: {reason.value}: {detail}")
        if reason in (Reason.NO_PACKAGE, Reason.NO_LICENSE, Reason.TOO_LARGE):
            self.exit_status = UserError.exit_status  # the user can install or license it
        self.solver = solver
        self.reason = reason
        self.detail = detail


class RejectedAnswerError(BFTrainerError):
    """An answer broke a rule of the problem: a bug of the solver or policy. The answer is never
    used.
    """
