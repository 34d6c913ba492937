"""A fragment as its pilot knows it, from the payload's marks and the scheduler's list. Frozen,
pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from bftrainer.cluster.model import Fragment, FragmentPhase
from bftrainer.decide.domain.node_stages import NodeStage
from bftrainer.fragment_names import job_of
from bftrainer_clusters.holding.holder_jobs import HolderSettings, JobPhase, ListedJob

PREEMPTED = "preempted"
RELEASED = "released"  # also the payload's word
_JITTER_S = 5.0
_PROLOG_S = 300.0
"""The longest time that a Prolog may take. Slurm itself has no limit by default
(PrologEpilogTimeout).
"""


@dataclass(frozen=True, slots=True)
class Marks:
    """Files of a holder: what its payload wrote when it was ready (empty before) and when it left
    (None: it has not).

    ``log`` is the end of its output; None where there is none, or where it was not read.
    """

    ready: str = ""
    leaving: str | None = None
    log: str | None = None


@dataclass(frozen=True, slots=True)
class OwnSubmission:
    """A submission by this pilot: when (elapsed seconds), the time limit, the node's class."""

    at_s: float
    limit_s: float
    node_class: str


@dataclass(frozen=True, slots=True)
class HolderFragment:
    """A fragment with what its pilot knows of its holder. ``since_s`` (elapsed seconds): the latest
    change of phase, or the start of the job or of its script.
    """

    fragment: Fragment
    since_s: float
    submission: OwnSubmission | None = None
    """None: a predecessor has submitted it."""
    runs: bool = False
    """Whether the scheduler has listed its job as running."""
    has_begun: bool = True
    """Whether its script has begun. False during a Prolog, where that can be seen."""
    is_released: bool = False
    is_unlisted: bool = False
    """Whether the last list did not have its job."""
    reason: str = ""
    """The scheduler's reason why it is pending."""

    @classmethod
    def adopted(cls, name: str, now_s: float) -> HolderFragment:
        """Return the fragment of a holder that the pilot before this one has submitted."""
        return cls(Fragment(name, FragmentPhase.PENDING), now_s)

    @property
    def name(self) -> str:
        return self.fragment.name

    @property
    def node(self) -> str:
        return self.fragment.node

    @property
    def job(self) -> str:
        return job_of(self.fragment.name)

    @property
    def phase(self) -> FragmentPhase:
        return self.fragment.phase

    @property
    def node_class(self) -> str:
        return self.submission.node_class if self.submission else ""

    @property
    def is_pending(self) -> bool:
        return self.phase is FragmentPhase.PENDING

    @property
    def is_gone(self) -> bool:
        return self.phase is FragmentPhase.GONE

    @property
    def is_at_rest(self) -> bool:
        """Whether the node is held and nothing is about to change: only its payload's mark or the
        scheduler's list can end that.
        """
        return (
            self.phase is FragmentPhase.READY
            and self.fragment.ends_s is not None
            and not self.is_released
        )

    @property
    def has_run(self) -> bool:
        """Whether the scheduler or the payload's marks have shown it running."""
        return self.runs or not self.is_pending

    @property
    def payload_left(self) -> bool:
        """Whether its payload has ended all processes, and itself."""
        return any(stage is NodeStage.LEFT for stage, _ in self.fragment.reached)

    def become(self, phase: FragmentPhase, now_s: float, why: str = "") -> HolderFragment:
        """Return the fragment in another phase; the first reason is kept."""
        since_s = self.since_s if phase is self.phase else now_s
        fragment = replace(self.fragment, phase=phase, why=self.fragment.why or why)
        return replace(self, fragment=fragment, since_s=since_s)

    def with_why(self, why: str) -> HolderFragment:
        """Return the fragment with this reason, whatever it was before."""
        return replace(self, fragment=replace(self.fragment, why=why))

    def reaching(self, *stages: tuple[NodeStage, float]) -> HolderFragment:
        return replace(
            self, fragment=replace(self.fragment, reached=(*self.fragment.reached, *stages))
        )

    def with_gpus(self, mark: str) -> HolderFragment:
        """Return the fragment with the GPUs that its payload names in the mark ``1700000000.123456
        gpus=1,2,5``; ``cores=6`` after them shows that it has only a part of the node.
        """
        match = _READY.fullmatch(mark.strip())
        gpus = match[2].split(",") if match and match[2] else ()
        return replace(
            self,
            fragment=replace(
                self.fragment, gpus=tuple(map(int, gpus)), is_part=bool(match and match[3])
            ),
        )

    def released(self, now_s: float) -> HolderFragment:
        """Return the fragment as told to end. A pending one stays PENDING until the scheduler says
        that it is over.
        """
        ending = replace(self, is_released=True)
        return ending if self.is_pending else ending.become(FragmentPhase.LEAVING, now_s, RELEASED)

    def left(self, mark: str, now_s: float) -> HolderFragment:
        """Return the fragment as leaving, with the reason that its payload has written."""
        leaving = self.become(FragmentPhase.LEAVING, now_s, why_left(mark))
        return leaving if self.payload_left else leaving.reaching(*left_at(mark))

    def left_with(self, other: HolderFragment, now_s: float) -> HolderFragment:
        """Return the fragment as leaving because ``other``, of the same job, leaves. A pending one
        stays so until the job is over.
        """
        phase = FragmentPhase.LEAVING if self.phase is FragmentPhase.READY else self.phase
        return self.become(phase, now_s, f"{other.fragment.why}, with {other.node} of the same job")

    def listed_as(self, job: ListedJob, now_s: float) -> HolderFragment:
        """Return the fragment as the scheduler's list shows its job: over, leaving, running,
        waiting, suspended, or in the way of main jobs.
        """
        held = replace(self, is_unlisted=False) if self.is_unlisted else self
        match job.phase:
            case JobPhase.OVER:
                reason, why = (
                    "" if job.reason in ("None", "") else f" ({job.reason})",
                    self.fragment.why,
                )
                if (
                    job.state.startswith("CANCELLED")
                    and why.startswith(PREEMPTED)
                    and not self.is_released
                ):
                    # Canceled by a user, not preempted: SIGTERM comes in both cases.
                    held = held.with_why(f"canceled{why.removeprefix(PREEMPTED)}")
                return held.become(FragmentPhase.GONE, now_s, f"{job.state}{reason}")
            case JobPhase.LEAVES:
                return held.become(FragmentPhase.LEAVING, now_s, PREEMPTED)
            case JobPhase.RUNS if self.name not in job.fragments:
                return held.become(FragmentPhase.GONE, now_s, "its job has given the node back")
            case JobPhase.RUNS:
                is_separable = held.name in job.separable
                return held._separable(is_separable)._running_until(job.ends_s, now_s)
            case JobPhase.WAITS:
                return held if held.reason == job.reason else replace(held, reason=job.reason)
            case JobPhase.SUSPENDED | JobPhase.BLOCKS:
                return held

    def _separable(self, is_separable: bool) -> HolderFragment:
        """Return the fragment as one whose job can give back its node alone, or cannot."""
        if self.fragment.is_separable is is_separable:
            return self
        return replace(self, fragment=replace(self.fragment, is_separable=is_separable))

    def _running_until(self, ends_s: float | None, now_s: float) -> HolderFragment:
        """Return the fragment with its job running until ``ends_s`` (None: unknown)."""
        held, before_s = self, self.fragment.ends_s
        if before_s is None and ends_s is not None and self.submission is not None:
            held = held.reaching((NodeStage.JOB_STARTED, ends_s - self.submission.limit_s))
        # LSF shows whole seconds since the start, from which the end comes out a little different
        # each time.
        if ends_s is None or before_s is None or abs(ends_s - before_s) >= _JITTER_S:
            held = replace(held, fragment=replace(held.fragment, ends_s=ends_s))
        if self.runs:
            return held
        return replace(held, runs=True, since_s=now_s if self.is_pending else self.since_s)

    def is_late(self, settings: HolderSettings, now_s: float, turn_s: float = 0.0) -> bool:
        """Return whether the fragment has been pending for too long, or is pending although it was
        released. ``turn_s``: the time until the scheduler looks at it again.
        """
        limit_s = settings.start_within_s + (0.0 if self.runs else turn_s)
        return self.is_pending and (self.is_released or now_s - self.since_s >= limit_s)

    def why_given_up(self, settings: HolderSettings, now_s: float, turn_s: float = 0.0) -> str:
        """Return why a late fragment is given up; empty if it gets more time, as during a
        Prolog.
        """
        waited_s = now_s - self.since_s
        if not self.runs:
            reason = f" ({self.reason})" if self.reason not in ("", "None") else ""
            return f"not running within {settings.start_within_s + turn_s:g} s{reason}"
        if not self.has_begun:
            late = (
                f"its script has not begun within {_PROLOG_S:g} s of the job's start: see "
                "the Prolog"
            )
            return late if waited_s >= _PROLOG_S else ""
        if waited_s >= settings.ready_within_s:
            return f"its payload has not started within {settings.ready_within_s:g} s"
        return ""


