"""The site ``lsf``: ``holder = "lsf"`` and the table ``[lsf]``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bftrainer.cluster.model import GiveWay
from bftrainer.cluster.observed import ObservedSite
from bftrainer.cluster.pilot_submission import PilotJobWishes, PilotScript, SubmittedPilot
from bftrainer.cluster.site_plugin import JobNodes, OwnJob
from bftrainer.cluster.windows import PilotJobs
from bftrainer.config.pilot import NodesConfig, PilotConfig
from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check
from bftrainer.errors import InputFileError, SchedulerError, UserError
from bftrainer.system.clock import Clock, SystemClock
from bftrainer_clusters.holding.pilot_script import own_script, script_of
from bftrainer_clusters.lsf import pilot_job
from bftrainer_clusters.lsf import text as lsf_text
from bftrainer_clusters.lsf.config import RELOADED, LsfSettings
from bftrainer_clusters.lsf.doctor import examine_lsf
from bftrainer_clusters.lsf.hold import LsfCluster
from bftrainer_clusters.lsf.observe import LsfScheduler, ask, hosts_argv
from bftrainer_clusters.simple import SimpleSite
from bftrainer_clusters.simple.site import configured_way

NAME = "lsf"
HOSTFILE = "LSB_DJOB_HOSTFILE"
_JOB_ID = "LSB_JOBID"
_NOT_FOR_WORKERS = ("SLURM_", "SBATCH_", "SRUN_", "LSB_", "LS_")


class LsfSite(SimpleSite[LsfSettings]):
    """The plug-in that the pilot finds as site ``lsf``: pilots may run as jobs, and doctor runs
    every query of theirs.
    """

    @property
    def batch(self) -> LsfBatch:
        return LsfBatch()

    def check(self, config: PilotConfig | None, where: str, keep: Path) -> list[Check]:
        if config is None:
            return []
        way = configured_way(config)
        return examine_lsf(self.settings(config, where), keep, way is GiveWay.YIELD)

    def pilot_script(
        self, config: PilotConfig, where: str, state_dir: Path, wishes: PilotJobWishes
    ) -> PilotScript:
        if own := own_script(pilot_job.SCRIPT, state_dir, wishes):
            return own
        options, reasons = pilot_job.pilot_options(self.settings(config, where), wishes)
        return script_of(pilot_job.SCRIPT, "#BSUB", options, state_dir, reasons)

    def submit_pilot(self, script: Path) -> SubmittedPilot:
        return pilot_job.submit(script)


class LsfBatch:
    """LSF around a pilot, and as ``bftrainer record`` observes it."""

    def job_id(self, environment: Mapping[str, str]) -> str:
        return environment.get(_JOB_ID, "")

    def own_job(self, job: str, state_dir: Path, clock: Clock) -> OwnJob:
        return pilot_job.LsfPilotJob(job, state_dir, clock)

    def job_is_gone(self, job: str) -> bool | None:
        return pilot_job.job_is_gone(job)

    def job_nodes(self, environment: Mapping[str, str], config: PilotConfig) -> JobNodes | None:
        if HOSTFILE not in environment:
            return None
        table = config.site_table(NAME)
        return JobNodes(
            nodes_of_job(environment), tuple(table.get("worker_prefix", ("blaunch", "{node}")))
        )

    def observe(
        self, config: PilotConfig | None, where: str, clock: Clock, slots_per_node: int | None
    ) -> ObservedSite:
        nodes = NodesConfig() if config is None else config.nodes
        classes = {} if config is None else config.classes
        settings, remarks = _to_observe(config, where, slots_per_node)
        ours = PilotJobs(partitions=frozenset({settings.queue} - {""}), assume_window_s=math.inf)
        return ObservedSite(LsfScheduler(settings, clock), ours, nodes, remarks, classes)


def _to_observe(
    config: PilotConfig | None, where: str, slots_per_node: int | None
) -> tuple[LsfSettings, tuple[str, ...]]:
    """Return the settings to observe with, and remarks for the user. Without a configuration and an
    option, the size of a node is the most frequent one that LSF shows.
    """
    if config is not None and config.site_table(NAME):
        settings = SITE.settings(config, where)
        if slots_per_node not in (None, settings.slots_per_node):
            raise UserError(
                f"--slots-per-node {slots_per_node}: {where} has slots_per_node = "
                f"{settings.slots_per_node}; "
                "specify only one of them"
            )
        return settings, ()
    if slots_per_node is not None:
        return _observing_settings(slots_per_node), ()
    defaults = _observing_settings(1)
    hosts = ask(hosts_argv(defaults), lsf_text.parse_hosts, defaults.timeout_s, {})
    sizes: Counter[int] = Counter(host.cpus for host in hosts if host.cpus)
    if not sizes:
        raise SchedulerError(
            "bhosts does not show the number of slots (MAX) of any host; specify --slots-per-node"
        )
    slots, count = max(sizes.items(), key=lambda size: (size[1], size[0]))
    remark = (
        f"assuming {counted(slots, 'slot')} per node, as on {count:,} of "
        f"{counted(len(hosts), 'host')} (override with --slots-per-node)"
    )
    return _observing_settings(slots), (remark,)


def _observing_settings(slots: int) -> LsfSettings:
    """Return settings that suffice to observe: they have no queue for holders."""
    return LsfSettings.model_construct(queue="", slots_per_node=slots)


def nodes_of_job(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the hosts of the job that this process runs in, each once."""
    path = Path(environment[HOSTFILE])
    try:
        nodes = tuple(dict.fromkeys(path.read_text(encoding="utf-8").split()))
    except OSError as error:
        raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error
    if not nodes:
        raise UserError(f"{path} lists no compute node")
    return nodes


SITE = LsfSite(
    NAME,
    LsfSettings,
    lambda settings: LsfCluster(settings, SystemClock()),
    reloaded=RELOADED,
    dropped_variables=_NOT_FOR_WORKERS,
)
