"""How a trainer ended, from how its workers ended. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
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
MAX_ERRORS = 3
"""Groups in succession that a script may end with an error."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a worker. ``status``: exit status, or minus the signal."""

    status: int
    is_planned: bool
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
    def is_lost(self) -> bool:
        """Whether the worker was ended by a signal, here or (as shells and srun report it) on its
        node: a lost node rather than a bug.
        """
        return not (self.is_planned or self.out_of_memory) and (
            self.status < 0 or self.status > 128
        )

    @property
    def has_failed(self) -> bool:
        """Whether the worker ended on its own, with an error."""
        is_error = 0 < self.status < 128 and self.status != STOPPED_STATUS
        return not self.is_planned and (self.out_of_memory or is_error)

    def __str__(self) -> str:
        number = -self.status if self.status < 0 else self.status - 128
        if self.is_lost and number in {item.value for item in signal.Signals}:
            return f"ended by {signal.Signals(number).name}"
        return f"ended with status {self.status}"

    @property
    def description(self) -> str:
        """How the worker ended and, if it failed, its exception: for events that have no tail of
        the log.
        """
        return f"{self}: {self.error}" if self.error and self.has_failed else str(self)


def exit_of(status: int, planned: bool, log: Path, node: str = "", slot: int = 0) -> Exit:
    """Return the end of a worker with exit status ``status`` (or minus the signal). Unless it was
    planned or regular, it carries what the log says about the reason. A step that srun could not
    start, because the holder job has ended or slurmctld does not answer, counts as lost.
    """
    if planned or status in (0, STOPPED_STATUS):
        return Exit(status, planned, log, node=node, slot=slot)
    if status == 1 and has_no_holder(last_lines(log)):
        return Exit(LOST_STATUS, planned, log, node=node, slot=slot)
    is_killed = abs(status) in (signal.SIGKILL, LOST_STATUS)
    return Exit(
        status,
        planned,
        log,
        error=last_exception(log),
        node=node,
        slot=slot,
        out_of_memory=is_killed and oom_killed(last_lines(log)),
        met_stranger=any(line.startswith(CLOSED) for line in last_lines(log, count=1000)),
    )


def was_taken(status: int) -> bool:
    """Whether a worker with this status was ended by another process's signal, here or in its step
    (as srun and shells report it): it was preempted, or there was no memory.

    A worker's own abort or crash does not count: torch aborts workers whose peers have gone (NCCL's
    watchdog; with gloo, one of several hundred requested exits: SIGABRT, torch 2.13). Their nodes
    are not to blame.
    """
    number = -status if status < 0 else status - 128
    return number > 0 and number not in _OWN


@dataclass(frozen=True, slots=True)
class _GroupErrors:
    """When a group formed, how many groups before it have failed in succession (with itself, once
    it has failed), and whether it has failed.
    """

    formed_s: float
    in_succession: int
    has_failed: bool


@dataclass(slots=True)
class ScriptErrors:
    """Counts groups that fail in succession, to recognize a script that fails in every group: the
    others go on without the failed worker, and fail again.

    An error that comes once, such as that of a broken GPU, costs one node. One that comes in each
    of MAX_ERRORS groups in succession, within ``soon_s`` of the group's beginning, is the script's
    own: further nodes would be lost to it.
    """

    soon_s: float
    _group: _GroupErrors = _GroupErrors(0.0, 0, has_failed=False)
    _previous: _GroupErrors = _GroupErrors(0.0, 0, has_failed=True)
    """The group before: an error of it may be told after the next group has formed."""

    def note_group(self, now_s: float) -> None:
        """Record that a new group has formed."""
        self._previous = self._group
        # A group that ended without an error breaks the succession.
        in_succession = self._group.in_succession if self._group.has_failed else 0
        self._group = _GroupErrors(now_s, in_succession, has_failed=False)

    def note_exit(self, end: Exit, now_s: float, *, is_of_previous_group: bool = False) -> bool:
        """Record the end of a worker; return whether the script counts as failed. A group counts
        once, by its first error. ``is_of_previous_group``: the worker belonged to the group before
        the present one.
        """
        group = self._previous if is_of_previous_group else self._group
        if end.has_failed and not group.has_failed:
            is_soon = now_s - group.formed_s < self.soon_s
            in_succession = group.in_succession + 1 if is_soon else 1
            if is_of_previous_group:
                self._previous = replace(group, has_failed=True)
                # The present group follows the failed one; its own error counts as well.
                in_succession += self._group.has_failed
                self._group = replace(self._group, in_succession=in_succession)
            else:
                self._group = replace(group, in_succession=in_succession, has_failed=True)
        return self._group.in_succession >= MAX_ERRORS


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
