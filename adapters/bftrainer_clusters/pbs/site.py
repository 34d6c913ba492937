"""The site ``pbs``: ``holder = "pbs"`` and the table ``[pbs]``."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

from bftrainer.cluster.model import GiveWay
from bftrainer.cluster.observed import ObservedSite
from bftrainer.cluster.pilot_submission import PilotJobWishes, PilotScript, SubmittedPilot
from bftrainer.cluster.site_advice import SiteProposal, SiteWishes
from bftrainer.cluster.site_plugin import JobNodes, OwnJob
from bftrainer.cluster.windows import PilotJobs
from bftrainer.config.pilot import NodesConfig, PilotConfig
from bftrainer.decide.domain.checks import Check
from bftrainer.errors import CommandError, UserError
from bftrainer.system.clock import Clock, SystemClock
from bftrainer_clusters.holding.pilot_script import own_script, script_of
from bftrainer_clusters.pbs import pilot_job, proposal
from bftrainer_clusters.pbs.config import RELOADED, PbsSettings
from bftrainer_clusters.pbs.doctor import examine_pbs
from bftrainer_clusters.pbs.hold import PbsCluster
from bftrainer_clusters.pbs.observe import NODES_ARGV, PbsCommands, ask_server
from bftrainer_clusters.pbs.queue import (
    parse_queues,
    parse_schedulers,
    queues_argv,
    schedulers_argv,
)
from bftrainer_clusters.pbs.text import parse_nodes, short_id
from bftrainer_clusters.simple import SimpleSite
from bftrainer_clusters.simple.site import configured_way

NAME = "pbs"
_JOB_ID = "PBS_JOBID"
_NOT_FOR_WORKERS = ("SLURM_", "SBATCH_", "SRUN_", "PBS_")
_INIT_TIMEOUT_S = 30.0


class PbsSite(SimpleSite[PbsSettings]):
    """The plug-in that the pilot finds as site ``pbs``: pilots may run as jobs, doctor runs every
    query of theirs, and ``bftrainer init`` reads the queues.
    """

    @property
    def batch(self) -> PbsBatch:
        return PbsBatch()

    def check(self, config: PilotConfig | None, where: str, keep: Path) -> list[Check]:
        if config is None:
            return []
        ends_holders = configured_way(config) is GiveWay.YIELD
        return examine_pbs(self.settings(config, where), keep, ends_holders, os.environ)

    def pilot_script(
        self, config: PilotConfig, where: str, state_dir: Path, wishes: PilotJobWishes
    ) -> PilotScript:
        if own := own_script(pilot_job.SCRIPT, state_dir, wishes):
            return own
        settings = self.settings(config, where)
        default_queue = ""
        if not wishes.partition:
            default_queue = ask_server(PbsCommands(settings.timeout_s)).default_queue
        options, reasons = pilot_job.pilot_options(settings, default_queue, wishes)
        return script_of(pilot_job.SCRIPT, "#PBS", options, state_dir, reasons)

    def submit_pilot(self, script: Path) -> SubmittedPilot:
        return pilot_job.submit(script)

    def propose(self, wishes: SiteWishes) -> SiteProposal | None:
        commands = PbsCommands(_INIT_TIMEOUT_S)
        try:
            queues = commands.ask(queues_argv(), parse_queues)
        except CommandError as error:
            if error.problem == "not found":
                return None
            raise
        schedulers = commands.ask(schedulers_argv(), parse_schedulers)
        nodes = commands.ask(NODES_ARGV, parse_nodes)
        return proposal.proposed(queues, schedulers, nodes.views, wishes)


class PbsBatch:
    """PBS around a pilot, and as ``bftrainer record`` observes it."""

    def job_id(self, environment: Mapping[str, str]) -> str:
        return short_id(environment.get(_JOB_ID, ""))

    def own_job(self, job: str, state_dir: Path, clock: Clock) -> OwnJob:
        return pilot_job.PbsPilotJob(job, state_dir, clock)

    def job_is_gone(self, job: str) -> bool | None:
        return pilot_job.job_is_gone(job)

    def job_nodes(self, environment: Mapping[str, str], config: PilotConfig) -> JobNodes | None:
        """None: no program is known that starts a worker on another node of a job, and passes on
        its input and signals.
        """
        return None

    def observe(
        self, config: PilotConfig | None, where: str, clock: Clock, slots_per_node: int | None
    ) -> ObservedSite:
        if slots_per_node is not None:
            raise UserError(f"--slots-per-node {slots_per_node}: PBS shows it; remove the option")
        if config is None or not config.site_table(NAME):
            settings = PbsSettings.model_construct(queue="")
        else:
            settings = SITE.settings(config, where)
        nodes = NodesConfig() if config is None else config.nodes
        classes = {} if config is None else config.classes
        ours = PilotJobs(partitions=frozenset({settings.queue} - {""}), assume_window_s=math.inf)
        return ObservedSite(PbsCluster(settings, clock), ours, nodes, classes=classes)


SITE = PbsSite(
    NAME,
    PbsSettings,
    lambda settings: PbsCluster(settings, SystemClock()),
    reloaded=RELOADED,
    dropped_variables=_NOT_FOR_WORKERS,
)
