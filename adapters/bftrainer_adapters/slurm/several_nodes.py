"""Holders of several nodes: where the settings forbid them, and what doctor says of them. Pure, but for the site's script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bftrainer.domain.checks import Check
from bftrainer.errors import UserError
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.setup import parse_version

STARTS_SEVERAL = "SLURM_JOB_NUM_NODES"
"""What a script contains that starts a payload on each node."""
SHRINKS_AGAIN_SINCE = (24, 11)
"""22.05.8 without accounting shrinks a job once: "Job update not available right now, the DB index is being set"."""


def check_settings(settings: SlurmSettings, site_max_nodes: int | None, where: str) -> None:
    """Raise ``UserError`` where a holder cannot have several nodes. ``site_max_nodes``: nodes.site_max_nodes."""
    if settings.nodes_per_holder == 1:
        return
    told = f"{where}: slurm.nodes_per_holder is {settings.nodes_per_holder}"
    if site_max_nodes is not None:
        raise UserError(
            f"{told}, and peer pilots count a job as one node of nodes.site_max_nodes; remove one of the two"
        )
    script = settings.holder_script
    if script and script.is_file() and STARTS_SEVERAL not in script.read_text(errors="replace"):
        raise UserError(
            f"{told}, but {script} starts its payload on one node; compare it with the installed holder.slurm"
        )


def several_nodes(settings: SlurmSettings, config: Mapping[str, str]) -> Iterator[Check]:
    """What such holders cost at this site."""
    most = settings.nodes_per_holder
    if most == 1:
        return
    told = f"up to {most} nodes share a holder job; a main job that takes one of them preempts all"
    accounting = config.get("AccountingStorageType", "").rpartition("/")[2] not in ("", "none", "(null)")
    if accounting or parse_version(config["SLURM_VERSION"]) >= SHRINKS_AGAIN_SINCE:
        yield Check.ok("nodes per holder", told)
        return
    yield Check.warning(
        "nodes per holder",
        f"{told}; without accounting, this Slurm lets a job give back nodes once, then the job ends whole",
        "none if trainers use all nodes; else set slurm.nodes_per_holder = 1",
    )
