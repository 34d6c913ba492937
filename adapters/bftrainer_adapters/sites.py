"""From the configuration's ``holder`` to what the pilot needs of its site."""

from __future__ import annotations

import getpass
import os
import re
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import ConfigTable, check_table
from bftrainer.core.windows import Ours
from bftrainer.domain.ports import Clock, NodeHolder, PeerPilots, Scheduler
from bftrainer.errors import InvalidValueError, UnknownNameError
from bftrainer_adapters.lsf import allocation as lsf_allocation

HOLDERS = ("allocation", "lsf", "slurm", "trace")


@dataclass(frozen=True, slots=True)
class Site:
    """Who shows the nodes, who holds them, whose jobs are ours, and how drivers start workers there (driver.json)."""

    scheduler: Scheduler
    holder: NodeHolder
    ours: Ours = field(default_factory=Ours)
    driver: dict[str, object] = field(default_factory=dict)
    neighbours: PeerPilots | None = None
    settings: ConfigTable | None = None


def build_site(config: PilotConfig, state_dir: Path, clock: Clock) -> Site:
    """The site of a configuration."""
    _check_shared_cap(config)
    driver = _driver_settings(config)
    match config.nodes.holder:
        case "trace":
            from bftrainer_adapters.local.trace import TraceCluster, read_timeline

            cluster = TraceCluster(state_dir, read_timeline(config.trace), config.times.lease_s, clock)
            return Site(cluster, cluster, driver=driver)
        case "allocation":
            from bftrainer_adapters.local.allocation import Allocation, nodes_of_job, prefix_of_job

            if lsf_allocation.HOSTFILE in os.environ:
                nodes = lsf_allocation.nodes_of_job(os.environ, bool(config.lsf.get("launch_node")))
                driver["prefix"] = lsf_allocation.prefix_of_job(config.lsf)
                inside = Allocation(state_dir, nodes, clock)
                return Site(inside, inside, driver=driver)

            allocation = Allocation(state_dir, nodes_of_job(os.environ), clock)
            driver["prefix"] = prefix_of_job(os.environ)
            return Site(allocation, allocation, driver=driver)
        case "slurm":
            return _slurm(config, state_dir, clock, driver)
        case "lsf":
            return _lsf(config, state_dir, clock, driver)
        case other:
            raise UnknownNameError("holder", other, HOLDERS)


def reconfigure(site: Site, config: PilotConfig) -> tuple[str, ...]:
    """Take over what can be of the site's table and of ``[workers]``; the keys that wait for the next start.

    What drivers are told changes for trainers that start from now on, options of holders for holders to come.
    """
    from bftrainer_adapters.holding.job_holder import JobHolder
    from bftrainer_adapters.lsf import config as lsf_config
    from bftrainer_adapters.slurm import config as slurm_config

    _check_shared_cap(config)
    kept: tuple[str, ...] = ()
    if isinstance(site.holder, JobHolder):
        fresh: slurm_config.SlurmSettings | lsf_config.LsfSettings
        if isinstance(site.settings, slurm_config.SlurmSettings):
            table, reloaded = "slurm", slurm_config.RELOADED
            fresh = check_table(config.slurm, slurm_config.SlurmSettings, "configuration: slurm")
        else:
            table, reloaded = "lsf", lsf_config.RELOADED
            fresh = check_table(config.lsf, lsf_config.LsfSettings, "configuration: lsf")
        was = dict(site.settings or ())
        back = {key: value for key, value in was.items() if key not in reloaded and value != getattr(fresh, key)}
        site.holder.reconfigure(fresh.model_copy(update=back), config.times.poll_s)
        kept = tuple(f"{table}.{key}" for key in sorted(back))
    site.driver.update(_driver_settings(config))
    return kept


def _driver_settings(config: PilotConfig) -> dict[str, object]:
    workers = config.workers
    return {
        "interface": workers.interface,
        "allow_from": list(workers.allow_from),
        "hang_s": workers.hang_s,
        "warm": workers.warm,
        "log_bytes": workers.log_bytes,
        "poll_s": config.times.file_poll_s,
        "allow_stock_horovodrun": workers.allow_stock_horovodrun,
    }


def _check_shared_cap(config: PilotConfig) -> None:
    holder = config.nodes.holder
    if config.nodes.site_max_nodes is not None and holder != "slurm":
        raise InvalidValueError(
            f"nodes.site_max_nodes: other pilots' nodes can be counted on Slurm only; expected no such key with holder {holder}"
        )


def _slurm(config: PilotConfig, state_dir: Path, clock: Clock, driver: dict[str, object]) -> Site:
    from bftrainer_adapters.slurm.config import SlurmSettings
    from bftrainer_adapters.slurm.hold import SlurmHolder
    from bftrainer_adapters.slurm.observe import AnswerFormat, SlurmScheduler
    from bftrainer_adapters.slurm.peers import SlurmPeerPilots, check_hosts
    from bftrainer_adapters.slurm.pyslurm import PyslurmScheduler

    settings = check_table(config.slurm, SlurmSettings, "configuration: slurm")
    gres = [f"--gres={settings.gres}"] if settings.gres else []
    driver["prefix"] = [
        "srun", "--jobid={fragment_id}", "--overlap", "-w", "{node}", "-N1", "-n1", "--mem=0", *gres, "--cpu-bind=none",
        "--export=ALL",
    ]  # fmt: skip
    commands = SlurmScheduler(format=AnswerFormat(settings.format), timeout_s=settings.timeout_s)
    scheduler = PyslurmScheduler(commands) if settings.backend == "pyslurm" else commands
    times = config.times
    # Pilots of one user are told apart by their state directories.
    name = _pilot_name(state_dir)
    holder = SlurmHolder(settings, state_dir / "holders", name, clock, times.lease_s, times.poll_s)
    check_hosts(config.nodes.hosts)
    own_job = os.environ.get("SLURM_JOB_ID", "")
    neighbours = SlurmPeerPilots(name, getpass.getuser(), own_job, holder.claim, settings.timeout_s)
    ours = Ours(partitions=frozenset({settings.partition} - {""}), assume_window_s=settings.assume_window_s)
    return Site(scheduler, holder, ours, driver, neighbours, settings)


def _lsf(config: PilotConfig, state_dir: Path, clock: Clock, driver: dict[str, object]) -> Site:
    from bftrainer_adapters.lsf.config import LsfSettings
    from bftrainer_adapters.lsf.hold import LsfHolder
    from bftrainer_adapters.lsf.observe import LsfScheduler

    settings = check_table(config.lsf, LsfSettings, "configuration: lsf")
    holders = (state_dir / "holders").absolute()
    driver["prefix"] = [sys.executable, "-m", "bftrainer_adapters.lsf.worker", str(holders), "{node}", "{fragment_id}"]
    driver["drop_environment"] = ["SLURM_", "SBATCH_", "SRUN_", "LSB_", "LS_"]
    holder = LsfHolder(settings, holders, _pilot_name(state_dir), clock, config.times.lease_s, config.times.poll_s)
    ours = Ours(partitions=frozenset({settings.queue}))
    return Site(LsfScheduler(settings, clock), holder, ours, driver, settings=settings)


def _pilot_name(state_dir: Path) -> str:
    """Pilots of one user are told apart by their state directories. Without blanks: it is a word of jobs' comments."""
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '_', state_dir.name)}-{zlib.crc32(str(state_dir).encode()):08x}"
