"""Sites: plug-ins that tell a pilot which nodes there are, hold them, and know the batch system
around it.

A package registers a site under the entry point group ``bftrainer.sites``, NAME = "module:object",
where the object is a :class:`SitePlugin`. NAME is what ``nodes.holder`` selects, and the table of
the configuration that is the site's own.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from bftrainer.cluster.model import UNKNOWN_PILOT, GiveWay, HoldingPermit, PeerPilot
from bftrainer.cluster.observed import ObservedSite
from bftrainer.cluster.ports import NodeHolder, PeerPilots, Scheduler, YieldPort
from bftrainer.cluster.windows import PilotJobs
from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import ConfigTable
from bftrainer.decide.domain.checks import Check
from bftrainer.errors import UnknownNameError, UserError
from bftrainer.plugins import SITE_GROUP, installed_names, load_site
from bftrainer.system.clock import Clock


@dataclass(frozen=True, slots=True)
class Site:
    """The scheduler and the nodes of a pilot. ``driver``: keys of driver.json, such as the prefix
    that starts a worker.

    ``notice_s`` is the value of ``workers.notice_s`` where the configuration does not set it.
    ``reconfigure`` applies what can change while a pilot runs; the keys (``slurm.partition``) that
    wait for the next start. ``permit`` is called in every tick: whether nodes may be held at all,
    by the site's latest answer. ``ways`` are the modes that the site can keep (``nodes.give_way``);
    a pilot that is to keep another one does not start. ``yielding`` is what a pilot needs that
    makes way for main jobs by itself; None: only the scheduler can. ``own`` is this pilot in the
    scheduler's list of holders, where there are no ``peers``.
    """

    scheduler: Scheduler
    holder: NodeHolder
    ours: PilotJobs = field(default_factory=PilotJobs)
    driver: dict[str, object] = field(default_factory=dict)
    peers: PeerPilots | None = None
    reconfigure: Callable[[PilotConfig], tuple[str, ...]] = lambda _: ()
    permit: Callable[[], HoldingPermit] = HoldingPermit
    notice_s: float = 0.0
    ways: frozenset[GiveWay] = frozenset({GiveWay.SITE})
    yielding: YieldPort | None = None
    own: PeerPilot = UNKNOWN_PILOT


@dataclass(frozen=True, slots=True)
class JobNodes:
    """The nodes of a batch job, and the command words that start a worker on one of them
    ({node}).
    """

    nodes: tuple[str, ...]
    prefix: tuple[str, ...] = ()
    ends_by: int = int(signal.SIGKILL)
    """As :attr:`~bftrainer.wires.messages.DriverSettings.ends_by`."""


class OwnJob(Protocol):
    """The batch job that the pilot runs in."""

    def ends_s(self) -> float | None:
        """End of its time limit, if that is known."""

    def submit_successor(self) -> str:
        """Submit the same job, to start when this one is over. Returns its id."""

    def withdraw(self, successor: str) -> None:
        """Cancel a pending successor."""


class BatchSystem(Protocol):
    """Further parts of a site with a scheduler: jobs in which pilots run, and a cluster that is
    only observed.
    """

    def job_id(self, environment: Mapping[str, str]) -> str:
        """The job that this process runs in; empty outside of any."""

    def own_job(self, job: str, state_dir: Path, clock: Clock) -> OwnJob:
        """The pilot's own job, for job chaining."""

    def job_is_gone(self, job: str) -> bool | None:
        """Whether a job is over; None while the scheduler does not say."""

    def job_nodes(self, environment: Mapping[str, str], config: PilotConfig) -> JobNodes | None:
        """The nodes of the job that this process runs in; None outside of any."""

    def observe(
        self, config: PilotConfig | None, where: str, clock: Clock, slots_per_node: int | None
    ) -> ObservedSite:
        """Return the cluster for ``bftrainer record``, from the configuration (of file ``where``)
        or from nothing at all.

        No node is held, so a hidden window counts as endless. ``slots_per_node`` is for schedulers
        that do not report the size of a whole node. Raises
        :class:`~bftrainer.errors.SchedulerError` where the scheduler gives no answer.
        """


class SitePlugin(Protocol):
    """A site as a package brings it."""

    @property
    def table(self) -> type[ConfigTable] | None:
        """The model of the site's own table; ``bftrainer config --all`` prints it with every key,
        default and description.
        """

    @property
    def init_values(self) -> Mapping[str, object]:
        """Values that ``bftrainer init`` sets for this site, by ``table_key``."""

    @property
    def runs_here(self) -> bool:
        """Whether workers are processes on this host."""

    @property
    def batch(self) -> BatchSystem | None:
        """The scheduler behind the site, if there is one."""

    def build(self, config: PilotConfig, state_dir: Path, clock: Clock) -> Site:
        """The site of a configuration. Raises ``UserError`` where its table has a mistake."""

    def check(self, config: PilotConfig | None, where: str, keep: Path) -> list[Check]:
        """Whether a pilot with this configuration (of file ``where``) could work here; reads only.

        Without a configuration: checks for every pilot here; nothing where the site's commands are
        not installed. Output that is not understood is kept in the folder ``keep``.
        """


def find_site(name: str) -> SitePlugin:
    """Return the installed site of this name. Raises :class:`UnknownNameError` if there is none,
    and ``UserError`` for an object that is no site.
    """
    site = load_site(name)
    if not hasattr(site, "build") or not hasattr(site, "table"):
        raise UserError(
            f"site {name!r}: its entry point names a {type(site).__name__}, expected a SitePlugin; "
            "correct its package"
        )
    return cast(SitePlugin, site)


def batch_systems() -> Iterator[tuple[str, BatchSystem]]:
    """Yield the name of each installed site with a scheduler, and its batch system."""
    for name in installed_names(SITE_GROUP):
        if (batch := find_site(name).batch) is not None:
            yield name, batch


def observed_site(
    scheduler: str,
    config: PilotConfig | None,
    where: str,
    clock: Clock,
    slots_per_node: int | None = None,
) -> ObservedSite:
    """Return the cluster of a scheduler, only to be observed (:meth:`BatchSystem.observe`, which
    has the other parameters). Raises :class:`UnknownNameError` if no installed site has this
    scheduler.
    """
    batch = find_site(scheduler).batch if scheduler in installed_names(SITE_GROUP) else None
    if batch is None:
        raise UnknownNameError("scheduler", scheduler, dict(batch_systems()))
    return batch.observe(config, where, clock, slots_per_node)
