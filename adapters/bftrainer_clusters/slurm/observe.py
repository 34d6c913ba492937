"""The Scheduler port on Slurm's commands: a batch of four short calls, each 10 ms on an idle
22.05.8; and rarely a fifth.

Slurm's manual asks not to call squeue in tight loops; every 10 s is often enough. The commands
print text, in one format for all versions from 22.05 on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bftrainer.cluster.model import (
    LimitWait,
    NodeView,
    NodeWaits,
    Observation,
    PendingJob,
    Reservation,
)
from bftrainer.decide.yielding.facts import JobCounters
from bftrainer.errors import SchedulerError
from bftrainer.system import command
from bftrainer.system.command import Parsed
from bftrainer_clusters.holding.call_budget import CallKind
from bftrainer_clusters.slurm import limit_waits
from bftrainer_clusters.slurm import text as slurm_text
from bftrainer_clusters.slurm.calls import DISTRUST_S, OWN_ANSWERS_S, SlurmCalls
from bftrainer_clusters.slurm.job_list import JobList, waits
from bftrainer_clusters.slurm.limit_waits import SharedLimits
from bftrainer_clusters.slurm.main_waits import MainJobWait, waits_for_holders
from bftrainer_clusters.slurm.node_waits import node_waits
from bftrainer_clusters.slurm.published import NotPublishedError
from bftrainer_clusters.slurm.setup import config_argv

CLOCK_KEPT_S = 900.0
_CLOCK_STEP_S = 1.0
"""sdiag shows whole seconds."""
_RESET_SHARE = 0.5


# All nodes and reservations, including those of hidden partitions.
NODES_ARGV = ("scontrol", "-a", "-o", "show", "node")
GPUS_ARGV = ("scontrol", "-a", "-d", "-o", "show", "node")
"""The same, with the GPUs that are used: 43 bytes more for each node."""
RESERVATIONS_ARGV = ("scontrol", "-a", "-o", "show", "reservation")


@dataclass
class ServerClock:
    """Tells slurmctld's time between two calls of sdiag: its clock and this host's differ by the
    same seconds from look to look.

    ``elapsed_s`` never goes back, and counts time in which the host slept: the time shown is late
    at no time.
    """

    elapsed_s: Callable[[], float]
    planned_s: float | None = None
    """Its latest backfill cycle, as of the last ``set``."""
    _at_s: float = 0.0
    _set_s: float = -math.inf

    @property
    def is_due(self) -> bool:
        """Whether to ask sdiag again. A clock that is set meanwhile is wrong for that long."""
        return self.elapsed_s() - self._set_s >= CLOCK_KEPT_S

    def set(self, at_s: float, planned_s: float | None) -> None:
        """Record the times that sdiag has just shown."""
        self._at_s, self._set_s, self.planned_s = at_s, self.elapsed_s(), planned_s

    def now_s(self) -> float:
        """Return the server's time in seconds since 1970; sdiag shows whole seconds, so it may be
        up to one second early.
        """
        return self._at_s + self.elapsed_s() - self._set_s


@dataclass
class BrokerCounters:
    """A broker's counters of jobs, as long as they are new and agree with those that the pilot
    itself reads from Slurm once every :data:`.OWN_ANSWERS_S` beside them.

    A broker whose counters lag behind would make main jobs wait, so it does not count for
    :data:`DISTRUST_S` then. That a backfill cycle has left nodes to the pilot is never taken from a
    broker: where jobs wait for nodes, the pilot asks Slurm itself after each cycle.
    """

    calls: SlurmCalls
    jobs_wait: bool = False
    """Whether main jobs wait for nodes, by the latest observation."""
    _slurm_counters: JobCounters | None = None
    """The counters that this pilot itself has read from Slurm last."""
    _slurm_read_s: float = -math.inf
    """When it read them, by the monotonic clock."""
    _planned_s: float | None = None
    """The latest backfill cycle that this pilot itself has seen, by Slurm's clock."""
    _latest: JobCounters | None = None
    """The counters that were read last, from the broker or from Slurm."""

    def counters(self) -> JobCounters | None:
        """Return the broker's counters; None where the pilot has to ask Slurm itself."""
        published, now_s = self.calls.published, self.calls.elapsed_s()
        own, is_due = self._slurm_counters, now_s - self._slurm_read_s >= OWN_ANSWERS_S
        if published is None or own is None or is_due or self.calls.distrusts_broker:
            return None
        try:
            text = published.counters()
            counters = replace(slurm_text.parse_counters(text), is_published=True)
        except (NotPublishedError, SchedulerError):
            return None
        if lags_behind(counters, own):
            # A reset at midnight also shows fewer jobs and is no reason to distrust the broker: use
            # the pilot's own counters this time.
            if not looks_reset(counters, own):
                self.calls.distrusted_until_s = now_s + DISTRUST_S
            return None
        if self.jobs_wait and self._shows_new_cycle(counters):
            return None
        self._latest = counters
        return replace(counters, planned_s=self._planned_s)

    def _shows_new_cycle(self, counters: JobCounters) -> bool:
        """Whether counters show a backfill cycle that the pilot has not seen itself."""
        if counters.planned_s is None:
            return False
        return self._planned_s is None or counters.planned_s > self._planned_s

    def own_changed(self, counters: JobCounters) -> bool:
        """Record the counters that the pilot itself has just read. Returns whether they differ from
        the latest ones that were read, so that a broker's list may be older than them.
        """
        before, self._latest = self._latest, counters
        self._slurm_counters, self._slurm_read_s = counters, self.calls.elapsed_s()
        if counters.planned_s is not None:
            self._planned_s = counters.planned_s
        return before is None or _job_counts(before) != _job_counts(counters)


