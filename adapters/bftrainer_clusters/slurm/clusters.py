"""One of several clusters that share a slurmdbd: the option that names it, and what commands print
because of it. Pure.

Without the option, a command asks the cluster of its slurm.conf. With it, slurmdbd says where the
other cluster's slurmctld is. Tried with 22.05.8, 24.11.5 and 26.05.5: sbatch, srun, scancel,
squeue, scontrol and sdiag take ``-M``; sacctmgr, which asks slurmdbd, has conditions instead.
``-M`` also restricts a command to that cluster where it is in a federation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bftrainer.decide.domain.checks import Check
from bftrainer.errors import InvalidValueError, SchedulerError, UserError

VARIABLE = "SLURM_CLUSTERS"
"""The environment variable by which users choose a cluster for Slurm's commands; a site's module
may set it.
"""
HOST_CLUSTER = "SLURM_CLUSTER_NAME"
"""The environment variable that tells a job which cluster runs it."""
LOCAL = {"SQUEUE_LOCAL": "1", "SCONTROL_LOCAL": "1"}
"""Environment by which commands show only this cluster's jobs and nodes, where a federation shows
those of its siblings as well (FederationParameters=fed_display).
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_OPTION = re.compile(r"-M|--clusters(=|$)")


def check_name(cluster: str) -> str:
    """Return ``cluster`` as it is, if it is the name of one cluster, or empty. Raises
    ``InvalidValueError`` for several ("a,b") and for "all".
    """
    if cluster and (cluster == "all" or not _NAME.fullmatch(cluster)):
        raise InvalidValueError(
            f"{cluster!r} is not the name of one cluster (`sacctmgr show cluster` lists them)"
        )
    return cluster


def cluster_options(options: Sequence[str]) -> tuple[str, ...]:
    """Return those options of sbatch that name a cluster."""
    return tuple(option for option in options if _OPTION.match(option))


def check_environment(cluster: str, environment: Mapping[str, str], where: str) -> None:
    """Raise ``UserError`` if SLURM_CLUSTERS sends the user's own commands to another cluster than
    the pilot's. ``cluster`` is slurm.cluster (empty: the cluster of this job, if this is one), and
    ``where`` is the file that sets it.

    SLURM_CLUSTERS is not obeyed: a successor, and a pilot started from another shell, have another
    environment.
    """
    users_cluster = environment.get(VARIABLE, "")
    pilots_cluster = cluster or environment.get(HOST_CLUSTER, "")
    if users_cluster in ("", pilots_cluster):
        return
    if cluster:
        raise UserError(
            f'{where}: slurm.cluster is "{cluster}", but {VARIABLE}={users_cluster}; unset one of '
            "them"
        )
    raise UserError(
        f"{where}: {VARIABLE}={users_cluster}, which bftrainer does not obey; set slurm.cluster = "
        f'"{users_cluster}", or unset {VARIABLE}'
    )


def chosen_cluster(environment: Mapping[str, str]) -> str:
    """Return the cluster of commands that have no configuration, which SLURM_CLUSTERS names; empty
    for that of slurm.conf. Raises ``UserError`` if the variable names several.
    """
    try:
        return check_name(environment.get(VARIABLE, ""))
    except InvalidValueError as error:
        raise UserError(f"{VARIABLE}: {error}") from error


def of_cluster(argv: Sequence[str], cluster: str) -> list[str]:
    """Return the command for this cluster (``-M``); unchanged if ``cluster`` is empty, and for
    sacctmgr, which has no such option.
    """
    if not cluster or argv[0] == "sacctmgr":
        return [*argv]
    return [argv[0], "-M", cluster, *argv[1:]]


def without_heading(argv: Sequence[str], text: str, cluster: str) -> str:
    """Return squeue's output without the line ``CLUSTER: name``, which ``-M`` puts before the
    header (but not with ``-h``). Raises ``SchedulerError`` if it begins otherwise.
    """
    if not cluster or argv[0] != "squeue" or "-h" in argv or not text:
        return text
    heading, _, rest = text.partition("\n")
    if heading != f"CLUSTER: {cluster}":
        raise SchedulerError(
            f"squeue -M {cluster} begins with {heading[:80]!r}, expected 'CLUSTER: {cluster}'"
        )
    return rest


def cluster_name(config_text: str) -> str:
    """Return ClusterName from ``scontrol show config``; empty if it is not there."""
    line = re.search(r"^ClusterName\s*=\s*(\S+)", config_text, re.MULTILINE)
    return line[1] if line else ""


def federation_argv() -> list[str]:
    """Build the query for the federation of this cluster."""
    return ["scontrol", "show", "federation"]


def parse_federation(text: str) -> str:
    """Parse the answer to :func:`federation_argv`: the federation's name; empty if the cluster is
    in none.
    """
    line = re.search(r"^Federation:\s+(\S+)", text, re.MULTILINE)
    return line[1] if line else ""


def cluster_check(cluster: str, name: str, federation: str) -> Check:
    """Return doctor's line on the cluster that it looked at. ``cluster`` is slurm.cluster, ``name``
    is ClusterName, and ``federation`` the cluster's federation, if it is in one.
    """
    if why := why_no_cluster(cluster, name, federation):
        return Check.broken("cluster", why, f'set slurm.cluster = "{name}"')
    if cluster:
        return Check.ok("cluster", f"{name} (slurm.cluster)")
    return Check.ok("cluster", f"{name} (this host's slurm.conf)")


def why_no_cluster(cluster: str, name: str, federation: str) -> str:
    """Return why holders cannot be submitted without ``slurm.cluster``: the cluster is in a
    federation. Empty if they can. The parameters are those of :func:`cluster_check`.
    """
    if cluster or not federation:
        return ""
    return (
        f"cluster {name} is in federation {federation}: without slurm.cluster, sbatch may "
        "start a holder on a sibling"
    )
