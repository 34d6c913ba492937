"""Every error that bftrainer raises on purpose::

BFTrainerError                    exit status 1: ours
├── UserError                     exit status 2: the user's to mend; the text says what, where and what was expected
│   ├── InvalidValueError         a value breaks a rule of the model (no place known yet)
│   ├── InputFileError            the same with its place: file, line or key
│   ├── UnknownNameError          a name that is not on the list; carries the list
│   ├── NoFeasibleCountsError     no allocation satisfies the trainers' legal sizes
│   ├── StateDirError             a state directory is unsafe, in use by another pilot, or of another version
│   └── WindowsUnknownError       the site hides the jobs that end windows, and no assume_window_s is set
├── SolverError                   a solver gave no usable answer; carries the Reason for the fallback
├── StoreError                    the journal or registry could not be written or read: the disk, not the user
├── CommandError                  a program is not there, took too long or failed; carries its argv and last words
├── SchedulerError                the batch scheduler did not answer, or not in a way that is understood
│   └── UnknownStateError         it used a state that nobody here knows; never taken for idle
├── LeaseLostError                another pilot has taken over this state directory; touch nothing more
└── RejectedAnswerError           an answer (of a solver or policy) broke a rule and was not used
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import Enum


class BFTrainerError(Exception):
    """Root of the tree; ``exit_status`` is what the command line ends with."""

    exit_status = 1


class UserError(BFTrainerError):
    """Something that the user can mend; the message is one line."""

    exit_status = 2


class InvalidValueError(UserError, ValueError):
    """A value breaks a rule of the model. Whoever knows the file and line re-raises it as :class:`InputFileError`."""


class InputFileError(UserError):
    """A file (or standard input) is not what it should be.

    ``where`` is ``FILE``, ``FILE:LINE`` or ``FILE: key.path``.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class UnknownNameError(UserError):
    """A name that nobody answers to; the message lists the valid ones and the nearest."""

    def __init__(self, kind: str, name: str, valid: Iterable[str], where: str = "") -> None:
        known = sorted(valid)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f", did you mean {near[0]!r}?" if near else ";"
        place = f"{where}: " if where else ""
        super().__init__(f"{place}unknown {kind} {name!r}{hint} valid: {', '.join(known)}")
        self.kind = kind
        self.name = name


class NoFeasibleCountsError(UserError):
    """No vector of counts satisfies every trainer's legal sizes within the pool."""


class StateDirError(UserError):
    """A state directory cannot be used: its owner or mode, another pilot in it, a newer program's schema."""


class WindowsUnknownError(UserError):
    """Which nodes are free, and until when, cannot be seen; the text says what the site hides and what to set."""


class CommandError(BFTrainerError):
    """A program that was run is not there, took too long or failed. ``status`` is None where it did not end by itself."""

    def __init__(self, argv: Iterable[str], problem: str, status: int | None = None) -> None:
        self.argv = tuple(argv)
        super().__init__(f"{self.argv[0]}: {problem}")
        self.problem = problem
        self.status = status


class SchedulerError(BFTrainerError):
    """The batch scheduler could not be asked, or its answer is empty, cut short or otherwise not to be trusted.

    ``answer`` is (argv, output) where a command answered and was not understood, to be kept and sent in.
    """

    answer: tuple[tuple[str, ...], str] | None = None


class UnknownStateError(SchedulerError):
    """A state's text is not known; ``kind`` is ``node`` or ``job``."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"unknown {kind} state {text!r}")
        self.kind = kind
        self.text = text


class StoreError(BFTrainerError):
    """SQLite or the disk failed. Nothing that was to be written may be carried out."""


class LeaseLostError(BFTrainerError):
    """The lease row names another pilot: this one has been given up for dead."""


class Reason(Enum):
    """Why a solver's turn passed to the next one of the chain."""

    NO_PACKAGE = "no package"
    NO_LICENSE = "no license"
    TOO_LARGE = "too large for the license"
    TIME_LIMIT = "time limit"
    INFEASIBLE = "infeasible"
    NUMERICAL = "numerical trouble"
    REJECTED = "answer rejected by the check"


class SolverError(BFTrainerError):
    """A solver has no usable answer, and why. One that is not there, or not for this size, is the user's to get."""

    def __init__(self, solver: str, reason: Reason, detail: str) -> None:
        super().__init__(f"{solver}: {reason.value}: {detail}")
        if reason in (Reason.NO_PACKAGE, Reason.NO_LICENSE, Reason.TOO_LARGE):
            self.exit_status = UserError.exit_status  # the user asked for it and can get it
        self.solver = solver
        self.reason = reason
        self.detail = detail


class RejectedAnswerError(BFTrainerError):
    """An answer broke a rule of the problem; it is a bug of the solver or policy, never passed on."""
