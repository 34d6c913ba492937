"""The part of a scheduler in the common holder (job_holder.py): its commands, traits, settings and
job script.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeVar

from bftrainer.cluster.model import GiveWay, HoldingPermit, NodeRequest
from bftrainer.config.trainer_file import Count, Positive
from bftrainer.config.validation import ConfigTable
from bftrainer.errors import SchedulerError, UserError
from bftrainer.system.installed import Installed, installed_file
from bftrainer_clusters.holding.call_budget import CallKind
from bftrainer_clusters.on_node import payload

MARGIN_S = 5.0
"""Seconds that a time limit leaves of its window: a limit that fits exactly no longer does when the
job is submitted.
"""


def limit_minutes(window_s: float, longest_s: float) -> int:
    """Return a holder's time limit in whole minutes (Slurm rounds up fractions), so that it ends
    within the window; 0 if the window is too short for one.
    """
    return max(int((min(window_s, longest_s + MARGIN_S) - MARGIN_S) // 60), 0)


YIELD_LEASE_S = 20.0
"""Where the pilot itself ends holders for main jobs, a holder ends so long after the pilot was
heard last, and :data:`_LAPSES_S` more.
"""
_LAPSES_S = 0.5


def payload_lease_s(lease_s: float, way: GiveWay) -> float:
    """Return the lease that a payload is started with: ``lease_s`` (times.lease_s), or less where
    no scheduler ends the holders of a pilot that is dead. The payload adds a sixth and a few
    seconds to it (:func:`.payload.limit_s`).
    """
    if way is GiveWay.SITE:
        return lease_s
    longest_s = YIELD_LEASE_S + _LAPSES_S - payload.GRACE_S
    return min(lease_s, longest_s / (1.0 + 1.0 / payload.RENEWALS))


class JobPhase(Enum):
    """What the state of a job means for its node."""

    WAITS = "waits"
    RUNS = "runs"
    SUSPENDED = "suspended"
    """It keeps memory and GPUs of a node that was given to another job, so it has to end."""
    BLOCKS = "blocks"
    """The site has changed it so that main jobs would wait for it, so it has to end."""
    LEAVES = "leaves"
    OVER = "over"


class ListedJob(Protocol):
    """A holder job as the scheduler lists it."""

    @property
    def id(self) -> str: ...

    @property
    def fragments(self) -> tuple[str, ...]:
        """The names of its fragments: of the node that it has or waits for, or of each of
        several.
        """

    @property
    def separable(self) -> frozenset[str]:
        """Those of its fragments that the job, which runs, can give back and keep the others."""

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


@dataclass(frozen=True, slots=True)
class SchedulerTraits:
    """How a scheduler is addressed and how often."""

    name: str
    """Its name in messages."""
    table: str
    """Its table in the configuration."""
    submit: str
    """The command that submits."""
    min_interval_s: float
    """The shortest time between two lists, however much is about to change."""
    failures_in_a_row: int
    """A round ends after this many failed submissions in a row: the cause is not the node."""
    polls_at_rest: int = 1
    """The holders are listed at every so-many-th poll while all of them are at rest."""
    cancels_ended: bool = False
    """Whether jobs whose payloads have ended are ended once more, since the scheduler notices it
    sooner then.
    """
    log_at_start: bool = False
    """Whether a job's output file exists as soon as its script runs, and not during a Prolog, in
    which the job counts as running.
    """


class HolderSettings(ConfigTable):
    """The keys that the tables of all schedulers have."""

    options: tuple[str, ...] = ()
    """Further options for the submission of a holder, such as ["--constraint=ib"]."""
    start_within_s: Positive = 5.0
    """A holder that has not started within this time after its submission is canceled; it may also
    wait for backfill.
    """
    ready_within_s: Positive = 30.0
    """A holder whose payload has not reported within this time after its script's start is
    canceled.
    """
    max_pending: Count = 16
    """Maximum number of pending holders."""
    submissions_per_hour: Count | None = None
    """Maximum number of holders submitted in any hour."""
    longest_s: Positive = 86_400.0
    """Time limit of a holder on a node without a plan, unless a QOS, an account, the partition or
    the queue allows less.
    """
    timeout_s: Positive = 10.0
    """Timeout of each command; at most a quarter of `times.lease_s`."""
    back_off_s: Positive = 10.0
    """First back-off after the submission failed for a node; doubled by each further failure."""
    back_off_most_s: Positive = 600.0
    """Maximum back-off."""
    holder_script: Path | None = None
    """The site's own holder.slurm or holder.sh instead of the installed one."""
    python: str = "python3"
    """Python on the compute nodes (3.6 or newer), for the payload."""


