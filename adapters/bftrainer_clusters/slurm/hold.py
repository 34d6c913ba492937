"""Holders on Slurm: the payload is a job step (payload.py), workers are other steps, and scancel
ends both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from bftrainer.cluster.model import GiveWay, HoldingPermit, NodeRequest
from bftrainer.decide.domain.checks import Check
from bftrainer.errors import CommandError, PostponedError, SchedulerError
from bftrainer.fragment_names import is_one_of_several, job_of, node_of
from bftrainer.system import command
from bftrainer.system.clock import Clock
from bftrainer.system.command import Parsed
from bftrainer.system.users import own_name
from bftrainer_clusters.holding.call_budget import CallKind
from bftrainer_clusters.holding.holder_files import SEVERAL, HolderFiles
from bftrainer_clusters.holding.holder_jobs import (
    MARGIN_S,
    HolderJobs,
    JobPhase,
    SchedulerTraits,
    holder_script,
    payload_lease_s,
)
from bftrainer_clusters.holding.job_holder import JobHolder
from bftrainer_clusters.on_node import payload
from bftrainer_clusters.slurm import jobs
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.clusters import (
    cluster_name,
    federation_argv,
    of_cluster,
    parse_federation,
    why_no_cluster,
)
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.jobs import HolderJob, SubmittedJob
from bftrainer_clusters.slurm.limit_waits import SharedLimits, shared_limits
from bftrainer_clusters.slurm.main_waits import MainJobWait, WaitingMainJobs
from bftrainer_clusters.slurm.records import MarkedQuery
from bftrainer_clusters.slurm.setup import config_argv, has_slurmdbd, next_turn_s, parse_config
from bftrainer_clusters.slurm.site_checks import WayChoice, checks_of_holding, way_choice
from bftrainer_clusters.slurm.site_facts import MayHold, SiteSetup, read_site
from bftrainer_clusters.slurm.site_watch import SiteWatch
from bftrainer_clusters.slurm.text import parse_has_cgroups, parse_has_epilog

STEPS_END_S = 3.0
_SUBMISSIONS_AT_ONCE = 4
_OF_SUBMISSION = {"SLURM_UMASK": "0077"}
"""Environment of sbatch: the umask of a holder's script, and of its log, which slurmstepd makes.
Workers' steps have the umask of their srun.
"""

TRAITS = SchedulerTraits(
    "Slurm",
    "slurm",
    "sbatch",
    min_interval_s=1.0,
    failures_in_a_row=2,
    log_at_start=True,
    polls_at_rest=3,
)


class SlurmHolder(JobHolder[SlurmSettings]):
    """Holds nodes for one pilot. ``pilot`` marks its holders, ``may_hold`` says which nodes it may
    have at all, ``give_way`` is nodes.give_way as it is configured now.
    """

    def __init__(
        self,
        settings: SlurmSettings,
        holders: Path,
        pilot: str,
        clock: Clock,
        lease_s: float = 60.0,
        poll_s: float = 10.0,
        calls: SlurmCalls | None = None,
        may_hold: MayHold = lambda node: True,
        by_gpu: bool = False,
        give_way: Callable[[], str] = lambda: "site",
    ) -> None:
        files = HolderFiles(holders.absolute())
        calls = calls or SlurmCalls()
        self._slurm = _Slurm(
            settings,
            files,
            pilot,
            lease_s,
            calls,
            may_hold=may_hold,
            by_gpu=by_gpu,
            give_way=give_way,
        )
        super().__init__(self._slurm, settings, files, clock, poll_s)

    @property
    def account(self) -> str:
        """The account of holders; empty: the user's default."""
        return self._slurm.settings.account

    def shared_limits(self) -> SharedLimits:
        """Return the limits that main-queue jobs share with holders; called from the thread of
        observations.
        """
        return self._slurm.shared

    def main_jobs_wait(self, waits: tuple[MainJobWait, ...]) -> None:
        """Record the main jobs that the latest observation shows as waiting for held nodes; called
        from the thread of observations.
        """
        self._slurm.main_waits = waits

    def claim(self, words: str) -> None:
        """Show these words in the comments of new holders: what this pilot claims."""
        self._slurm.claims = words


@dataclass
class Listing:
    """This pilot's holders in successive outputs of squeue: of 5,000 records all but a few are the
    same as before, and only the others are parsed.
    """

    comment: str
    # Holders by their record in squeue's output; None for one of another pilot.
    _jobs_by_record: dict[str, HolderJob | None] = field(default_factory=dict)

    def read(self, text: str, mark: str) -> dict[str, HolderJob]:
        """Return this pilot's holders by job id, from squeue's output. Only new records
        are parsed.
        """
        before, records = self._jobs_by_record, jobs.parse_list(text, mark)
        self._jobs_by_record = {
            record: before[record] if record in before else jobs.parse_holder(record, self.comment)
            for record in records
        }
        return {job.id: job for job in self._jobs_by_record.values() if job is not None}


