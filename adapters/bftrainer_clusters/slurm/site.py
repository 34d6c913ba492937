"""The site ``slurm``: ``holder = "slurm"`` and the table ``[slurm]``."""

from __future__ import annotations

import math
import os
import pwd
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bftrainer.cluster.model import GiveWay
from bftrainer.cluster.observed import ObservedSite
from bftrainer.cluster.past_jobs import JobLog
from bftrainer.cluster.pilot_submission import PilotJobWishes, PilotScript, SubmittedPilot
from bftrainer.cluster.selection import may_be_held
from bftrainer.cluster.site_advice import SiteProposal, SiteWishes
from bftrainer.cluster.site_plugin import JobNodes, OwnJob, Site, SitePlugin
from bftrainer.cluster.windows import PilotJobs
from bftrainer.config.in_effect import ConfigCell
from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import ConfigTable, check_table
from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.decide.yielding.facts import JobCounters
from bftrainer.errors import BFTrainerError, UserError
from bftrainer.system import command
from bftrainer.system.clock import Clock
from bftrainer.system.users import own_name
from bftrainer_clusters.holding.call_budget import CallBudget
from bftrainer_clusters.holding.pilot_script import own_script, script_of
from bftrainer_clusters.holding.site_settings import check_times, pilot_name, reloader
from bftrainer_clusters.slurm import past_jobs, pilot_job, site_reader
from bftrainer_clusters.slurm.calls import ENVIRONMENT, SlurmCalls
from bftrainer_clusters.slurm.clusters import (
    HOST_CLUSTER,
    check_environment,
    chosen_cluster,
    of_cluster,
)
from bftrainer_clusters.slurm.config import RELOADED, SlurmSettings
from bftrainer_clusters.slurm.doctor import examine_slurm, measured
from bftrainer_clusters.slurm.hold import SlurmHolder
from bftrainer_clusters.slurm.hostlists import parse_hostlist
from bftrainer_clusters.slurm.observe import SlurmScheduler
from bftrainer_clusters.slurm.peers import SlurmPeerPilots, check_hosts, of_jobs
from bftrainer_clusters.slurm.published import NotPublishedError, Published
from bftrainer_clusters.slurm.pyslurm import PyslurmScheduler
from bftrainer_clusters.slurm.several_nodes import check_settings
from bftrainer_clusters.slurm.site_checks import kept_ways
from bftrainer_clusters.slurm.user_weights import Weights

NAME = "slurm"
_JOB_ID = "SLURM_JOB_ID"
_HOLDERS = "holders"
_TIMEOUT_S = 10.0
ENDS_BY = int(signal.SIGTERM)
"""srun then has the step's tasks killed and hears of their ends: no daemon of the step is left
after 0.06 s. After a SIGKILL of srun the daemon tries to reach it for 2.4 s (22.05, 24.11; 26.05:
1.6 s), and the node's next job waits for it.
"""
_STEP = ("--overlap", "-w", "{node}", "-N1", "-n1", "--mem=0", "--cpu-bind=none", "--export=ALL")


