"""The state of a holder job, from the payload's marks and the scheduler's list. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from bftrainer.domain.cluster import Fragment, FragmentPhase
from bftrainer.domain.fragments import job_of, node_of
from bftrainer.domain.node_stages import NodeStage

_ASK_OFTEN_FOR_S = 15.0
_JITTER_S = 5.0
_PROLOG_S = 300.0
"""Most that a Prolog may take. Slurm itself has no limit by default (PrologEpilogTimeout)."""
MARGIN_S = 5.0
"""By the time the job is submitted, a limit that just fitted the window no longer does."""


def limit_minutes(window_s: float, longest_s: float) -> int:
    """A holder's time limit within the window, in whole minutes (Slurm rounds up fractions); 0 if none fits."""
    return max(int((min(window_s, longest_s + MARGIN_S) - MARGIN_S) // 60), 0)


class JobPhase(Enum):
    """What the state of a job means for its node."""

    WAITS = "waits"
    RUNS = "runs"
    SUSPENDED = "suspended"
    """It keeps memory and GPUs of a node that was given to another job, so it has to end."""
    LEAVES = "leaves"
    OVER = "over"


class HolderTimeouts(Protocol):
    """The settings that are needed here."""

    @property
    def start_within_s(self) -> float:
        """Limit for the time from submission to running."""

    @property
    def ready_within_s(self) -> float:
        """Limit for the time from running to the payload's mark."""


class ListedJob(Protocol):
    """A holder job as the scheduler lists it."""

    @property
    def id(self) -> str: ...

    @property
    def fragments(self) -> tuple[str, ...]:
        """The names of its fragments: of the node that it has or waits for, or of each of several."""

    @property
    def phase(self) -> JobPhase: ...

    @property
    def state(self) -> str:
        """The scheduler's word for its state."""

    @property
    def ends_s(self) -> float | None:
        """The end of its time limit, once it runs."""

    @property
    def reason(self) -> str:
        """The scheduler's reason for the state."""


PREEMPTED = "preempted"
RELEASED = "released"  # also the payload's word


@dataclass(slots=True)
class HolderJobState:
    """A fragment, and the time (elapsed seconds) of its latest change of phase."""

    name: str
    since_s: float
    phase: FragmentPhase = FragmentPhase.PENDING
    ends_s: float | None = None
    why: str = ""
    runs: bool = False
    released: bool = False
    unlisted: bool = False
    asked_s: float | None = None
    """When it was submitted; None if a predecessor has."""
    has_begun: bool = True
    """Whether its script has begun. False during a Prolog, where that can be seen."""
    reason: str = ""
    """The scheduler's reason why it is pending."""
    node_class: str = ""
    release_s: float = 0.0
    """How long its node takes to be idle again."""
    reached: tuple[tuple[NodeStage, float], ...] = ()
    limit_s: float | None = None
    """Its time limit, if this pilot has submitted it."""
    has_left: bool = False
    """Whether its payload has ended because the fragment was released."""

    @property
    def job(self) -> str:
        """The holder job's id."""
        return job_of(self.name)

    @property
    def node(self) -> str:
        return node_of(self.name)

    @property
    def fragment(self) -> Fragment:
        return Fragment(self.name, self.phase, self.ends_s, self.why, self.release_s, self.reached)

    @property
    def is_at_rest(self) -> bool:
        """Held; only its payload's mark or the scheduler's list can change that."""
        return self.phase is FragmentPhase.READY and self.ends_s is not None and not self.released

    @property
    def has_run(self) -> bool:
        """Whether the scheduler or the payload's marks have shown it running."""
        return self.runs or self.phase is not FragmentPhase.PENDING

    @property
    def is_due_to_end(self) -> bool:
        """Released, but not known to be over."""
        return self.released and self.phase is not FragmentPhase.GONE

    def become(self, phase: FragmentPhase, now_s: float, why: str = "") -> None:
        """Change the phase; the first reason is kept."""
        if phase is not self.phase:
            self.phase, self.since_s = phase, now_s
        self.why = self.why or why

    def begin(self, now_s: float) -> None:
        """Its script has begun."""
        self.has_begun, self.since_s = True, now_s

    def release(self, now_s: float) -> None:
        """Let it end. A pending one stays PENDING until the scheduler says that it is over."""
        self.released = True
        if self.phase is not FragmentPhase.PENDING:
            self.become(FragmentPhase.LEAVING, now_s, RELEASED)

    def leave(self, mark: str, now_s: float) -> None:
        """Its payload has written why it left."""
        self.become(FragmentPhase.LEAVING, now_s, why_left(mark))
        if all(stage is not NodeStage.LEFT for stage, _ in self.reached):
            self.reached += left_at(mark)

    def compare(self, job: ListedJob, now_s: float) -> None:
        """Take over what the scheduler lists."""
        self.unlisted = False
        match job.phase:
            case JobPhase.OVER:
                reason = "" if job.reason in ("None", "") else f" ({job.reason})"
                if job.state.startswith("CANCELLED") and self.why.startswith(PREEMPTED) and not self.released:
                    self.why = f"canceled{self.why.removeprefix(PREEMPTED)}"  # by a user: SIGTERM comes in both cases
                self.become(FragmentPhase.GONE, now_s, f"{job.state}{reason}")
            case JobPhase.LEAVES:
                self.become(FragmentPhase.LEAVING, now_s, PREEMPTED)
            case JobPhase.RUNS if self.name not in job.fragments:
                self.become(FragmentPhase.GONE, now_s, "its job has given the node back")
            case JobPhase.RUNS:
                if self.ends_s is None and job.ends_s is not None and self.limit_s is not None:
                    self.reached += ((NodeStage.JOB_STARTED, job.ends_s - self.limit_s),)
                # LSF shows whole seconds since the start, from which the end comes out a little different each time.
                if job.ends_s is None or self.ends_s is None or abs(job.ends_s - self.ends_s) >= _JITTER_S:
                    self.ends_s = job.ends_s
                if not self.runs and self.phase is FragmentPhase.PENDING:
                    self.since_s = now_s
                self.runs = True
            case JobPhase.WAITS:
                self.reason = job.reason
            case JobPhase.SUSPENDED:
                pass

    def leave_with(self, other: HolderJobState, now_s: float) -> None:
        """Another fragment of its job leaves, and this one with it. A pending one stays so until the job is over."""
        self.why = self.why or f"{other.why}, with {other.node} of the same job"
        if self.phase is FragmentPhase.READY:
            self.become(FragmentPhase.LEAVING, now_s)

    def is_late(self, settings: HolderTimeouts, now_s: float, turn_s: float = 0.0) -> bool:
        """Whether it is pending for too long, or although it was released. ``turn_s``: until the scheduler's next turn."""
        if self.phase is not FragmentPhase.PENDING:
            return False
        return self.released or now_s - self.since_s >= settings.start_within_s + (0.0 if self.runs else turn_s)

    def why_given_up(self, settings: HolderTimeouts, now_s: float, turn_s: float = 0.0) -> str:
        """Why a late one is given up, once the scheduler has been asked; empty if it is not."""
        if not self.runs:
            reason = f" ({self.reason})" if self.reason not in ("", "None") else ""
            return f"not running within {settings.start_within_s + turn_s:g} s{reason}"
        if not self.has_begun:
            waited = now_s - self.since_s >= _PROLOG_S
            return (
                f"its script has not begun within {_PROLOG_S:g} s of the job's start: see the Prolog" if waited else ""
            )
        if now_s - self.since_s >= settings.ready_within_s:
            return f"its payload has not started within {settings.ready_within_s:g} s"
        return ""

    def is_about_to_change(self, settings: HolderTimeouts, now_s: float) -> bool:
        """Whether a change is near that only the scheduler can tell of."""
        unknown_end = self.phase is FragmentPhase.READY and self.ends_s is None
        soon = self.phase is FragmentPhase.LEAVING or unknown_end or self.is_late(settings, now_s)
        return soon and now_s - self.since_s < _ASK_OFTEN_FOR_S


def ready_since(mark: str) -> tuple[tuple[NodeStage, float], ...]:
    """A payload's mark, ``1700000000.123456``, as an instant."""
    return ((NodeStage.PAYLOAD_READY, float(mark)),) if _TIME.fullmatch(mark.strip()) else ()


_TIME = re.compile(r"[0-9]{9,10}(\.[0-9]{1,9})?", re.ASCII)
_MARK = re.compile(
    r"([0-9]{9,10}(?:\.[0-9]{1,9})?) (.+) killed=([0-9]+) took_s=([0-9]{1,9}(?:\.[0-9]{1,9})?)", re.ASCII
)


def left_at(mark: str) -> tuple[tuple[NodeStage, float], ...]:
    """When a payload has left, by its mark."""
    found = _MARK.fullmatch(mark)
    return () if found is None else ((NodeStage.LEFT, float(found[1]) + float(found[4])),)


def why_left(mark: str) -> str:
    """The mark of a payload that has left in words: ``1700000000.123456 SIGTERM killed=3 took_s=0.021000``."""
    found = _MARK.fullmatch(mark)
    if found is None:
        return mark
    _, signal_or_reason, killed, took_s = found.groups()
    why = PREEMPTED if signal_or_reason in ("SIGTERM", "notice") else signal_or_reason
    return (
        f"{why}; {killed} process{'' if killed == '1' else 'es'} ended in {float(took_s):.2f} s" if int(killed) else why
    )
