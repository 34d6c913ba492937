"""The table ``[slurm]`` of the pilot's configuration."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from bftrainer.config.trainer_file import Count, Positive
from bftrainer.errors import InvalidValueError, UserError
from bftrainer_clusters.holding import holder_jobs
from bftrainer_clusters.holding.holder_jobs import HolderSettings
from bftrainer_clusters.slurm.clusters import check_name, cluster_options

RELOADED = holder_jobs.RELOADED | {
    "accept",
    "account",
    "calls_per_minute",
    "mem",
    "nodes_per_holder",
}
"""Keys that a running pilot applies on SIGHUP; its holders depend on the others."""
AcceptableCheck = Literal[
    "accounting", "exempt time", "oversubscribe", "preemption", "qos", "topology"
]
"""Checks without which no node is held. The partition must exist, and nodes must be visible, in any
case.
"""
_GPUS_OF_THE_JOB = re.compile(r"-G|--(gpus|tres-per-job)(=|$)")
_GPU_OPTIONS = re.compile(r"-G|--gpus(-per-(node|task|socket))?(=|$)")
_MEMORY_OPTIONS = re.compile(r"--mem(-per-[a-z]+)?(=|$)")
_GRES_OPTIONS = re.compile(r"--(gres|tres-per-task)(=|$)")
"""They request GPUs, or GRES of other kinds. tres-per-task is in 24.05 and later."""


class SlurmSettings(HolderSettings):
    """How nodes are held on a Slurm cluster."""

    partition: str = ""
    """The scavenger partition of the holders; may be left empty with QOS preemption."""
    qos: str = ""
    """The preemptible QOS of the holders; may be left empty with partition preemption."""
    account: str = ""
    """Account that holders are charged to."""
    cluster: str = ""
    """Cluster of all commands (-M), where several share a slurmdbd. Default: that of slurm.conf on
    the pilot's host.
    """
    mem: str = "0"
    """Memory that a holder requests on its node (--mem); "0": all of it, "": none. A --mem... in
    options replaces it.
    """
    gres: str = ""
    """GRES that holders and workers request on each node, such as "gpu:4". Default: all GPUs of the
    node.
    """
    parts_partition: str = ""
    """With nodes.unit = "gpu", the partition of holders beside other jobs: of a PriorityTier below
    that of partition.
    """
    parts_qos: str = ""
    """The same with QOS preemption: of a Priority below that of qos. Without either key, only idle
    nodes are held.
    """
    cpus_per_gpu: Count = 4
    """With nodes.unit = "gpu", cores of a holder beside other jobs for each of its GPUs, at most an
    equal share of the node.
    """
    mem_per_gpu: Count = 16_384
    """The same for memory, in MiB."""
    calls_per_minute: Annotated[float, Field(ge=4, le=60_000)] = 600.0
    """Budget of calls to slurmctld per minute (a look costs 5). Less where the site limits a user's
    calls (rl_enable).
    """
    nodes_per_holder: Annotated[int, Field(ge=1, le=64)] = 1
    """Maximum number of nodes that share a holder job. Fewer jobs; Slurm preempts all nodes of a
    job together.
    """
    accept: tuple[AcceptableCheck, ...] = ()
    """Checks of preemption that fail here and that the pilot holds nodes in spite of, such as
    ["exempt time"].
    """
    assume_window_s: Positive | None = None
    """Maximum hold time of a node. Required if the site hides other users' jobs (PrivateData)."""
    broker: str = ""
    """Folder in which bftrainer broker publishes Slurm's answers. Where none counts, the pilot asks
    Slurm itself.
    """
    broker_user: str = ""
    """The user who runs it. Files of others do not count."""
    backend: Literal["commands", "pyslurm"] = "commands"
    """How nodes and jobs are read."""

    @property
    def holds_parts(self) -> bool:
        """Whether the pilot holds parts of nodes as well: their holders have a lower priority, and
        Slurm preempts these first, so main jobs land on parts, and not on idle nodes.
        """
        return bool(self.parts_partition or self.parts_qos)

    @property
    def gpu_options(self) -> tuple[str, ...]:
        """The options that request GPUs, such as --gpus-per-node=4."""
        gres = tuple(option for option in self._gres_options() if "gpu" in option)
        return gres + tuple(option for option in self.options if _GPU_OPTIONS.match(option))

    @property
    def memory_options(self) -> tuple[str, ...]:
        """The options that request memory: --mem, --mem-per-cpu, --mem-per-gpu; not --mem-bind."""
        return tuple(option for option in self.options if _MEMORY_OPTIONS.match(option))

    def _gres_options(self) -> tuple[str, ...]:
        """Return the options that request GRES, each in one word: ("--gres", "gpu:4") ->
        "--gres=gpu:4".
        """
        words = (*self.options, "")  # the last option is paired with no value
        return tuple(
            option if "=" in option else f"{option}={value}"
            for option, value in pairwise(words)
            if _GRES_OPTIONS.match(option)
        )

    def check_unit_gpu(self, where: str) -> None:
        """Raise ``UserError`` for keys that do not go with ``nodes.unit = "gpu"``."""
        wrong = {
            "gres": self.gres,
            "options with GPUs": self.gpu_options,
            "nodes_per_holder": self.nodes_per_holder > 1,
            "backend": self.backend != "commands",
        }
        if keys := [key for key, value in wrong.items() if value]:
            raise UserError(
                f'{where}: slurm: nodes.unit = "gpu" requests the GPUs itself; remove '
                f"{' and '.join(keys)}"
            )
        if self.holds_parts and self.memory_options:
            raise UserError(
                f"{where}: slurm: holders of parts of a node request slurm.mem_per_gpu; remove "
                f"{self.memory_options[0]} "
                "from options"
            )

    @model_validator(mode="after")
    def _check(self) -> SlurmSettings:
        self._check_cluster()
        if self.start_within_s > 60 or self.longest_s < 60:
            raise InvalidValueError("expected start_within_s at most 60, longest_s at least 60")
        self._check_gres()
        return self

    def _check_cluster(self) -> None:
        """Raise ``InvalidValueError`` for keys that do not say where holders run, or whom the pilot
        asks.
        """
        if not self.partition and not self.qos:
            raise InvalidValueError(
                "holders need a partition or a qos that the main queue may preempt; set one of them"
            )
        check_name(self.cluster)
        if named := cluster_options(self.options):
            raise InvalidValueError(
                f"options: {named[0]} would submit holders to a cluster that the pilot does "
                "not list; set slurm.cluster"
            )
        if self.cluster and self.backend == "pyslurm":
            raise InvalidValueError(
                "pyslurm asks the cluster of slurm.conf only; with cluster, set backend = "
                '"commands"'
            )
        if bool(self.broker) != bool(self.broker_user):
            raise InvalidValueError("broker needs broker_user, and broker_user needs broker")

    def _check_gres(self) -> None:
        """Raise ``InvalidValueError`` for requests of GRES that contradict each other, or that do
        not request whole GPUs of each node.
        """
        if self.gres and self.gpu_options:
            raise InvalidValueError(
                f"gres and {self.gpu_options[0]} in options both request GRES; remove one of them"
            )
        job_options = [option for option in self.options if _GPUS_OF_THE_JOB.match(option)]
        if self.nodes_per_holder > 1 and job_options:
            raise InvalidValueError(
                f"nodes_per_holder is {self.nodes_per_holder}, and {job_options[0]} in options "
                "counts the GPUs of a whole job; "
                "request GPUs per node, such as --gpus-per-node=4"
            )
        requests = f"gres={self.gres}", *self._gres_options()
        if shards := [request for request in requests if re.search(r"[=,/]shard\b", request)]:
            raise InvalidValueError(
                f"{shards[0].lstrip('-')} requests shards, which are parts of GPUs that jobs "
                "share; hold whole GPUs, such as gpu:4"
            )
        for option in self._gres_options():
            name, _, value = option.partition("=")
            if name == "--gres" and "gpu" not in value:
                raise InvalidValueError(
                    f"options: {option} would replace the request for the GPUs of a node; "
                    f'remove it and set gres = "{value}", '
                    f'on nodes with GPUs "gpu:N,{value}"'
                )