class SlurmSite:
    """The plug-in that the pilot finds as site ``slurm``."""

    table: type[ConfigTable] = SlurmSettings
    init_values: Mapping[str, object] = {}
    runs_here = False

    @property
    def batch(self) -> SlurmBatch:
        return SlurmBatch()

    def build(self, config: PilotConfig, state_dir: Path, clock: Clock) -> Site:
        settings = _slurm_settings(config, "configuration")
        budget = CallBudget(settings.calls_per_minute, clock.elapsed_s)
        calls = SlurmCalls(budget=budget, published=published(settings), cluster=settings.cluster)
        name, times = pilot_name(state_dir), config.times
        by_gpu, nodes = config.nodes.unit.divides_nodes, ConfigCell(config)
        holder = SlurmHolder(
            settings,
            state_dir / _HOLDERS,
            name,
            clock,
            times.lease_s,
            times.poll_s,
            calls=calls,
            may_hold=lambda node: may_be_held(node, nodes.now.nodes),
            by_gpu=by_gpu,
            give_way=lambda: nodes.now.nodes.give_way,
        )
        calls.makes_way = lambda: holder.permit().give_way is GiveWay.YIELD
        commands = SlurmScheduler(
            settings.timeout_s,
            calls=calls,
            shared_limits=holder.shared_limits,
            by_gpu=by_gpu,
            main_jobs_wait=holder.main_jobs_wait,
        )
        check_hosts(config.nodes.hosts)
        peers = SlurmPeerPilots(
            name,
            own_name(),
            _job_there(settings, os.environ),
            holder.claim,
            settings.timeout_s,
            calls=calls,
            weights=Weights(calls, lambda: holder.account, settings.timeout_s),
        )

        def read_again(fresh: PilotConfig) -> SlurmSettings:
            """Read the settings from a new configuration, whose nodes count as well when the site
            is read next.
            """
            fresh_settings = _slurm_settings(fresh, "configuration")
            nodes.now = fresh
            return fresh_settings

        return Site(
            PyslurmScheduler(commands) if settings.backend == "pyslurm" else commands,
            holder,
            _pilot_jobs(settings, settings.assume_window_s),
            worker_settings(settings.gres, settings.cluster),
            peers,
            reloader(NAME, settings, RELOADED, read_again, holder.reconfigure),
            holder.permit,
            ways=kept_ways(settings, by_gpu),
            yielding=_Yielding(commands, holder),
        )

    def propose(self, wishes: SiteWishes) -> SiteProposal | None:
        return site_reader.propose(wishes)

    def pilot_script(
        self, config: PilotConfig, where: str, state_dir: Path, wishes: PilotJobWishes
    ) -> PilotScript:
        if own := own_script(pilot_job.SCRIPT, state_dir, wishes):
            return own
        settings = _slurm_settings(config, where)
        options, reasons = site_reader.pilot_options(settings, wishes)
        return script_of(pilot_job.SCRIPT, "#SBATCH", options, state_dir, reasons)

    def submit_pilot(self, script: Path) -> SubmittedPilot:
        return pilot_job.submit(script)

    def setup_steps(self, partition: str, qos: str) -> str:
        return site_reader.setup_steps(partition, qos)

    def job_log(self, days: float, file: Path | None) -> JobLog:
        if file is not None:
            return past_jobs.file_log(file)
        cluster = chosen_cluster(os.environ)
        return past_jobs.live_log(
            days,
            lambda argv: command.run(
                of_cluster(argv, cluster), timeout_s=past_jobs.TIMEOUT_S, env=ENVIRONMENT
            ),
            user=own_name(),
        )

    def check(self, config: PilotConfig | None, where: str, keep: Path) -> list[Check]:
        if config is None:
            return examine_slurm(None) if shutil.which("scontrol") else []
        try:
            settings = _slurm_settings(config, where)
            nodes = config.nodes
            checks = examine_slurm(
                settings,
                nodes.max_nodes,
                nodes.unit.divides_nodes,
                lambda node: may_be_held(node, nodes),
                nodes.give_way,
                nodes.yield_poll_s,
            )
            return [
                *checks,
                *_check_broker(settings),
                *measured(settings, Path(where).parent / _HOLDERS),
            ]
        except BFTrainerError as error:
            return [Check.broken(NAME, str(error), "fix the table [slurm]")]


@dataclass(frozen=True, slots=True)
class _Yielding:
    """The port of a pilot that makes way for main jobs itself."""

    scheduler: SlurmScheduler
    holder: SlurmHolder

    def glance(self) -> JobCounters:
        return self.scheduler.glance()

    def shorten(self, names: frozenset[str], seconds: float) -> None:
        self.holder.shorten(names, seconds)


def published(settings: SlurmSettings) -> Published | None:
    """Return the folder in which the configured broker publishes; None without one. Raises
    ``UserError`` if the broker's user is not known.
    """
    if not settings.broker:
        return None
    try:
        return Published(
            Path(settings.broker),
            pwd.getpwnam(settings.broker_user).pw_uid,
            cluster=settings.cluster,
        )
    except KeyError:
        raise UserError(
            f"slurm.broker_user: there is no user {settings.broker_user!r}; expected who runs "
            "the broker"
        ) from None


def _check_broker(settings: SlurmSettings) -> list[Check]:
    """Check whether the configured broker has published a list of jobs that counts."""
    publication = published(settings)
    if publication is None:
        return []
    try:
        size = counted(publication.head().size, "byte")
        return [Check.ok("broker", f"{size} about jobs in {publication.folder}")]
    except NotPublishedError as error:
        remedy = "start `bftrainer broker` as that user; pilots ask Slurm themselves meanwhile"
        return [Check("broker", CheckStatus.MISSING, str(error), remedy, required=False)]


def worker_settings(gres: str, cluster: str = "") -> dict[str, object]:
    """Return the driver settings by which workers start in holders, and end; ``gres`` and
    ``cluster`` may be empty.
    """
    srun = of_cluster(["srun", "--jobid={job_id}", *_STEP], cluster)
    return {"prefix": [*srun, *([f"--gres={gres}"] if gres else [])], "ends_by": ENDS_BY}