@dataclass
class _Slurm(HolderJobs[SlurmSettings]):
    """Slurm's part of the holder: submits, lists and ends its jobs (the port
    :class:`.HolderJobs`).
    """

    settings: SlurmSettings
    files: HolderFiles
    pilot: str
    lease_s: float
    calls: SlurmCalls
    traits: SchedulerTraits = TRAITS
    script_first: bool = False
    claims: str = ""
    user: str = field(default_factory=own_name)

    next_turn_s: float = 0.0
    nodes_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The nodes that jobs for several nodes have or wait for, as far as this pilot knows."""
    shared: SharedLimits = field(default_factory=SharedLimits)
    list_age_s: float = 0.0
    may_hold: MayHold = lambda node: True
    by_gpu: bool = False
    give_way: Callable[[], str] = lambda: "site"
    main_waits: tuple[MainJobWait, ...] = ()
    has_failed: bool = False
    cluster: str = ""
    """ClusterName of the cluster that is asked, once that is known."""

    def __post_init__(self) -> None:
        self.site = SiteWatch(self._read_site, self._site_checks, self.calls.elapsed_s)
        self.site.choice = self._way_choice
        self.waiting = WaitingMainJobs(self.calls.elapsed_s)
        self.comment = jobs.comment(self.pilot, self.user)
        self.listing = Listing(self.comment)
        self.script = holder_script(self.settings.holder_script, "holder.slurm")

    def reconfigure(self, settings: SlurmSettings) -> None:
        self.settings = settings
        self.calls.reconfigure(settings.calls_per_minute)
        self.site.update()

    def begin(self) -> None:
        """Find out how holders have to end at this site, and whether it can have them as
        configured. Raises ``SchedulerError`` if not.
        """
        text = self.calls.config(self.settings.timeout_s)
        # With cgroups the srun in the script would make the script's step last 1 s longer than the
        # script.
        self.script_first = command.parsed(
            config_argv(),
            text,
            lambda config: not parse_has_epilog(config) and not parse_has_cgroups(config),
        )
        self.next_turn_s = command.parsed(config_argv(), text, next_turn_s)
        self.cluster = cluster_name(text)
        federation = ""
        if has_slurmdbd(text) and not self.settings.cluster:
            federation = self._ask(federation_argv(), parse_federation)
        if problem := why_no_cluster(self.settings.cluster, self.cluster, federation):
            raise SchedulerError(f'{problem}: set slurm.cluster = "{self.cluster}"')
        self.site.update()

    def why_no_holder(self) -> str:
        """Return the check of preemption that fails, or what is not known of the site; empty if
        holders may run.
        """
        return self.site.permit.refusal

    def permit(self) -> HoldingPermit:
        return self.site.permit

    def turn_s(self, reason: str) -> float:
        """Return how much longer a pending holder may wait for this reason: until backfill's next
        look, which alone starts holders while a main job waits for the same nodes.
        """
        return self.next_turn_s if jobs.waits_its_turn(reason) else 0.0

    @property
    def longest_s(self) -> float:
        """The longest time limit that QOS, account and partition allow."""
        return self.site.longest_s

    def _read_site(self) -> SiteSetup:
        """Ask Slurm how the site is set up, and note the limits that holders have there."""

        def ask(argv: list[str]) -> str:
            """Run a query; only scontrol calls slurmctld and counts in the budget, the others ask
            slurmdbd.
            """
            if argv[0] == "scontrol":
                return self._run_command(argv, CallKind.LIST)
            return command.run(argv, timeout_s=self.settings.timeout_s, env=self.calls.env)

        text = self.calls.config(self.settings.timeout_s)
        facts = read_site(self.settings, text, self.user, ask, self.may_hold, self.by_gpu)
        limits = facts.holders(self.settings)
        self.shared = shared_limits(limits, parse_config(text).get("ClusterName", ""), ask)
        # As in the configuration, a holder lasts for a minute at least.
        self.site.longest_s = max(limits.longest.seconds, 60.0)
        return facts

    def _site_checks(self, facts: SiteSetup) -> tuple[Check, ...]:
        return checks_of_holding(self.settings, facts, self.user, self.may_hold, self.by_gpu)

    def _way_choice(self, facts: SiteSetup) -> WayChoice:
        return way_choice(self.settings, facts, self.user, self.give_way(), self.by_gpu)

    def _look_at_site(self) -> None:
        """Read the site again if it is time, or if Slurm's configuration or a waiting main job
        suggests that it has changed.
        """
        self.site.configuration_is(self.calls.latest_config)
        if self.waiting.is_too_long(self.main_waits):
            self.calls.forget_config()
            self.site.main_job_waits()
        self.site.update_if_due()

    def wait_s(self, kind: CallKind) -> float:
        """Return the seconds until the budget allows calls of this kind; for a list, at least 1
        while a broker is about to publish this pilot's latest change.
        """
        awaits_s = float(kind is CallKind.LIST and self.calls.awaits_broker)
        return max(self.calls.wait_s(kind), awaits_s)

    def is_limit(self, reason: str) -> bool:
        """Return whether a reason is in Slurm's words for a limit of a QOS, an association or a
        user.
        """
        return jobs.is_limit(reason)

    @property
    def submissions_at_once(self) -> int:
        """Several, or one where the site limits calls: the budget is asked before each batch."""
        return 1 if self.calls.is_limited else _SUBMISSIONS_AT_ONCE

    @property
    def nodes_per_job(self) -> int:
        """Return ``slurm.nodes_per_holder``."""
        return self.settings.nodes_per_holder

    def submit(self, request: NodeRequest, beside: tuple[str, ...] = ()) -> str:
        """Run sbatch once (8 ms); return the job's id."""
        way = "script first" if self.script_first else "payload first"
        words = (
            self.script,
            self.settings.python,
            payload.__file__,
            self.files.root,
            f"{payload_lease_s(self.lease_s, self.site.permit.give_way):g}",
            way,
        )
        comment = f"{self.comment}{jobs.accepts(self.site.accepts)}{self.claims}"
        log = self.files.log(SEVERAL if beside else request.node, "%j")
        within = replace(request, window_s=min(request.window_s, self.longest_s + MARGIN_S))
        settings = self.settings
        if self.site.permit.give_way is not GiveWay.SITE:
            options = (jobs.LAST_IN_QUEUE, *settings.options)
            settings = settings.model_copy(update={"options": options})
        argv = jobs.submit_argv(settings, within, comment, map(str, words), log, beside)
        try:
            text = self.calls.run(argv, CallKind.SUBMIT, self.settings.timeout_s, _OF_SUBMISSION)
            submission = command.parsed(argv, text, jobs.parse_submitted)
            self._check_cluster(submission)
            job = submission.job
            if beside:
                self.nodes_of[job] = tuple(sorted((request.node, *beside)))
            return job
        except CommandError as error:
            self.site.reason_is(str(error))
            raise

    def _check_cluster(self, submission: SubmittedJob) -> None:
        """Cancel a job that sbatch has submitted to another cluster, where no list of holders shows
        it, and raise ``SchedulerError``.
        """
        if not self.cluster or submission.cluster in ("", self.cluster):
            return
        argv = of_cluster(jobs.cancel_argv([submission.job]), submission.cluster)
        outcome = "canceled"
        try:
            command.run(argv, timeout_s=self.settings.timeout_s, env=self.calls.env)
        except CommandError:
            outcome = f"`{' '.join(argv)}` ends it"
        raise SchedulerError(
            f"sbatch submitted job {submission.job} to cluster {submission.cluster}, expected "
            f"{self.cluster}: {outcome}"
        )

    def listed(self) -> Mapping[str, HolderJob]:
        """Return this pilot's holders by job id. After a failure, Slurm's configuration is read
        again.
        """
        try:
            listed = self._listed_holders()
        except (CommandError, SchedulerError) as error:
            self.has_failed = not isinstance(error, PostponedError)
            raise
        if self.has_failed:  # slurmctld may have been down
            self.has_failed = False
            self.calls.forget_config()
        return listed

    def _listed_holders(self) -> Mapping[str, HolderJob]:
        """Return this pilot's holders, from a broker's list if that is new enough, and look at the
        site.
        """
        if (all_jobs := self.calls.new_jobs()) is not None:
            listed = self.listing.read(jobs.as_listed(all_jobs, self.user), all_jobs.mark)
        else:
            listed = self._run_squeue(jobs.list_query(self.user), self.listing.read)
        self.list_age_s = (
            published.age_s(all_jobs) if all_jobs and (published := self.calls.published) else 0.0
        )
        for reason in {job.reason for job in listed.values() if job.phase is JobPhase.WAITS}:
            self.site.reason_is(reason)
        self._look_at_site()
        return self._with_nodes(listed)

    def _with_nodes(self, listed: dict[str, HolderJob]) -> Mapping[str, HolderJob]:
        """Return the jobs with the nodes that they still have: the list shows those for which a job
        was submitted. Only for a predecessor's jobs of several nodes Slurm is asked, once.
        """
        several = {job.id: job for job in listed.values() if job.is_for_several}
        self.nodes_of = {id_: nodes for id_, nodes in self.nodes_of.items() if id_ in several}
        adopted = [
            job.id
            for job in several.values()
            if job.phase is JobPhase.RUNS and job.id not in self.nodes_of
        ]
        if adopted:
            self.nodes_of |= self._run_squeue(jobs.nodes_query(adopted), jobs.parse_nodes)
        return listed | {
            id_: replace(job, has=self.nodes_of[id_])
            for id_, job in several.items()
            if id_ in self.nodes_of
        }

    def shorten(self, ids: list[str], seconds: float) -> None:
        """Run scontrol update once for all."""
        self._run_command(jobs.shorten_argv(ids, seconds), CallKind.TIDY)

    def unknown(self, ids: list[str]) -> frozenset[str]:
        """Return those of the jobs that Slurm does not know. The one squeue has no filter of names,
        so a job that was renamed is known.
        """
        try:
            listed = self._run_squeue(jobs.known_query(ids), jobs.parse_known)
        except CommandError as error:
            if len(ids) == 1 and jobs.is_unknown_job(error.problem):
                return frozenset(ids)
            raise
        return frozenset(ids) - listed

    def leave(self, ids: list[str]) -> None:
        """Run scancel once for all."""
        with suppress(CommandError):
            self._run_command(jobs.leave_argv(ids), CallKind.RELEASE)

    def end(self, ids: list[str]) -> None:
        """Run scancel once for all."""
        with suppress(CommandError):
            self._run_command(jobs.cancel_argv(ids), CallKind.RELEASE)

    def end_workers(self, names: list[str]) -> None:
        """Kill all steps of these fragments but the payload's, and wait for their end for
        :data:`STEPS_END_S` at most: until then a new step finds no memory.

        Raises :class:`~bftrainer.errors.SchedulerError` if a payload is not listed: then workers
        may not be listed either.
        """
        steps = self._worker_steps(names)
        if steps:
            self._run_command(jobs.kill_steps_argv(steps), CallKind.TIDY)
        until_s = time.monotonic() + STEPS_END_S
        while steps and time.monotonic() < until_s:
            time.sleep(0.1)
            steps = self._worker_steps(names)

    def _worker_steps(self, names: list[str]) -> list[str]:
        """Return the ids of the workers' steps in these fragments; in a job of several nodes, only
        of steps on their nodes.
        """
        ids = {job_of(name) for name in names if not is_one_of_several(name)}
        nodes_in: dict[str, set[str]] = {}
        for name in names:
            nodes_in.setdefault(job_of(name), set()).add(node_of(name))
        steps: list[str] = []
        unlisted = set(nodes_in)
        if ids:
            listed = self._ask(jobs.steps_argv(ids), jobs.parse_steps, CallKind.TIDY)
            steps += listed.workers
            unlisted -= listed.payloads
        for job in sorted(unlisted):
            of_job = self._steps_of(job, frozenset(nodes_in[job]))
            if job not in of_job.payloads:
                raise SchedulerError(
                    f"Slurm does not list the payload of job {job}: its workers may not be "
                    "listed either"
                )
            steps += [step for step in of_job.workers if step not in steps]
        return steps

    def _steps_of(self, job: str, nodes: frozenset[str]) -> jobs.HolderSteps:
        return self._ask(
            jobs.job_steps_argv(job), lambda text: jobs.parse_job_steps(text, nodes), CallKind.TIDY
        )

    def _run_squeue(self, query: MarkedQuery, parse: Callable[[str, str], Parsed]) -> Parsed:
        """Run a squeue and parse its output; ``parse`` also gets the mark that ends the records."""
        text = self.calls.query(query, CallKind.LIST, self.settings.timeout_s)
        return command.parsed(query.argv, text, lambda answer: parse(answer, query.mark))

    def _ask(
        self, argv: list[str], parse: Callable[[str], Parsed], kind: CallKind = CallKind.LIST
    ) -> Parsed:
        return command.parsed(argv, self._run_command(argv, kind), parse)

    def _run_command(self, argv: list[str], kind: CallKind) -> str:
        return self.calls.run(argv, kind, self.settings.timeout_s)
