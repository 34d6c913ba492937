"""Slurm's commands within the pilot's budget of calls.

What a command costs slurmctld was counted with sdiag (22.05.8 and 26.05.5 alike; table in
docs/slurm.md).
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from bftrainer.errors import CommandError, PostponedError, SchedulerError
from bftrainer.system import command
from bftrainer.system.users import own_name
from bftrainer_clusters.holding.call_budget import CallBudget, CallKind
from bftrainer_clusters.slurm import job_list
from bftrainer_clusters.slurm.clusters import LOCAL, cluster_name, of_cluster, without_heading
from bftrainer_clusters.slurm.configuration import KeptConfig
from bftrainer_clusters.slurm.job_list import JobList
from bftrainer_clusters.slurm.list_audit import ListAudit
from bftrainer_clusters.slurm.published import CLOCKS_S, NotPublishedError, Published
from bftrainer_clusters.slurm.rate_limit import (
    USED_OF_LIMIT,
    is_refusal,
    parse_calls_of,
    rate_limit,
)
from bftrainer_clusters.slurm.records import MarkedQuery
from bftrainer_clusters.slurm.setup import parse_config

# Times in seconds of the epoch, and this cluster only, whatever the user has set.
ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s", "TZ": "UTC", **LOCAL}
LOOK_CALLS = 5
LIST_CALLS = 2
STEP_CALLS = 2
"""The calls of an srun in a job. Where the site limits calls, a submission reserves those of the
payload and of the first worker, and the payload's own call.
"""
OWN_ANSWERS_S = 300.0
"""How often a pilot that makes way for main jobs asks Slurm itself beside a broker. A main job
waits no longer than that for a broker that does not show it.
"""
DISTRUST_S = 600.0
"""How long a broker that lagged behind or left out a job does not count."""
_AT_ONCE_S = 0.5
_BROKER_S = 12.0
"""The time for which a pilot waits for a broker's list before it asks for its own."""
_MOST_REFUSALS = 3
"""The most refusals in a row that count as such; from then on, a refusal may be an outage."""


def cost(argv: Sequence[str]) -> int:
    """Return how many calls of slurmctld a command makes, as counted with sdiag."""
    match argv[0], argv[1:]:
        case "squeue", options:
            return (
                1 if "-s" in options else 3 if "-u" in options and "--local" not in options else 2
            )
        case "scontrol", options:
            return 2 if {"node", "nodes", "config"} & set(options) else 1
        case "scancel", ["-s", "KILL", *steps]:
            return 4 * len(steps)
        case "scancel", ["-s", _, *jobs] | jobs:
            return len(jobs)
    return 1