def _job_there(settings: SlurmSettings, environment: Mapping[str, str]) -> str:
    """Return the id of the pilot's own job, whose comment shows what the pilot wants; empty without
    one, or if another cluster than the holders' runs it.
    """
    host_cluster = environment.get(HOST_CLUSTER, "")
    if settings.cluster and host_cluster and settings.cluster != host_cluster:
        return ""
    return environment.get(_JOB_ID, "")


class SlurmBatch:
    """Slurm around a pilot, and as ``bftrainer record`` observes it."""

    def job_id(self, environment: Mapping[str, str]) -> str:
        return environment.get(_JOB_ID, "")

    def own_job(self, job: str, state_dir: Path, clock: Clock) -> OwnJob:
        return pilot_job.SlurmPilotJob(job, state_dir / "successor.sh")

    def job_is_gone(self, job: str) -> bool | None:
        return pilot_job.job_is_gone(job)

    def job_nodes(self, environment: Mapping[str, str], config: PilotConfig) -> JobNodes | None:
        job, names = environment.get(_JOB_ID, ""), environment.get("SLURM_JOB_NODELIST", "")
        if not job and not names:
            return None
        prefix = ("srun", f"--jobid={job}", *_STEP) if job else ()
        return JobNodes(tuple(sorted(parse_hostlist(names))) or ("localhost",), prefix, ENDS_BY)

    def observe(
        self, config: PilotConfig | None, where: str, clock: Clock, slots_per_node: int | None
    ) -> ObservedSite:
        if slots_per_node is not None:
            raise UserError(
                f"--slots-per-node {slots_per_node}: Slurm reports the size of a node; remove "
                "the option"
            )
        if config is None:
            calls = SlurmCalls(cluster=chosen_cluster(os.environ))
            scheduler, ours = SlurmScheduler(calls=calls), PilotJobs(assume_window_s=math.inf)
            return ObservedSite(scheduler, ours, pilots=lambda: of_jobs(calls.jobs(_TIMEOUT_S)))
        by_gpu, has_table = config.nodes.unit.divides_nodes, bool(config.site_table(NAME))
        settings = _recorded_settings(config, where)
        calls = SlurmCalls(cluster=settings.cluster)
        scheduler = SlurmScheduler(settings.timeout_s, calls=calls, by_gpu=by_gpu)
        ours = replace(_pilot_jobs(settings, math.inf), cpus_per_gpu=settings.cpus_per_gpu)
        weights = Weights(calls, lambda: settings.account, settings.timeout_s)
        publication = published(settings)  # a broker knows weights that are hidden from users
        shown = (
            calls
            if publication is None
            else SlurmCalls(published=publication, cluster=settings.cluster)
        )
        if not has_table:
            ours = replace(ours, partitions=frozenset())
        return ObservedSite(
            scheduler,
            ours,
            config.nodes,
            classes=config.classes,
            pilots=SlurmPeerPilots(
                "", "", timeout_s=settings.timeout_s, calls=shown, weights=weights
            ).look,
        )


def _pilot_jobs(settings: SlurmSettings, assume_window_s: float | None) -> PilotJobs:
    """Return how the jobs of pilots are told from main jobs. With a QOS, the partition may be the
    main queue's own: its pending jobs count, whatever their QOS.
    """
    partitions = frozenset({settings.partition, settings.parts_partition} - {""})
    return PilotJobs(
        partitions=partitions,
        assume_window_s=assume_window_s,
        shares_partitions=bool(settings.qos),
        cpus_per_gpu=settings.cpus_per_gpu if settings.holds_parts else 0,
        mib_per_gpu=settings.mem_per_gpu,
    )


def _recorded_settings(config: PilotConfig, where: str) -> SlurmSettings:
    """Return the settings for a recording: a pilot's, or without a table [slurm] those for all
    partitions of the cluster that the user has chosen.
    """
    if config.site_table(NAME):
        return _slurm_settings(config, where)
    return SlurmSettings(partition="any", cluster=chosen_cluster(os.environ))


def _slurm_settings(config: PilotConfig, where: str) -> SlurmSettings:
    """Read and check the table [slurm]. Raises ``UserError`` where it has a mistake."""
    settings = check_table(config.site_table(NAME), SlurmSettings, f"{where}: {NAME}")
    check_times(NAME, settings.timeout_s, config.times.lease_s, where)
    check_settings(settings, config.nodes.site_max_nodes, where)
    check_environment(settings.cluster, os.environ, where)
    if config.nodes.unit.divides_nodes:
        settings.check_unit_gpu(where)
    return settings


SITE: SitePlugin = SlurmSite()
