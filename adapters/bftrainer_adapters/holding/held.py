"""What a holder job is between asked for and over, from the payload's marks and the scheduler's word. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from bftrainer.domain.cluster import Fragment, FragmentPhase

_HURRY_FOR_S = 15.0
_JITTER_S = 5.0
MARGIN_S = 5.0
"""A limit that just fits a window does not fit any more when the job has been submitted."""


def limit_minutes(window_s: float, longest_s: float) -> int:
    """A holder's time limit within the window, in whole minutes (Slurm rounds up what is not); 0 where none fits."""
    return max(int((min(window_s, longest_s + MARGIN_S) - MARGIN_S) // 60), 0)


class JobPhase(Enum):
    """What a job's state means for its node."""

    WAITS = "waits"
    RUNS = "runs"
    SUSPENDED = "suspended"
    """It keeps memory and GPUs of a node that another job believes to have: it has to end."""
    LEAVES = "leaves"
    OVER = "over"


class HolderTimeouts(Protocol):
    """What of the settings counts here."""

    @property
    def start_within_s(self) -> float:
        """From asked for to running."""

    @property
    def ready_within_s(self) -> float:
        """From running to the payload's mark."""


class ListedJob(Protocol):
    """A holder as the scheduler lists it."""

    @property
    def id(self) -> str:
        """Its job id."""

    @property
    def node(self) -> str:
        """The node it was asked for."""

    @property
    def phase(self) -> JobPhase:
        """What its state means."""

    @property
    def state(self) -> str:
        """The scheduler's word."""

    @property
    def ends_s(self) -> float | None:
        """The end of its time limit."""

    @property
    def reason(self) -> str:
        """The scheduler's reason for the state."""


@dataclass(slots=True)
class HolderJobState:
    """A fragment, and since when (elapsed seconds) it is what it is."""

    name: str
    since_s: float
    phase: FragmentPhase = FragmentPhase.PENDING
    ends_s: float | None = None
    why: str = ""
    runs: bool = False
    released: bool = False
    unlisted: bool = False

    @property
    def fragment(self) -> Fragment:
        """As the port shows it."""
        return Fragment(self.name, self.phase, self.ends_s, self.why)

    @property
    def is_at_rest(self) -> bool:
        """Held, and only its payload's mark or the scheduler's list can change that."""
        return self.phase is FragmentPhase.READY and self.ends_s is not None and not self.released

    @property
    def has_run(self) -> bool:
        """It was seen to run, by the scheduler or by its payload's marks."""
        return self.runs or self.phase is not FragmentPhase.PENDING

    @property
    def is_due_to_end(self) -> bool:
        """Released, and not over as far as is known."""
        return self.released and self.phase is not FragmentPhase.GONE

    def become(self, phase: FragmentPhase, now_s: float, why: str = "") -> None:
        """Change phase; the first reason stays."""
        if phase is not self.phase:
            self.phase, self.since_s = phase, now_s
        self.why = self.why or why

    def release(self, now_s: float) -> None:
        """It is to end; one that waits stays PENDING until the scheduler says that it is over."""
        self.released = True
        if self.phase is not FragmentPhase.PENDING:
            self.become(FragmentPhase.LEAVING, now_s, "released")

    def compare(self, job: ListedJob, now_s: float) -> None:
        """What the scheduler lists."""
        self.unlisted = False
        match job.phase:
            case JobPhase.OVER:
                said = "" if job.reason in ("None", "") else f" ({job.reason})"
                self.become(FragmentPhase.GONE, now_s, f"{job.state}{said}")
            case JobPhase.LEAVES:
                self.become(FragmentPhase.LEAVING, now_s, "asked back")
            case JobPhase.RUNS:
                # LSF tells whole seconds since the start: the end would jump to and fro.
                if job.ends_s is None or self.ends_s is None or abs(job.ends_s - self.ends_s) >= _JITTER_S:
                    self.ends_s = job.ends_s
                if not self.runs and self.phase is FragmentPhase.PENDING:
                    self.since_s = now_s
                self.runs = True
            case JobPhase.WAITS | JobPhase.SUSPENDED:
                pass

    def is_late(self, settings: HolderTimeouts, now_s: float) -> bool:
        """It waits for longer than it may, or waits although it was released."""
        return self.phase is FragmentPhase.PENDING and (
            self.released or now_s - self.since_s >= settings.start_within_s
        )

    def why_given_up(self, settings: HolderTimeouts, now_s: float) -> str:
        """Of one that is late, after the scheduler was asked: why it is given up; empty if it is not."""
        if not self.runs:
            return f"not running within {settings.start_within_s:g} s"
        if now_s - self.since_s >= settings.ready_within_s:
            return f"its payload has not started within {settings.ready_within_s:g} s"
        return ""

    def is_in_a_hurry(self, settings: HolderTimeouts, now_s: float) -> bool:
        """Only the scheduler can tell what is next, and it is soon."""
        unknown_end = self.phase is FragmentPhase.READY and self.ends_s is None
        soon = self.phase is FragmentPhase.LEAVING or unknown_end or self.is_late(settings, now_s)
        return soon and now_s - self.since_s < _HURRY_FOR_S
