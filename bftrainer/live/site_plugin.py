"""Sites: plug-ins that tell a pilot which nodes there are, hold them, and know the batch system around it.

A package registers a site under the entry point group ``bftrainer.sites``, NAME = "module:object", where the object is a
:class:`SitePlugin`. NAME is what ``nodes.holder`` selects, and the table of the configuration that is the site's own.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import ConfigTable
from bftrainer.core.windows import PilotJobs
from bftrainer.domain.checks import Check
from bftrainer.domain.cluster import HoldingPermit
from bftrainer.domain.ports import Clock, NodeHolder, PeerPilots, Scheduler
from bftrainer.errors import InvalidValueError, UnknownNameError
from bftrainer.live.job_chaining import OwnJob
from bftrainer.live.observed import ObservedSite
from bftrainer.live.trainers.trainer_message import driver_settings
from bftrainer.plugins import SITE_GROUP, installed_names, load_site


@dataclass(frozen=True, slots=True)
class Site:
    """The scheduler and the nodes of a pilot. ``driver``: keys of driver.json, such as the prefix that starts a worker.

    ``notice_s`` is the value of ``workers.notice_s`` where the configuration does not set it.
    ``reconfigure`` applies what can change while a pilot runs; the keys (``slurm.partition``) that wait for the next start.
    ``permit`` is called in every tick: whether nodes may be held at all, by the site's latest answer.
    """

    scheduler: Scheduler
    holder: NodeHolder
    ours: PilotJobs = field(default_factory=PilotJobs)
    driver: dict[str, object] = field(default_factory=dict)
    peers: PeerPilots | None = None
    reconfigure: Callable[[PilotConfig], tuple[str, ...]] = lambda _: ()
    permit: Callable[[], HoldingPermit] = HoldingPermit
    notice_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobNodes:
    """The nodes of a batch job, and the command words that start a worker on one of them ({node})."""

    nodes: tuple[str, ...]
    prefix: tuple[str, ...] = ()
    ends_by: int = int(signal.SIGKILL)
    """As :attr:`~bftrainer.protocol.messages.DriverSettings.ends_by`."""


class BatchSystem(Protocol):
    """Further parts of a site with a scheduler: jobs in which pilots run, and a cluster that is only observed."""

    def job_id(self, environment: Mapping[str, str]) -> str:
        """The job that this process runs in; empty outside of any."""

    def own_job(self, job: str, state_dir: Path, clock: Clock) -> OwnJob:
        """The pilot's own job, for job chaining."""

    def job_is_gone(self, job: str) -> bool | None:
        """Whether a job is over; None while the scheduler does not say."""

    def job_nodes(self, environment: Mapping[str, str], config: PilotConfig) -> JobNodes | None:
        """The nodes of the job that this process runs in; None outside of any."""

    def observe(self, config: PilotConfig | None, where: str, clock: Clock, slots_per_node: int | None) -> ObservedSite:
        """The cluster for ``bftrainer record``, from the configuration (of file ``where``) or from nothing at all.

        No node is held, so a hidden window counts as endless. ``slots_per_node`` is for schedulers that do not report the
        size of a whole node. Raises :class:`~bftrainer.errors.SchedulerError` where the scheduler gives no answer.
        """


class SitePlugin(Protocol):
    """A site as a package brings it."""

    @property
    def table(self) -> type[ConfigTable] | None:
        """The model of the site's own table; ``bftrainer init`` writes it with every key, default and description."""

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

        Without a configuration: checks for every pilot here; nothing where the site's commands are not installed. Output
        that is not understood is kept in the folder ``keep``.
        """


def find_site(name: str) -> SitePlugin:
    """An installed site; raises :class:`UnknownNameError`."""
    return cast(SitePlugin, load_site(name))


def batch_systems() -> Iterator[tuple[str, BatchSystem]]:
    """The installed sites with a scheduler, by name."""
    for name in installed_names(SITE_GROUP):
        if (batch := find_site(name).batch) is not None:
            yield name, batch


def build_site(config: PilotConfig, state_dir: Path, clock: Clock) -> Site:
    """The site that ``nodes.holder`` names, with the settings of every driver."""
    site = find_site(config.nodes.holder).build(config, state_dir, clock)
    _check_shared_cap(site, config)
    _configure_drivers(site, config)
    return site


def reconfigure(site: Site, config: PilotConfig) -> tuple[str, ...]:
    """Apply a configuration that was read again; the keys of the site's table that wait for the next start.

    The settings of drivers change for trainers that start from now on.
    """
    _check_shared_cap(site, config)
    kept = site.reconfigure(config)
    _configure_drivers(site, config)
    return kept


def _configure_drivers(site: Site, config: PilotConfig) -> None:
    """The settings of drivers that start from now on."""
    site.driver.update(driver_settings(config.workers, config.times.file_poll_s))
    if "notice_s" not in config.workers.model_fields_set:
        site.driver["notice_s"] = site.notice_s


def observed_site(
    scheduler: str,
    config: PilotConfig | None,
    where: str,
    clock: Clock,
    slots_per_node: int | None = None,
) -> ObservedSite:
    """The cluster of a scheduler, only to be observed; raises :class:`UnknownNameError`."""
    batch = find_site(scheduler).batch if scheduler in installed_names(SITE_GROUP) else None
    if batch is None:
        raise UnknownNameError("scheduler", scheduler, dict(batch_systems()))
    return batch.observe(config, where, clock, slots_per_node)


@dataclass(frozen=True, slots=True)
class BatchJob:
    """The batch job that the pilot runs in. ``id`` is empty outside of any.

    ``is_gone`` tells whether another pilot's job is over (None: the scheduler does not say).
    """

    id: str = ""
    own: OwnJob | None = None
    is_gone: Callable[[str], bool | None] = lambda _: None


def batch_job(environment: Mapping[str, str], holder: str, state_dir: Path, clock: Clock) -> BatchJob:
    """The job around a pilot. Where the holder has a scheduler, that one's; else that of any scheduler with a job here."""
    batch = find_site(holder).batch
    if batch is None:
        batch = next((found for _, found in batch_systems() if found.job_id(environment)), None)
    if batch is None:
        return BatchJob(is_gone=_is_gone_everywhere)
    job = batch.job_id(environment)
    return BatchJob(job, batch.own_job(job, state_dir, clock) if job else None, batch.job_is_gone)


def _is_gone_everywhere(job: str) -> bool | None:
    """Outside of a job it is unknown which scheduler has the other pilot's job: one that lists it decides."""
    answers = {batch.job_is_gone(job) for _, batch in batch_systems()}
    return False if False in answers else True if True in answers else None


def _check_shared_cap(site: Site, config: PilotConfig) -> None:
    if config.nodes.site_max_nodes is not None and site.peers is None:
        raise InvalidValueError(
            f"nodes.site_max_nodes: holder {config.nodes.holder!r} cannot count other pilots' nodes; remove the key "
            '(holder "slurm" can count them)'
        )