def lags_behind(counters: JobCounters, own: JobCounters) -> bool:
    """Whether counters that were read later than ``own``, by the scheduler's clock, show fewer
    jobs.
    """
    pairs = zip(_job_counts(counters), _job_counts(own), strict=True)
    is_later = counters.at_s > own.at_s + _CLOCK_STEP_S
    return is_later and any(count < own_count for count, own_count in pairs)


def looks_reset(counters: JobCounters, own: JobCounters) -> bool:
    """Whether the counters may have started again, as they do at midnight."""
    return sum(_job_counts(counters)) < _RESET_SHARE * sum(_job_counts(own))


def _job_counts(counters: JobCounters) -> tuple[int, int, int]:
    return counters.submitted, counters.started, counters.ended


@dataclass
class SlurmScheduler:
    """Observes Slurm by its commands.

    ``shared_limits`` returns the limits that main-queue jobs share with holders. ``by_gpu``: nodes
    are seen with their idle part. ``main_jobs_wait`` is told of main-queue jobs that held nodes
    would be enough for.
    """

    timeout_s: float = 10.0
    calls: SlurmCalls = field(default_factory=SlurmCalls)
    shared_limits: Callable[[], SharedLimits] = SharedLimits
    by_gpu: bool = False
    main_jobs_wait: Callable[[tuple[MainJobWait, ...]], None] = lambda waits: None

    def __post_init__(self) -> None:
        self._clock = ServerClock(self.calls.elapsed_s)
        self._broker = BrokerCounters(self.calls)

    def observe(self) -> Observation:
        """Observe the cluster, within the budget of calls.

        Jobs are read before nodes: a job that starts in between shows on its nodes. The time is
        read last, so windows may look shorter than they are, but never longer.
        """
        self.check_budget()
        jobs = self.calls.take_jobs(self.timeout_s)
        text = jobs.as_printed(slurm_text.JOB_FORMAT, waits)
        pending = command.parsed(
            ["squeue"], text, lambda text: slurm_text.parse_pending(text, jobs.mark)
        )
        nodes = self._ask(GPUS_ARGV if self.by_gpu else NODES_ARGV, slurm_text.parse_nodes, jobs)
        self.main_jobs_wait(waits_for_holders(jobs, nodes, self.calls.user, self.shared_limits()))
        return self.observe_rest(nodes, pending, jobs)

    def check_budget(self) -> None:
        """Raise ``PostponedError`` if the budget of calls does not allow an observation. One that
        has begun is completed: the list of jobs, which peer pilots are read from, is part of it.
        """
        if not self.calls.has_begun_look:
            self.calls.check(CallKind.LOOK)

    def observe_rest(
        self,
        nodes: tuple[NodeView, ...],
        pending: tuple[PendingJob, ...],
        jobs: JobList | None = None,
    ) -> Observation:
        """Complete an observation of nodes and jobs that were read just before."""
        reservations = self._ask(RESERVATIONS_ARGV, slurm_text.parse_reservations, jobs)
        config = self.calls.config(self.timeout_s)
        hidden = command.parsed(
            config_argv(), config, lambda text: slurm_text.parse_hidden(text, self.calls.user)
        )
        if self._clock.is_due or self.calls.is_limited:
            self._clock.set(*self._ask(["sdiag"], self._read_sdiag))
        limits = self._limit_waits(jobs)
        return Observation(
            self._clock.now_s(),
            nodes,
            pending,
            reservations,
            hidden,
            self._clock.planned_s,
            limits,
            node_waits=self._node_waits(jobs, nodes, reservations),
            evidence_s=None if jobs is None else jobs.at_s,
            remark=self.calls.unpublished,
        )

    def _node_waits(
        self,
        jobs: JobList | None,
        nodes: tuple[NodeView, ...],
        reservations: tuple[Reservation, ...],
    ) -> NodeWaits | None:
        """Return which jobs wait for which nodes; None unless this pilot makes way for
        main jobs.
        """
        if jobs is None or not jobs.has_waits:
            return None
        node_waits_now = command.parsed(
            ["squeue"], "", lambda _: node_waits(jobs, nodes, reservations)
        )
        self._broker.jobs_wait = bool(node_waits_now.jobs)
        return node_waits_now

    def _limit_waits(self, jobs: JobList | None) -> tuple[LimitWait, ...]:
        """Return the main-queue jobs that wait for a limit which they share with holders; Slurm is
        not asked if there is no such limit.
        """
        if not (shared := self.shared_limits()).limits:
            return ()
        jobs = jobs or self.calls.take_jobs(self.timeout_s)
        text = jobs.as_printed(limit_waits.FORMAT, waits)
        return command.parsed(
            ["squeue"], text, lambda text: limit_waits.parse(text, jobs.mark, shared)
        )

    def glance(self) -> JobCounters:
        """Count the jobs of all users: no call where a broker counts them
        (:class:`BrokerCounters`), else one, however large the queue is. A pilot that makes way for
        main jobs observes the cluster when a number has changed.
        """
        if (counters := self._broker.counters()) is not None:
            return counters
        self.calls.check(CallKind.LOOK)
        asked_s = time.time()
        counters = self._ask(["sdiag"], self._read_counters)
        if self._broker.own_changed(counters):
            # A broker's list older than this is no longer good.
            self.calls.lists_newer_than_s = asked_s
        return counters

    def _read_counters(self, text: str) -> JobCounters:
        times = self._read_sdiag(text)
        if self._clock.is_due:  # it shows whole seconds: times would jump at each call
            self._clock.set(*times)
        return slurm_text.parse_counters(text)

    def _read_sdiag(self, text: str) -> tuple[float, float | None]:
        times = slurm_text.parse_times(text)
        self.calls.count(text)
        return times

    def _ask(
        self, argv: Sequence[str], parse: Callable[[str], Parsed], beside: JobList | None = None
    ) -> Parsed:
        return command.parsed(argv, self.calls.look(argv, self.timeout_s, beside), parse)
