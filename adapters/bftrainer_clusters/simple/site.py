"""The site of a :class:`~bftrainer_clusters.simple.cluster.SimpleCluster`: what an entry point of
``bftrainer.sites`` names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

from bftrainer.cluster.model import Availability, GiveWay, PeerPilot
from bftrainer.cluster.observed import ObservedSite
from bftrainer.cluster.site_plugin import BatchSystem, JobNodes, OwnJob, Site
from bftrainer.cluster.windows import PilotJobs
from bftrainer.config.pilot import NodesConfig, PilotConfig
from bftrainer.config.validation import check_table
from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check
from bftrainer.decide.yielding.facts import JobCounters
from bftrainer.errors import CommandError, SchedulerError, UnknownStateError, UserError
from bftrainer.plugins import error_of_user
from bftrainer.system.clock import Clock
from bftrainer.system.own_programs import module_command
from bftrainer.system.users import own_name
from bftrainer_clusters.holding import worker
from bftrainer_clusters.holding.holder_jobs import RELOADED, SettingsT
from bftrainer_clusters.holding.site_settings import check_times, pilot_name, reloader
from bftrainer_clusters.simple.cluster import SimpleCluster
from bftrainer_clusters.simple.holder import SimpleHolder


@dataclass(frozen=True)
class SimpleSite(Generic[SettingsT]):
    """The plug-in of a scheduler. ``name`` is the holder's name and the table of the configuration,
    ``table`` the model of that table, ``cluster`` makes a cluster from the table.

    ``reloaded`` are the keys of the table that a running pilot applies on SIGHUP,
    ``dropped_variables`` prefixes of variables that workers must not have from the pilot's own job.
    """

    name: str
    table: type[SettingsT]
    cluster: Callable[[SettingsT], SimpleCluster[SettingsT]]
    reloaded: Collection[str] = RELOADED
    dropped_variables: tuple[str, ...] = ()
    init_values: Mapping[str, object] = field(default_factory=dict)
    runs_here: bool = False

    @property
    def batch(self) -> BatchSystem:
        return SimpleBatch(self)

    def settings(self, config: PilotConfig, where: str) -> SettingsT:
        """Return the scheduler's table of a configuration. Raises ``UserError`` where it has a
        mistake.
        """
        settings = check_table(config.site_table(self.name), self.table, f"{where}: {self.name}")
        check_times(self.name, settings.timeout_s, config.times.lease_s, where)
        return settings

    def build(self, config: PilotConfig, state_dir: Path, clock: Clock) -> Site:
        settings = self.settings(config, "configuration")
        cluster = self.cluster(settings)
        cluster.way, cluster.asked_notice_s = configured_way(config), config.workers.notice_s
        holders = (state_dir / "holders").absolute()
        times, name = config.times, pilot_name(state_dir)
        holder = SimpleHolder(cluster, self.name, holders, name, clock, times.lease_s, times.poll_s)

        def read_again(fresh: PilotConfig) -> SettingsT:
            """Read the settings and the mode from a new configuration."""
            fresh_settings = self.settings(fresh, "configuration")
            cluster.way, cluster.asked_notice_s = configured_way(fresh), fresh.workers.notice_s
            return fresh_settings

        reconfigure = reloader(self.name, settings, self.reloaded, read_again, holder.reconfigure)
        ways = cluster.ways
        return Site(
            cluster,
            holder,
            PilotJobs(partitions=cluster.holder_queues),
            worker_settings(holders, (cluster.job_variable, *self.dropped_variables)),
            reconfigure=reconfigure,
            permit=holder.permit,
            ways=ways,
            yielding=_Yielding(cluster, holder) if GiveWay.YIELD in ways else None,
            own=PeerPilot(name, own_name()),
        )

    def check(self, config: PilotConfig | None, where: str, keep: Path) -> list[Check]:
        """Return one check for each question that a pilot asks the scheduler; none without a
        configuration.
        """
        if config is None:
            return []
        cluster = self.cluster(self.settings(config, where))
        questions: dict[str, Callable[[], str]] = {
            f"{self.name}: nodes": lambda: _nodes_text(cluster),
            f"{self.name}: jobs": lambda: _jobs_text(cluster),
            f"{self.name}: holders": lambda: _permission_text(cluster),
        }
        return [_check_answer(name, question) for name, question in questions.items()]


@dataclass(frozen=True, slots=True)
class _Yielding(Generic[SettingsT]):
    """The port of a pilot that makes way for main jobs itself."""

    cluster: SimpleCluster[SettingsT]
    holder: SimpleHolder[SettingsT]

    def glance(self) -> JobCounters:
        return self.cluster.glance()

    def shorten(self, names: frozenset[str], seconds: float) -> None:
        self.holder.shorten(names, seconds)


def configured_way(config: PilotConfig) -> GiveWay:
    """Return who is to free nodes for main jobs. ``auto`` is ``site``: no facts of such a scheduler
    decide that a pilot may do so.
    """
    give_way = config.nodes.give_way
    return GiveWay.SITE if give_way == "auto" else GiveWay(give_way)


@dataclass(frozen=True)
class SimpleBatch(Generic[SettingsT]):
    """The scheduler as ``bftrainer record`` observes it. Pilots are no jobs of their own: a site
    whose pilots run as jobs brings its own :class:`~bftrainer.cluster.site_plugin.BatchSystem`.
    """

    site: SimpleSite[SettingsT]

    def job_id(self, environment: Mapping[str, str]) -> str:
        return ""

    def own_job(self, job: str, state_dir: Path, clock: Clock) -> OwnJob:
        raise UserError(f"holder {self.site.name!r}: a pilot cannot run as a job of this scheduler")

    def job_is_gone(self, job: str) -> bool | None:
        """Unknown, without a configuration."""
        return None

    def job_nodes(self, environment: Mapping[str, str], config: PilotConfig) -> JobNodes | None:
        return None

    def observe(
        self, config: PilotConfig | None, where: str, clock: Clock, slots_per_node: int | None
    ) -> ObservedSite:
        if slots_per_node is not None:
            raise UserError(f"--slots-per-node {slots_per_node}: remove the option")
        if config is None:
            nodes, classes, settings = NodesConfig(), {}, check_table({}, self.site.table, where)
        else:
            nodes, classes = config.nodes, config.classes
            settings = self.site.settings(config, where)
        cluster = self.site.cluster(settings)
        ours = PilotJobs(partitions=cluster.holder_queues, assume_window_s=math.inf)
        return ObservedSite(cluster, ours, nodes, classes=classes)


def worker_settings(holders: Path, dropped_variables: tuple[str, ...]) -> dict[str, object]:
    """Return the driver settings by which workers start in holders, and end. ``dropped_variables``
    are prefixes of environment variables.
    """
    prefix = module_command(worker.__name__, str(holders), "{node}", "{fragment_id}")
    return {
        "prefix": prefix,
        "ends_by": int(worker.ENDS_BY),
        "drop_environment": list(dropped_variables),
    }


def _nodes_text(cluster: SimpleCluster[SettingsT]) -> str:
    nodes = cluster.observe().nodes
    idle = sum(node.availability is Availability.FREE for node in nodes)
    return f"{counted(len(nodes), 'node')}, {idle} idle"


def _jobs_text(cluster: SimpleCluster[SettingsT]) -> str:
    jobs = tuple(cluster.list())
    for job in jobs:
        if job.state not in cluster.states:
            raise UnknownStateError("job", job.state)
    return f"{counted(len(jobs), 'job')} of yours"


def _permission_text(cluster: SimpleCluster[SettingsT]) -> str:
    if problem := cluster.why_no_holder():
        raise SchedulerError(problem)
    return "holders may run"


def _check_answer(name: str, question: Callable[[], str]) -> Check:
    """Return the check of a question to the scheduler, which fails if the question does."""
    try:
        return Check.ok(name, question())
    except (CommandError, SchedulerError) as error:
        return Check.broken(name, str(error))
    except Exception as error:  # of a verb that raises what the port does not allow
        return Check.broken(name, f"an error in the scheduler's adapter: {error_of_user(error)}")
