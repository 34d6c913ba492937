"""Holders of several nodes: where the settings forbid them, and what doctor says of them. Pure, but
for the site's script.

A holder releases all of its nodes or none. Slurm can shrink a job (``scontrol update
ReqNodeList``), but then loses sight of the released node: after the end of each later job there,
slurmctld takes the node for busy until it pings its slurmd, although it shows the node as idle:
main jobs waited for 164 to 168 s. Seen with 22.05.8, and with 24.11.5 and 26.05.5 if an Epilog
takes longer than a second (tests/slurm/shrunk_jobs.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check
from bftrainer.errors import UserError
from bftrainer_clusters.slurm.config import SlurmSettings

STARTS_SEVERAL = "SLURM_JOB_NUM_NODES"
"""What a script contains that starts a payload on each node."""


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


def several_nodes(settings: SlurmSettings) -> Iterator[Check]:
    """Say what holders of several nodes cost."""
    if settings.nodes_per_holder == 1:
        return
    cost = (
        f"up to {counted(settings.nodes_per_holder, 'node')} share a holder job; a main job that "
        "takes one of them ends all, and a second job holds the others"
    )
    yield Check.ok("nodes per holder", cost)
