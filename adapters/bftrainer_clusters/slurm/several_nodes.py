"""Holders of several nodes: where the settings forbid them, and what doctor says of them. Pure, but
for the site's script.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check
from bftrainer.errors import UserError
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import parse_version

STARTS_SEVERAL = "SLURM_JOB_NUM_NODES"
"""What a script contains that starts a payload on each node."""
SHRINKS_SINCE = (24, 11)
"""22.05.8 loses a node that a job has released: it is idle, and no job starts there. 24.11.5 and
26.05.5 do not; versions in between were not tried.
"""


def check_settings(settings: SlurmSettings, site_max_nodes: int | None, where: str) -> None:
    """Raise ``UserError`` if the settings ask for holders of several nodes where these cannot work.
    ``site_max_nodes``: nodes.site_max_nodes.
    """
    if settings.nodes_per_holder == 1:
        return
    setting = f"{where}: slurm.nodes_per_holder is {settings.nodes_per_holder}"
    if site_max_nodes is not None:
        raise UserError(
            f"{setting}, and peer pilots count a job as one node of nodes.site_max_nodes; remove "
            "one of the two"
        )
    script = settings.holder_script
    if script and script.is_file() and STARTS_SEVERAL not in script.read_text(errors="replace"):
        raise UserError(
            f"{setting}, but {script} starts its payload on one node; compare it with the "
            "installed holder.slurm"
        )


def shrinks_jobs(config: Mapping[str, str]) -> bool:
    """Whether jobs of this Slurm can release some of their nodes."""
    return parse_version(config["SLURM_VERSION"]) >= SHRINKS_SINCE


def why_not_several(settings: SlurmSettings, config: Mapping[str, str]) -> str:
    """Return why holders have one node each here although the settings ask for more; empty if they
    may have several.
    """
    if settings.nodes_per_holder == 1 or shrinks_jobs(config):
        return ""
    return (
        f"slurm.nodes_per_holder is {settings.nodes_per_holder}, but Slurm "
        f"{config['SLURM_VERSION']} starts no jobs on nodes "
        "that a job has released (24.11 and later do)"
    )


def several_nodes(settings: SlurmSettings, config: Mapping[str, str]) -> Iterator[Check]:
    """Check whether holders of several nodes work at this site, and say what they cost."""
    if why := why_not_several(settings, config):
        yield Check.broken("nodes per holder", why, "set slurm.nodes_per_holder = 1")
    elif settings.nodes_per_holder > 1:
        cost = (
            f"up to {counted(settings.nodes_per_holder, 'node')} share a holder job; a main "
            "job that "
            f"takes one of them preempts all"
        )
        yield Check.ok("nodes per holder", cost)