def ready_since(mark: str) -> tuple[tuple[NodeStage, float], ...]:
    """Read the mark ``1700000000.123456`` of a payload that is ready: the stage and its time; empty
    for any other text.
    """
    match = _READY.fullmatch(mark.strip())
    return () if match is None else ((NodeStage.PAYLOAD_READY, float(match[1])),)


_READY = re.compile(
    r"([0-9]{9,10}(?:\.[0-9]{1,9})?)(?: gpus=([0-9]{1,4}(?:,[0-9]{1,4})*))?(?: "
    r"cores=([0-9]{1,6}))?",
    re.ASCII,
)
_MARK = re.compile(
    r"([0-9]{9,10}(?:\.[0-9]{1,9})?) (.+) killed=([0-9]+) took_s=([0-9]{1,9}(?:\.[0-9]{1,9})?)",
    re.ASCII,
)


def left_at(mark: str) -> tuple[tuple[NodeStage, float], ...]:
    """Read from a payload's mark when it had left; empty for any other text."""
    match = _MARK.fullmatch(mark)
    return () if match is None else ((NodeStage.LEFT, float(match[1]) + float(match[4])),)


def why_left(mark: str) -> str:
    """Put the mark of a payload that has left into words: ``1700000000.123456 SIGTERM killed=3
    took_s=0.021000`` -> ``preempted; 3 processes ended in 0.02 s``.
    """
    match = _MARK.fullmatch(mark)
    if match is None:
        return mark
    _, signal_or_reason, killed, took_s = match.groups()
    word, blank, remark = signal_or_reason.partition(" (")
    if word in ("SIGTERM", "notice"):
        word = PREEMPTED
    why = word + blank + remark
    if not int(killed):
        return why
    return f"{why}; {killed} process{'' if killed == '1' else 'es'} ended in {float(took_s):.2f} s"