def _of_commands() -> float:
    """Return the time of a clock that never goes back, and counts time in which the
    machine slept.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class SlurmCalls:
    """Runs Slurm's commands within a budget of calls; without one, all of them at once. ``env`` is
    added to the environment of each.

    ``cluster``: the one that they ask (slurm.cluster); empty: that of slurm.conf.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    budget: CallBudget | None = None
    user: str = field(default_factory=own_name)
    elapsed_s: Callable[[], float] = _of_commands
    published: Published | None = None
    cluster: str = ""
    makes_way: Callable[[], bool] = lambda: False
    """Whether the pilot makes way for main jobs by itself: lists then have the columns for that. A
    broker's list counts as long as it counts jobs, and if it is newer than what this pilot knows.
    """
    lists_newer_than_s: float = -math.inf
    """A broker's list older than this is no longer good: at this time, by this host's clock, the
    pilot itself has seen that jobs came, started or ended.
    """
    distrusted_until_s: float = -math.inf
    """Until then, by the monotonic clock, a broker that lagged behind or left out a job does not
    count for a pilot that makes way.
    """
    _own_list_s: float = -math.inf
    _audit: ListAudit = field(default_factory=ListAudit)
    unpublished: str = ""
    """Why a broker's latest list did not count."""
    _config: KeptConfig = field(init=False)
    _changed_s: float = field(default_factory=time.time)
    """When this pilot's latest command ended; at first its start, as a predecessor's may be in no
    list that is older.
    """
    _unlisted_s: float = math.inf
    """Since when a command of this pilot is in no list that it has read."""
    _read: str = ""
    _jobs: tuple[JobList | None, float] = (None, 0.0)
    _refusals: int = 0
    _charged: int = 0
    _counted: int | None = None
    _counting: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    """The loop, the look and several submissions run commands at the same time."""

    def __post_init__(self) -> None:
        self.env = {**self.env, **ENVIRONMENT}
        self._config = KeptConfig(self.elapsed_s, self.cluster)

    @property
    def is_limited(self) -> bool:
        """Whether the site limits calls more than the pilot does."""
        return self.budget is not None and self.budget.is_limited

    def wait_s(self, kind: CallKind) -> float:
        """Return the seconds until the budget allows the calls of this kind."""
        if self.budget is None:
            return 0.0
        calls = {
            CallKind.LOOK: LOOK_CALLS + self.is_limited,
            CallKind.SUBMIT: self._submission_cost,
        }
        return self.budget.wait_s(kind, calls.get(kind, LIST_CALLS))

    @property
    def has_begun_look(self) -> bool:
        """Whether the list of jobs for the next observation was read just now."""
        listed, at_s = self._jobs
        return listed is not None and self.elapsed_s() - at_s <= _AT_ONCE_S

    def check(self, kind: CallKind) -> None:
        """Raise ``PostponedError`` if the budget does not allow calls of this kind now."""
        if self.budget is not None and (wait_s := self.wait_s(kind)):
            raise PostponedError(
                f"the budget of {self.budget.per_minute:.3g} calls a minute allows the next "
                f"{kind.value} in {wait_s:.0f} s",
                wait_s,
            )

    def query(self, query: MarkedQuery, kind: CallKind, timeout_s: float) -> str:
        """Run a squeue whose records end with the mark of the query; return its output."""
        return self.run(query.argv, kind, timeout_s, query.variables)

    def run(
        self,
        argv: Sequence[str],
        kind: CallKind,
        timeout_s: float,
        variables: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command within the budget and return its output; ``variables`` are added to its
        environment.

        Raises ``PostponedError`` where the site's limit on calls refused it.
        """
        self._spend_calls(kind, self._submission_cost if kind is CallKind.SUBMIT else cost(argv))
        try:
            environment = {**self.env, **(variables or {})}
            output = command.run(
                of_cluster(argv, self.cluster), timeout_s=timeout_s, env=environment
            )
        except CommandError as error:
            self._raise_postponed(error, kind)
            raise
        finally:
            if kind in (CallKind.SUBMIT, CallKind.RELEASE):
                self._changed_s = time.time()
                self._unlisted_s = min(self._unlisted_s, self.elapsed_s())
        self._refusals = 0
        return command.parsed(argv, output, lambda text: without_heading(argv, text, self.cluster))

    def jobs(self, timeout_s: float, of_now: bool = False) -> JobList:
        """Return the list of all jobs, from a broker if one has published it, else by one squeue;
        :meth:`take_jobs` has the same list for half a second. ``of_now``: never from a broker.
        """
        makes_way = self.makes_way()
        jobs = None if of_now else self.published_jobs()
        if jobs is not None and makes_way and not self._shows_waits(jobs):
            jobs = None
        if jobs is None:
            self.check(CallKind.LOOK)  # a list alone would delay the look that it is part of
            self._own_list_s = self.elapsed_s()
            query = job_list.query(with_waits=makes_way)
            text = self.query(query, CallKind.LOOK, timeout_s)
            jobs = command.parsed(
                query.argv, text, lambda text: job_list.parse_jobs(text, query.mark)
            )
            if makes_way and self._audit.is_disproved_by(jobs, time.time()):
                self.distrusted_until_s = self.elapsed_s() + DISTRUST_S
        self._jobs = jobs, self.elapsed_s()
        return jobs

    @property
    def distrusts_broker(self) -> bool:
        """Whether the broker has lagged behind lately, or left out a job."""
        return self.elapsed_s() < self.distrusted_until_s

    def _shows_waits(self, jobs: JobList) -> bool:
        """Whether main jobs that wait are on a broker's list, and on it now."""
        is_due = self.elapsed_s() - self._own_list_s >= OWN_ANSWERS_S
        if self.published is None or not jobs.has_waits or is_due or self.distrusts_broker:
            return False
        try:
            self.published.counters()
            at_s = self.published.head().at_s
            is_new = at_s >= self.lists_newer_than_s + CLOCKS_S
            return not self._audit.lacks(jobs, at_s) and is_new
        except NotPublishedError as error:
            self.unpublished = str(error)
            return False

    def take_jobs(self, timeout_s: float) -> JobList:
        """Return the list that was just read, but only once: no two observations rest on one squeue
        of this pilot.
        """
        listed = self._jobs[0] if self.has_begun_look else None
        listed = listed or self.jobs(timeout_s)
        self._jobs = (None, 0.0)
        return listed

    def published_jobs(self) -> JobList | None:
        """Return the list that a broker has published; None if there is none that counts."""
        try:
            listed, self.unpublished = self.published.jobs() if self.published else None, ""
        except (NotPublishedError, SchedulerError) as error:
            listed, self.unpublished = None, str(error)
        return listed

    def new_jobs(self) -> JobList | None:
        """Return the list that a broker has published after this pilot's latest command. None: the
        caller has to ask Slurm.
        """
        listed = self.published_jobs() if self._has_news() else None
        self._unlisted_s = math.inf
        return listed

    @property
    def awaits_broker(self) -> bool:
        """Whether a broker is about to publish what this pilot's latest command has changed."""
        return self.elapsed_s() - self._unlisted_s < _BROKER_S and self._has_news() is False

    def _has_news(self) -> bool | None:
        """Return whether the list that a broker has published is newer than this pilot's latest
        command; None if there is no such list.
        """
        with suppress(NotPublishedError):
            return (
                self.published.head().at_s >= self._changed_s + CLOCKS_S if self.published else None
            )
        return None

    def look(self, argv: Sequence[str], timeout_s: float, beside: JobList | None = None) -> str:
        """Return the answer to a command, as published by a broker if the list of jobs ``beside``
        it is a broker's, too; otherwise run the command.
        """
        with suppress(NotPublishedError):
            if self.published is not None and beside is not None and beside.at_s is not None:
                return self.published.text(argv)
        return self.run(argv, CallKind.LOOK, timeout_s)

    def config(self, timeout_s: float) -> str:
        """Return ``scontrol show config``, which is asked for again after 15 minutes only, and take
        the site's limit on calls from it.
        """
        text = self._config.text(timeout_s, self.env, lambda: self._spend_calls(CallKind.LOOK, 2))
        if self.published is not None:
            self.published.cluster = cluster_name(text)
        if self.budget is not None and text is not self._read:
            self._read = text
            limit = rate_limit(parse_config(text), self.user)
            self.budget.limit(
                *(
                    (limit.bucket, USED_OF_LIMIT * limit.per_s)
                    if limit
                    else (float("inf"), float("inf"))
                )
            )
        return text

    @property
    def latest_config(self) -> str:
        """``scontrol show config`` as it was read last, without a call; empty before that."""
        return self._config.latest

    def forget_config(self) -> None:
        """Read Slurm's configuration again when it is needed next: Slurm may have been restarted or
        reconfigured.
        """
        self._config.forget()

    def reconfigure(self, calls_per_minute: float) -> None:
        """Set the pilot's budget after its configuration was read again; Slurm's is read again as
        well.
        """
        self.forget_config()
        if self.budget is not None:
            self.budget.configure(calls_per_minute)

    def count(self, sdiag: str) -> None:
        """Charge to the budget what sdiag counts beyond the pilot's own commands: workers' steps,
        the user's commands.
        """
        counted = parse_calls_of(sdiag, os.getuid())
        if self.budget is not None and counted is not None:
            with self._counting:
                before, charged = self._counted, self._charged
                self._counted, self._charged = counted, 0
            if before is not None and counted >= before:  # statistics are reset at midnight
                self.budget.charge(counted - before - charged)

    @property
    def _submission_cost(self) -> int:
        return 2 + 2 * STEP_CALLS if self.is_limited else 1

    def _spend_calls(self, kind: CallKind, calls: int) -> None:
        if self.budget is not None:
            self.budget.spend(kind, calls)
            with self._counting:
                self._charged += calls

    def _raise_postponed(self, error: CommandError, kind: CallKind) -> None:
        """Raise ``PostponedError`` in place of an error if the site's limit on calls may have
        refused the command; after :data:`_MOST_REFUSALS` in a row the error itself stands.
        """
        if self.budget is None or not self.is_limited or not is_refusal(error.problem):
            return
        wait_s, self._refusals = self.budget.refused(), self._refusals + 1
        if self._refusals <= _MOST_REFUSALS and kind is not CallKind.RELEASE:
            raise PostponedError(
                f"{error}; the site's limit of {self.budget.per_minute:.3g} calls a minute may "
                "have refused it",
                wait_s,
            ) from error
