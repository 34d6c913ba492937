"""The Scheduler port on PBS's commands: qselect, qstat, pbs_rstat and pbsnodes, a batch of short
calls.

PBS shows its plan as ``estimated.start_time`` and ``estimated.exec_vnode`` of the first
backfill_depth waiting jobs, to every user. Jobs are read before nodes: a job that starts in between
shows on its nodes. Arrays are read after them, since nodes show which arrays have suspended jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bftrainer.cluster.model import NodeWaits, Observation, PendingJob
from bftrainer.errors import SchedulerError
from bftrainer.system import command
from bftrainer.system.command import Output, Parsed
from bftrainer_clusters.pbs import jobs, preempt
from bftrainer_clusters.pbs.config import PbsSettings
from bftrainer_clusters.pbs.node_waits import node_waits
from bftrainer_clusters.pbs.queue import (
    PbsQueue,
    PbsSchedulerFacts,
    PbsServer,
    parse_queues,
    parse_schedulers,
    parse_server,
    queues_argv,
    schedulers_argv,
    server_argv,
)
from bftrainer_clusters.pbs.text import (
    ENVIRONMENT,
    PbsNodes,
    PbsRecord,
    parse_nodes,
    parse_reservations,
    parse_time,
    short_id,
    unknown_jobs,
)
from bftrainer_clusters.simple import JobPhase

NODES_ARGV = ("pbsnodes", "-a", "-v", "-F", "json")
RESERVATIONS_ARGV = ("pbs_rstat", "-F")
_CANNOT_RUN = "Can Never Run"
_UNKNOWN_JOB_STATUS = (153, 35)
"""15001 and 15139 modulo 256: some of the jobs are unknown, or over."""


@dataclass(frozen=True, slots=True)
class PbsCommands:
    """Runs PBS's commands. ``env`` is added to the environment of each."""

    timeout_s: float
    env: Mapping[str, str] = field(default_factory=dict)

    def outcome(self, argv: Sequence[str]) -> Output:
        return command.outcome(argv, timeout_s=self.timeout_s, env={**self.env, **ENVIRONMENT})

    def outcome_of_lines(self, argv: Sequence[str], keep: Callable[[bytes], bool]) -> Output:
        env = {**self.env, **ENVIRONMENT}
        return command.outcome_of_lines(argv, keep, timeout_s=self.timeout_s, env=env)

    def ask(self, argv: Sequence[str], parse: Callable[[str], Parsed]) -> Parsed:
        """Run a command and parse its answer. Any status but 0 is an error: a dead server's qstat
        prints a document without jobs.
        """
        output = self.outcome(argv)
        if output.status:
            raise command.failure(argv, output)
        return command.parsed(argv, output.out, parse)

    def jobs(
        self, ids: Collection[str], *options: str
    ) -> tuple[tuple[PbsRecord, ...], frozenset[str]]:
        """Ask for jobs by their ids; return those that PBS shows, and the short ids of those that
        it says are unknown or over. Raises ``SchedulerError`` if a job is neither.
        """
        assert ids, "qstat without ids lists the jobs of all users"
        argv = jobs.jobs_argv(ids, *options)
        output = self.outcome(argv)
        unknown = unknown_jobs(output.err)
        if output.status and not (output.status in _UNKNOWN_JOB_STATUS and unknown):
            raise command.failure(argv, output)
        records = command.parsed(argv, output.out, jobs.parse_jobs)
        shown = {short_id(record.id) for record in records}
        missing = {short_id(id_) for id_ in ids} - shown - unknown
        if missing:
            raise SchedulerError(f"qstat: output truncated: job {min(missing)} is missing")
        return records, unknown

    def all_jobs(self) -> tuple[PbsRecord, ...]:
        """Return all jobs of all users that are not over; an array is one of them.

        A list that is cut at the end of a line looks complete, so the ids are asked for before, and
        once more where some are missing.
        """
        ids = self.ask(["qselect"], jobs.parse_ids)
        records = self.ask(jobs.jobs_argv(), jobs.parse_jobs)
        shown = {record.id for record in records}
        if missing := set(ids) - shown:
            missing &= set(self.ask(["qselect"], jobs.parse_ids))
        if missing:
            raise SchedulerError(f"qstat: output truncated: job {min(missing)} is missing")
        return records

    def hidden_tasks(
        self, records: Sequence[PbsRecord], shown: Collection[str]
    ) -> tuple[PbsRecord, ...]:
        """Return the jobs with nodes of those arrays that have some which pbsnodes does not show. A
        suspended one is in no other list.

        An array may have a hundred thousand jobs, and PBS prints all of them with all attributes:
        so only these arrays are asked for, and only lines of jobs with nodes are held. ``shown``
        are the ids that pbsnodes has shown after ``records`` were listed.
        """
        indices = jobs.indices_by_array(shown)
        arrays = [
            job.id
            for job in records
            if "[]" in job.id
            and job.get("job_state") in ("", "B")
            and jobs.hides_tasks(job, indices.get(job.id.partition("[")[0], ()))
        ]
        if not arrays:
            return ()
        argv = jobs.jobs_argv(arrays, "-t")
        output = self.outcome_of_lines(argv, jobs.may_have_nodes)
        is_over = output.status in _UNKNOWN_JOB_STATUS and unknown_jobs(output.err)
        if output.status and not is_over:
            raise command.failure(argv, output)
        return command.parsed(argv, output.out, jobs.parse_jobs)


