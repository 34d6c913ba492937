"""How a trainer ended, from how its workers ended. Pure."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bftrainer.protocol.control import STOPPED_STATUS
from bftrainer.protocol.events import Done, Failed, Stopped
from bftrainer.protocol.reports import Ending
from bftrainer_adapters.drivers.common.logs import last_lines

CANNOT_START = (126, 127)
"""What a shell says where the command does not exist, or is no program."""


@dataclass(frozen=True, slots=True)
class Exit:
    """One worker's end. ``status``: exit status, or minus the signal."""

    status: int
    planned: bool
    log: Path

    @property
    def lost(self) -> bool:
        """Ended by a signal, here or (as shells and srun say it) at the other end: a node that went, rather than a bug."""
        return not self.planned and (self.status < 0 or self.status > 128)

    @property
    def failed(self) -> bool:
        """Ended by itself, with an error."""
        return not self.planned and 0 < self.status < 128 and self.status != STOPPED_STATUS

    def __str__(self) -> str:
        number = -self.status if self.status < 0 else self.status - 128
        if self.lost and number in {item.value for item in signal.Signals}:
            return f"ended by {signal.Signals(number).name}"
        return f"ended with status {self.status}"


@dataclass(frozen=True, slots=True)
class DriverOutcome:
    """The driver's last line."""

    ending: Ending
    reason: str = ""
    status: int = 0
    log: Path | None = None

    def event(self, checkpointed: bool) -> Stopped | Failed | Done:
        if self.ending is Ending.STOPPED:
            return Stopped(self.reason, checkpointed)
        if self.ending is Ending.FAILED:
            return Failed(self.reason, self.status, tuple(last_lines(self.log)) if self.log is not None else ())
        return Done()

    @property
    def exit_status(self) -> int:
        """The driver's own."""
        return {Ending.DONE: 0, Ending.STOPPED: STOPPED_STATUS}.get(self.ending, 1)


def outcome(exits: Sequence[Exit], leave_reason: str | None) -> DriverOutcome:
    """After Horovod has ended: ``exits`` in order of time, ``leave_reason`` if a stop had been asked for.

    A script's own error outweighs the aborts that follow from it on other nodes; losses alone are no failure: the trainer
    goes on from its last checkpoint when there are nodes again.
    """
    if leave_reason is not None:
        return DriverOutcome(Ending.STOPPED, leave_reason)
    for end in exits:
        if end.failed:
            return DriverOutcome(Ending.FAILED, f"a worker {end}", end.status, end.log)
    if any(end.status == STOPPED_STATUS for end in exits):
        return DriverOutcome(Ending.STOPPED, "the script left by itself")
    if any(end.status == 0 for end in exits):
        return DriverOutcome(Ending.DONE)
    return DriverOutcome(Ending.STOPPED, "every worker was lost")
