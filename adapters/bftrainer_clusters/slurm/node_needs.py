"""What a waiting job asks of each of its nodes: features, cores, memory and GPUs. Pure.

What is not understood here excludes no node: nodes that a job cannot use are offered in vain at
worst, and a job that gets no offer waits for the end of a holder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bftrainer.cluster.model import Device, NodeView
from bftrainer_clusters.slurm.hostlists import NOTHING
from bftrainer_clusters.slurm.job_list import Job
from bftrainer_clusters.slurm.records import is_number
from bftrainer_clusters.slurm.states import gpus_of

_FEATURES = re.compile(r"[^&|,()\[\]*!]+(?:[&|,][^&|,()\[\]*!]+)*")
"""Names with one kind of operator at a time; not counts, groups and choices for all nodes."""
_MEMORY = re.compile(r"([0-9]{1,15})([KMGTP]?)[cn]?")
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}


@dataclass(frozen=True, slots=True)
class NodeNeeds:
    """What a job asks of each node: all of ``all_features`` and one of ``any_feature``, so many
    cores, so much memory, and GPUs. Empty or 0 where it asks for nothing, or that is not
    understood.
    """

    all_features: frozenset[str] = frozenset()
    any_feature: frozenset[str] = frozenset()
    cpus: int = 0
    memory_mib: int = 0
    devices: tuple[Device, ...] = ()

    def are_met_by(self, node: NodeView) -> bool:
        """Whether a node has all of that when it is idle."""
        if not self.all_features <= node.features:
            return False
        if self.any_feature and not self.any_feature & node.features:
            return False
        if self.cpus > node.cpus > 0 or self.memory_mib > node.memory_mib > 0:
            return False
        return all(_has(node, device) for device in self.devices)


def _has(node: NodeView, wanted: Device) -> bool:
    """Whether a node has GPUs of a type; of any, if none is named."""
    gpus = [gpu for gpu in node.devices if not wanted.kind or gpu.kind == wanted.kind]
    return sum(gpu.count for gpu in gpus) >= wanted.count


def needs_of(job: Job) -> NodeNeeds:
    """Return what a job asks of each node by its columns in the list of jobs."""
    all_features, any_feature = _features(job["%f"])
    cpus = job["%c"]
    return NodeNeeds(
        all_features,
        any_feature,
        int(cpus) if is_number(cpus) else 0,
        _memory_mib(job["%m"]),
        _devices(job["%b"]),
    )


def _features(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the features that a node must all have, and those of which it needs one: ``a&b``,
    ``a|b``. A mixture counts as no request, as everything that is not understood.
    """
    none = frozenset[str]()
    if text in NOTHING or not _FEATURES.fullmatch(text):
        return none, none
    if "|" not in text:
        return frozenset(re.split("[&,]", text)), none
    if "&" in text or "," in text:
        return none, none
    return none, frozenset(text.split("|"))


def _memory_mib(text: str) -> int:
    """Return the memory of ``4000M``; per core where the job asks so, of which a node has one at
    least.
    """
    parts = _MEMORY.fullmatch(text)
    return int(int(parts[1]) * _MIB[parts[2]]) if parts else 0


def _devices(text: str) -> tuple[Device, ...]:
    """Return the GPUs of ``gres:gpu:a100:2`` (22.05.8) or ``gres/gpu:a100:2`` (24.11.5, 26.05.5),
    among others.
    """
    if text in NOTHING:
        return ()
    names = (re.sub(r"^gres[:/]", "", entry) for entry in text.split(","))
    return gpus_of(",".join(names))