@dataclass
class PbsScheduler:
    """Observes PBS by its commands."""

    settings: PbsSettings
    commands: PbsCommands
    server: PbsServer
    makes_way: bool = False
    """Whether the pilot ends holders for main jobs itself, so that it has to see all jobs."""
    user: str = ""
    ahead_s: float = 0.0
    """How far the server's clock is ahead of this host's."""

    def observe(self) -> Observation:
        """Observe jobs, reservations and nodes.

        Raises ``SchedulerError`` where the pilot has to make way for main jobs and the site hides
        them.
        """
        shows_jobs = self.server.shows_jobs
        if self.makes_way and not shows_jobs:
            raise SchedulerError(
                "PBS hides other users' jobs (query_other_jobs = False), so the pilot cannot make "
                'way for them; set nodes.give_way = "site"'
            )
        queues = self.commands.ask(queues_argv(), parse_queues) if self.makes_way else ()
        records = self.commands.all_jobs()
        reserved = (
            self.commands.ask(RESERVATIONS_ARGV, parse_reservations)
            if self.settings.reservations
            else ()
        )
        nodes = self.commands.ask(
            NODES_ARGV, lambda text: parse_nodes(text, self.settings.gpu_resource)
        )
        nodes = replace(nodes, at_s=nodes.at_s + self.ahead_s)
        waiting = [job for job in records if job.is_whole and _waits(job)]
        with_nodes = (*records, *self.commands.hidden_tasks(records, nodes.jobs))
        views = nodes.occupied(jobs.places_of(with_nodes), map(plan_of, waiting))
        return Observation(
            nodes.at_s,
            views,
            tuple(pending_job(job, nodes) for job in waiting),
            tuple(replace(resv, nodes=nodes.hosts(place)) for resv, place in reserved),
            lists_pending=shows_jobs,
            node_waits=self._node_waits(records, queues, nodes) if self.makes_way else None,
        )

    def _node_waits(
        self, records: Sequence[PbsRecord], queues: Sequence[PbsQueue], nodes: PbsNodes
    ) -> NodeWaits:
        return node_waits(records, queues, nodes, self.settings.queue, self.user)


def _waits(job: PbsRecord) -> bool:
    """Return whether a job waits, or is an array of which some jobs do."""
    if job.get("job_state") == "B":
        return queued_tasks(job) > 0
    return jobs.phase_of(job) is JobPhase.WAITS and "[" not in short_id(job.id).removesuffix("[]")


def queued_tasks(job: PbsRecord) -> int:
    """Return how many jobs of an array wait; 1 for a job that is no array."""
    for word in job.get("array_state_count").split():
        state, _, number = word.partition(":")
        if state == "Queued" and number.isdecimal():
            return int(number)
    return 1


def plan_of(job: PbsRecord) -> str:
    """Return the place that PBS plans for a waiting job; empty without a plan. Old plans stay with
    jobs that run, so they count for queued jobs only.
    """
    return job.get("estimated.exec_vnode") if job.get("job_state") == "Q" else ""


def pending_job(job: PbsRecord, nodes: PbsNodes) -> PendingJob:
    """Build the view of a waiting job."""
    plan, start = plan_of(job), job.get("estimated.start_time")
    return PendingJob(
        short_id(job.id),
        jobs.user_of(job),
        (job.get("queue"),),
        jobs.node_count(job) * queued_tasks(job),
        parse_time(start) if plan and start else None,
        nodes.hosts(plan) if start else frozenset(),
        is_eligible=can_start(job),
    )


def can_start(job: PbsRecord) -> bool:
    """Return whether a waiting job would start if enough nodes were idle: it is queued, neither
    held nor waiting for a time or another job, and PBS does not say that it can never run.
    """
    return job.get("job_state") in ("Q", "B") and not job.get("comment").startswith(_CANNOT_RUN)


def ask_server(commands: PbsCommands) -> PbsServer:
    """Ask for the server's attributes."""
    return commands.ask(server_argv(), parse_server)


@dataclass(frozen=True, slots=True)
class QueueVerdict:
    """Why holders must not run in a queue (``reasons``; empty: they may), and warnings."""

    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def ask_about_queue(
    commands: PbsCommands, settings: PbsSettings, ends_holders: bool
) -> QueueVerdict:
    """Ask whether main jobs get the nodes of holders in the configured queue. ``ends_holders``: the
    pilot ends holders for them itself.
    """
    queues = commands.ask(queues_argv(), parse_queues)
    schedulers = commands.ask(schedulers_argv(), parse_schedulers)
    return verdict_on_queue(queues, schedulers, ask_server(commands), settings, ends_holders)


def verdict_on_queue(
    queues: Sequence[PbsQueue],
    schedulers: Sequence[PbsSchedulerFacts],
    server: PbsServer,
    settings: PbsSettings,
    ends_holders: bool,
) -> QueueVerdict:
    """Judge, by PBS's answers, whether main jobs get the nodes of holders in the configured
    queue.
    """
    reasons = preempt.reasons_against(
        queues, schedulers, settings.queue, settings.main_queues, ends_holders, server.targets
    )
    return QueueVerdict(tuple(reasons), tuple(preempt.warnings(queues, settings.queue)))
