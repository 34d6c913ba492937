"""Handing over before the pilot's own job ends: its successor is submitted, then it drains as if it had been told to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bftrainer.config.pilot import TimesConfig
from bftrainer.domain.ports import Clock
from bftrainer.errors import BFTrainerError

AGAIN_S = 30.0
SPARE_S = 10.0


class OwnJob(Protocol):
    """The batch job that the pilot runs in."""

    def ends_s(self) -> float | None:
        """When its time is over, if that is known."""

    def submit_successor(self) -> str:
        """Have the same job start when this one is over; its id."""

    def withdraw(self, successor: str) -> None:
        """Cancel a successor that waits."""


@dataclass(slots=True)
class JobChain:
    """Asked at every tick; asks the scheduler only every ``AGAIN_S``. ``warned``: it has said that time is nearly over."""

    job: OwnJob
    times: TimesConfig
    clock: Clock
    note: Callable[[str], None]
    successor: str = ""
    next_look_s: float = 0.0
    ends_s: float | None = None
    warned: bool = False

    def warn(self) -> None:
        """The scheduler's notice of the end, which comes whether it answers questions or not."""
        self.warned, self.next_look_s = True, 0.0

    def is_time_to_end(self) -> bool:
        """Whether the pilot must begin to drain; on the way there, the successor is submitted once."""
        now_s = self.clock.now_s()
        if now_s >= self.next_look_s:
            self.next_look_s = now_s + AGAIN_S
            try:
                self.ends_s = self.job.ends_s()
                if not self.successor and self._is_due(now_s):
                    self.successor = self.job.submit_successor()
                    self.note(f"successor {self.successor} waits for the end of this job")
            except BFTrainerError as error:
                self.note(f"cannot look after the successor: {error}")
        if self.ends_s is None:
            return self.warned
        return now_s >= self.ends_s - self.times.shutdown_s - SPARE_S

    def call_off(self) -> None:
        """The pilot was told to end: nobody is to come after it."""
        successor, self.successor = self.successor, ""
        if successor:
            try:
                self.job.withdraw(successor)
                self.note(f"successor {successor} is cancelled")
            except BFTrainerError as error:
                self.note(f"successor {successor} cannot be cancelled: {error}")

    def _is_due(self, now_s: float) -> bool:
        return self.warned or (self.ends_s is not None and now_s >= self.ends_s - self.times.hand_over_s)
