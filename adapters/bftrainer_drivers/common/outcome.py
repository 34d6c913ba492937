"""How a trainer ended, from how its workers ended. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from bftrainer.wires.control import STOPPED_STATUS
from bftrainer.wires.driver_events import Done, Failed, Stopped
from bftrainer.wires.log_tail import has_no_holder, last_exception, last_lines, oom_killed
from bftrainer.wires.reports import Ending
from bftrainer_drivers.common.vouching import CLOSED

LOST_STATUS = 128 + signal.SIGKILL
CANNOT_START = (126, 127)
"""A shell's statuses for a command that does not exist or cannot be executed."""
_OWN = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
"""The signals that a process gets for what it does itself."""
MOST_ERRORS = 3
"""Groups in succession that a script may end with an error."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a worker. ``status``: exit status, or minus the signal."""

    status: int
    planned: bool
    log: Path
    error: str = ""
    """The last exception in its log."""
    node: str = ""
    slot: int = 0
    out_of_memory: bool = False
    """Killed by the kernel for its memory, as Slurm says."""
    met_stranger: bool = False
    """It failed after it had closed a stranger's connection to its group."""

    @property
    def lost(self) -> bool:
        """Whether the worker was ended by a signal, here or (as shells and srun report it) on its
        node: a lost node rather than a bug.
        """
        return not (self.planned or self.out_of_memory) and (self.status < 0 or self.status > 128)

    @property
    def failed(self) -> bool:
        """Whether the worker ended on its own, with an error."""
        own = self.out_of_memory or (0 < self.status < 128 and self.status != STOPPED_STATUS)
        return not self.planned and own

    def __str__(self) -> str:
        number = -self.status if self.status < 0 else self.status - 128
        if self.lost and number in {item.value for item in signal.Signals}:
            return f"ended by {signal.Signals(number).name}"
        return f"ended with status {self.status}"

    @property
    def told(self) -> str:
        """How the worker ended and, if it failed, its exception: for events that have no tail of
        the log.
        """
        return f"{self}: {self.error}" if self.error and self.failed else str(self)


def exit_of(status: int, planned: bool, log: Path, node: str = "", slot: int = 0) -> Exit:
    """Return the end of a worker; if it did not end well, with what its log says about the
    reason.
    """
    well = planned or status in (0, STOPPED_STATUS)
    if status == 1 and not planned and has_no_holder(last_lines(log)):
        return Exit(LOST_STATUS, planned, log, "", node, slot)
    killed = (
        not planned and abs(status) in (signal.SIGKILL, LOST_STATUS) and oom_killed(last_lines(log))
    )
    if well:
        return Exit(status, planned, log, "", node, slot)
    stranger = any(line.startswith(CLOSED) for line in last_lines(log, count=1000))
    return Exit(status, planned, log, last_exception(log), node, slot, killed, stranger)


def was_taken(status: int) -> bool:
    """Whether a worker with this status was ended by another process's signal, here or in its step
    (as srun and shells report it): it was preempted, or there was no memory.

    A worker's own abort or crash does not count: torch aborts workers whose peers have gone (NCCL's
    watchdog; with gloo, one of several hundred requested exits: SIGABRT, torch 2.13). Their nodes
    are not to blame.
    """
    number = -status if status < 0 else status - 128
    return number > 0 and number not in _OWN


@dataclass(slots=True)
class ScriptErrors:
    """Finds a script that fails in every group: the others go on without the failed worker, and
    fail again.

    An error that comes once, such as that of a broken GPU, costs one node. One that comes in each
    of MOST_ERRORS groups in succession, within ``soon_s`` of the group's beginning, is the script's
    own: further nodes would be lost to it.
    """

    soon_s: float
    _formed_s: float = 0.0
    _in_succession: int = 0
    _counted: bool = False
    _last: tuple[float, int, bool] = (0.0, 0, True)
    """(``_formed_s``, ``_in_succession``, ``_counted``) of the group before: an error of it may be
    told after the next group has formed.
    """

    def formed(self, now_s: float) -> None:
        """Note that a new group has formed."""
        self._last = (self._formed_s, self._in_succession, self._counted)
        if not self._counted:
            self._in_succession = 0  # the last group ended without an error
        self._formed_s, self._counted = now_s, False

    def ended(self, end: Exit, now_s: float, *, of_last: bool = False) -> bool:
        """Note the end of a worker; return whether the script counts as failed. ``of_last``: the
        worker belonged to the group before the present one.
        """
        formed_s, before, counted = (
            self._last if of_last else (self._formed_s, self._in_succession, self._counted)
        )
        if end.failed and not counted:
            self._in_succession = before + 1 if now_s - formed_s < self.soon_s else 1
            if of_last:
                self._last = (formed_s, before, True)
                self._in_succession += self._counted
            else:
                self._counted = True
        return self._in_succession >= MOST_ERRORS


@dataclass(frozen=True, slots=True)
class DriverOutcome:
    """How the driver ends."""

    ending: Ending
    reason: str = ""
    status: int = 0
    log: Path | None = None
    tail: tuple[str, ...] | None = None
    """The last output to show. Default: the end of ``log``."""

    def event(self, checkpointed: bool) -> Stopped | Failed | Done:
        """Return the driver's last event, which says how it ended."""
        if self.ending is Ending.STOPPED:
            return Stopped(self.reason, checkpointed)
        if self.ending is Ending.FAILED:
            return Failed(self.reason, self.status, self._last_output())
        return Done()

    def _last_output(self) -> tuple[str, ...]:
        if self.tail is not None:
            return self.tail
        return () if self.log is None else tuple(last_lines(self.log))

    @property
    def exit_status(self) -> int:
        return {Ending.DONE: 0, Ending.STOPPED: STOPPED_STATUS}.get(self.ending, 1)