RELOADED = frozenset(HolderSettings.model_fields) - {
    "back_off_s",
    "back_off_most_s",
    "holder_script",
}
"""Keys that a running pilot applies on SIGHUP; its holders depend on the others."""
SettingsT = TypeVar("SettingsT", bound=HolderSettings)
SettingsT_contra = TypeVar("SettingsT_contra", bound=HolderSettings, contravariant=True)


@dataclass(frozen=True, slots=True)
class HolderRules:
    """What decisions go by beside facts. ``turn_s`` and ``is_limit`` are methods of
    :class:`HolderJobs`.
    """

    settings: HolderSettings
    traits: SchedulerTraits
    turn_s: Callable[[str], float]
    is_limit: Callable[[str], bool]
    nodes_per_job: int = 1
    poll_s: float = 10.0


class HolderJobs(Protocol[SettingsT_contra]):
    """What a scheduler's adapter does for the common holder: submit, list and end holder jobs. All
    methods but ``end`` may raise CommandError or SchedulerError.

    A method with a body here does what is right for a scheduler without limits on calls and jobs,
    whose jobs have one node.
    """

    @property
    def traits(self) -> SchedulerTraits: ...

    def reconfigure(self, settings: SettingsT_contra) -> None:
        """Use these settings for new holders; existing ones keep their options."""

    def begin(self) -> None:
        """Called once, before the first list, to learn what is needed of the cluster."""

    def why_no_holder(self) -> str:
        """Why no holder may be submitted at all; empty if holders may run."""
        return ""

    def permit(self) -> HoldingPermit:
        """Whether the site allows holders, by its latest answer; called in every tick of the pilot,
        so it asks nothing.
        """
        return HoldingPermit()

    def wait_s(self, kind: CallKind) -> float:
        """Seconds until calls of this kind may be made; 0 where there is no budget."""
        return 0.0

    def is_limit(self, reason: str) -> bool:
        """Whether the words of a failed submission or of a pending job mean a limit on the pilot's
        jobs, whatever the node.
        """
        return False

    def turn_s(self, reason: str) -> float:
        """How much longer than ``start_within_s`` a holder may be pending for this reason: until
        the scheduler's turn.
        """
        return 0.0

    @property
    def longest_s(self) -> float:
        """The longest time limit that the site allows a holder."""
        return math.inf

    @property
    def submissions_at_once(self) -> int:
        """How many submissions may run at the same time; each is a call of ``submit`` in a thread
        of its own.
        """
        return 1

    @property
    def nodes_per_job(self) -> int:
        """How many nodes a holder may have at most."""
        return 1

    def submit(self, request: NodeRequest, beside: tuple[str, ...] = ()) -> str:
        """Submit a holder for a node and a time, and for the nodes ``beside`` it that are alike;
        return its job id.
        """

    def shorten(self, ids: list[str], seconds: float) -> None:
        """Let one or more jobs end after so many seconds at the latest."""
        raise SchedulerError("holders cannot be shortened")

    def listed(self) -> Mapping[str, ListedJob]:
        """This pilot's holders by job id, recently ended ones included."""

    @property
    def list_age_s(self) -> float:
        """The age, at most, of the answer that :meth:`listed` has just returned. Only a broker's
        answer has one.
        """
        return 0.0

    def unknown(self, ids: list[str]) -> frozenset[str]:
        """Ask for these jobs by their ids, in one command; return those of which the scheduler says
        that there are none. No answer does not mean that.
        """

    def leave(self, ids: list[str]) -> None:
        """Tell the payloads of one or more jobs, which run, to end them, in whatever way frees
        their nodes soonest.
        """
        self.end(ids)

    def release_nodes(self, job: str, nodes: list[str]) -> None:
        """Give back some nodes of a job, which keeps the others. If the scheduler does not answer,
        nothing happens: it is asked again. Only called for :attr:`ListedJob.separable` fragments.
        """
        raise SchedulerError("holders of several nodes end as a whole")

    def end(self, ids: list[str]) -> None:
        """End one or more jobs. If the scheduler does not answer, nothing happens: the lease ends
        them as well.
        """

    def end_workers(self, names: list[str]) -> None:
        """End all processes in these fragments except the payloads. Raises if a scheduler is needed
        and does not answer.
        """


def holder_script(chosen: Path | None, name: str) -> Path:
    """Return the job script of holders: the one that the site has chosen, or the installed one.
    Raises ``UserError`` if it is missing.
    """
    if chosen is None:
        return installed_file(Installed.JOBSCRIPT, name)
    if not chosen.is_file():
        raise UserError(f"no holder script at {chosen}")
    return chosen.absolute()
