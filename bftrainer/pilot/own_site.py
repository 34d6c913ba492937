"""The site of one pilot: built from its configuration, with the settings of drivers, and the batch
job around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bftrainer.cluster.model import GiveWay
from bftrainer.cluster.site_plugin import OwnJob, Site, batch_systems, find_site
from bftrainer.config.pilot import PilotConfig
from bftrainer.errors import InvalidValueError
from bftrainer.pilot.trainers.trainer_message import driver_settings
from bftrainer.plugin_traits import all_sites
from bftrainer.system.clock import Clock


def build_site(config: PilotConfig, state_dir: Path, clock: Clock) -> Site:
    """Return the site that ``nodes.holder`` names (a batch scheduler, and how nodes are held
    there), with the settings of every driver.

    Raises ``UserError`` if the configuration asks for what the site cannot do.
    """
    site = find_site(config.nodes.holder).build(config, state_dir, clock)
    _check_shared_cap(site, config)
    _check_way(site, config)
    _configure_drivers(site, config)
    return site


def reconfigure(site: Site, config: PilotConfig) -> tuple[str, ...]:
    """Apply a configuration that was read again to the ``site``. Returns the keys of the site's
    table whose change waits for the next start.

    The settings of drivers change for trainers that start from now on.
    """
    _check_shared_cap(site, config)
    _check_way(site, config)
    kept = site.reconfigure(config)
    _configure_drivers(site, config)
    return kept


def _configure_drivers(site: Site, config: PilotConfig) -> None:
    """Set the settings of drivers that start from now on."""
    site.driver.update(driver_settings(config.workers, config.times.file_poll_s))
    if "notice_s" not in config.workers.model_fields_set:
        site.driver["notice_s"] = site.notice_s


@dataclass(frozen=True, slots=True)
class BatchJob:
    """The batch job that the pilot runs in. ``id`` is empty outside of any.

    ``is_gone`` tells whether another pilot's job is over (None: the scheduler does not say).
    """

    id: str = ""
    own: OwnJob | None = None
    is_gone: Callable[[str], bool | None] = lambda _: None


def batch_job(
    environment: Mapping[str, str], holder: str, state_dir: Path, clock: Clock
) -> BatchJob:
    """Return the batch job that the pilot itself runs in, by its ``environment`` variables; one
    with an empty id outside of any.

    Where the ``holder`` (the kind of site) has a scheduler, that scheduler is asked; else any
    scheduler with a job here.
    """
    batch = find_site(holder).batch
    if batch is None:
        batch = next((system for _, system in batch_systems() if system.job_id(environment)), None)
    if batch is None:
        return BatchJob(is_gone=_is_gone_everywhere)
    job = batch.job_id(environment)
    return BatchJob(job, batch.own_job(job, state_dir, clock) if job else None, batch.job_is_gone)


def _is_gone_everywhere(job: str) -> bool | None:
    """Whether another pilot's ``job`` is over, for a pilot outside of any job, which does not know
    which scheduler the job belongs to.

    False if some scheduler lists the job, True if none does and some says that it is over; None if
    none says anything.
    """
    answers = {batch.job_is_gone(job) for _, batch in batch_systems()}
    if False in answers:
        return False
    return True if True in answers else None


def _check_way(site: Site, config: PilotConfig) -> None:
    """Raise :class:`InvalidValueError` if ``nodes.give_way``, how the pilot frees nodes for main
    jobs, is a value that the site does not support.
    """
    give_way = config.nodes.give_way
    if give_way == "auto" or GiveWay(give_way) in site.ways:
        return
    kept = " or ".join(f'"{way.value}"' for way in GiveWay if way in site.ways)
    raise InvalidValueError(
        f'nodes.give_way = "{give_way}": holder {config.nodes.holder!r} with this configuration '
        f'cannot tell when main jobs wait for held nodes; set "auto" or {kept}'
    )


def _check_shared_cap(site: Site, config: PilotConfig) -> None:
    """Raise :class:`InvalidValueError` if ``nodes.site_max_nodes`` limits the nodes of all pilots
    together, and the site cannot count other pilots' nodes.
    """
    if config.nodes.site_max_nodes is not None and site.peers is None:
        able = ", ".join(f'"{name}"' for name, traits in all_sites().items() if traits.shows_pilots)
        raise InvalidValueError(
            f"nodes.site_max_nodes: holder {config.nodes.holder!r} cannot count other pilots' "
            f"nodes; remove the key (holder {able} can count them)"
        )
