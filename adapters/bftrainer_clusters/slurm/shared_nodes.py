"""What doctor says of a pilot that holds GPUs of shared nodes (``nodes.unit = "gpu"``). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bftrainer.cluster.model import NodeView
from bftrainer.decide.domain.checks import Check
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.hostlists import NOTHING
from bftrainer_clusters.slurm.setup import Partition

CONSTRAINED = ("ConstrainCores", "ConstrainRAMSpace", "ConstrainDevices")


def shared_nodes(
    settings: SlurmSettings, config: Mapping[str, str], partitions: Mapping[str, Partition]
) -> Iterator[Check]:
    """Check whether training can disturb the jobs beside it on a node, and whether there are parts
    of nodes to hold.
    """
    yield _check_cgroups(config)
    yield _check_preemption_order(settings, config, partitions)
    yield _check_memory_limits(config)
    yield _check_node_sharing(settings, config, partitions)
    if programs := [key for key in ("Prolog", "Epilog") if _is_set(config, key)]:
        yield Check.warning(
            "beside jobs",
            f"{' and '.join(programs)} run at holders' starts and ends, beside other jobs of "
            "the node",
            "make sure that they reset no GPU, and end no process, of other jobs",
        )


def _check_memory_limits(config: Mapping[str, str]) -> Check:
    """Check whether Slurm gives jobs the memory that they request, and no more."""
    parameters = config.get("SelectTypeParameters", "").upper()
    if "MEMORY" in parameters:
        return Check.ok(
            "memory",
            "jobs request memory: a holder takes no more than slurm.mem_per_gpu for each GPU",
        )
    detail = (
        f"SelectTypeParameters={parameters or '(null)'}: jobs request no memory, so a "
        "holder cannot bound its own"
    )
    return Check.broken(
        "memory", detail, 'SelectTypeParameters=CR_Core_Memory, or nodes.unit = "node"'
    )


def _check_node_sharing(
    settings: SlurmSettings, config: Mapping[str, str], partitions: Mapping[str, Partition]
) -> Check:
    """Check whether main jobs, and holders of parts, share nodes with other jobs. Main jobs are
    those of other partitions with nodes of the holders' one; of all partitions, if there is no such
    partition.
    """
    select_type = config.get("SelectType", "")
    parameters = config.get("SelectTypeParameters", "").upper()
    ours = partitions.get(settings.parts_partition or settings.partition)
    own_names = (settings.partition, settings.parts_partition)
    main = [
        partition
        for partition in partitions.values()
        if ours is None or (partition.name not in own_names and partition.nodes & ours.nodes)
    ]
    exclusive = [
        f"{partition.name} ({partition.whole_nodes})" for partition in main if partition.whole_nodes
    ]
    is_linear = select_type.endswith("linear")
    if is_linear or (main and len(exclusive) == len(main)):
        why = select_type if is_linear else ", ".join(exclusive)
        return Check.warning(
            "shared nodes",
            f"jobs get whole nodes: {why}",
            'set nodes.unit = "node": there are no parts',
        )
    if ours is not None and ours.whole_nodes:
        return Check.broken(
            "shared nodes",
            f"holders of {ours.name} get whole nodes: {ours.whole_nodes}",
            "OverSubscribe=NO",
        )
    if "LLN" in parameters or any(partition.spreads for partition in main):
        return Check.ok(
            "shared nodes", "jobs go to the emptiest nodes (LLN): many parts, few whole nodes"
        )
    return Check.ok("shared nodes", "jobs share nodes")


def _check_preemption_order(
    settings: SlurmSettings, config: Mapping[str, str], partitions: Mapping[str, Partition]
) -> Check:
    """Check whether Slurm ends holders of parts before those of whole nodes: it ends holders one
    after the other until the main job fits, the youngest first or the lowest priority first.

    So a main job of one GPU lands where the first ended holder was (src/interfaces/preempt.c; 22.05
    and later).
    """
    name = "parts first"
    if not settings.holds_parts:
        detail = "only idle nodes are held: no partition or QOS of a lower priority for parts"
        return Check.warning(name, detail, "set slurm.parts_partition (or slurm.parts_qos)")
    parameters = f"{config.get('SchedulerParameters', '')},{config.get('PreemptParameters', '')}"
    if "youngest_first" in parameters:
        detail = (
            "Slurm preempts the youngest holders first, on idle nodes as well as parts: "
            "main jobs would land anywhere"
        )
        return Check.broken(
            name,
            detail,
            "remove preempt_youngest_first, or slurm.parts_partition and slurm.parts_qos",
        )
    if settings.parts_partition:
        ours, parts = partitions.get(settings.partition), partitions.get(settings.parts_partition)
        if (
            parts is None
            or ours is None
            or parts.tier >= ours.tier
            or parts.preempt_mode != ours.preempt_mode
        ):
            detail = (
                f"partition {settings.parts_partition} must be like {settings.partition}, "
                "with a lower PriorityTier"
            )
            return Check.broken(name, detail, "add that partition, or lower its PriorityTier")
        return Check.ok(
            name, f"PriorityTier {parts.tier}: main jobs preempt parts before whole nodes"
        )
    return Check.ok(
        name, f"QOS {settings.parts_qos}, whose Priority must be below that of {settings.qos}"
    )


def _check_cgroups(config: Mapping[str, str]) -> Check:
    """Check whether cgroups limit jobs: otherwise training slows down or kills the jobs
    beside it.
    """
    missing = [key for key in CONSTRAINED if config.get(key, "no").lower() != "yes"]
    settings = [f"{key}=yes" for key in missing]
    if "task/cgroup" not in config.get("TaskPlugin", ""):
        settings.insert(0, "TaskPlugin=task/cgroup")
    if not settings:
        return Check.ok("limits", "cgroups limit cores, memory and devices of jobs")
    detail = "training could take cores, memory or GPUs of the jobs beside it: no cgroup limits"
    return Check.broken(
        "limits",
        detail,
        f'set {", ".join(settings)} (slurm.conf, cgroup.conf), or nodes.unit = "node"',
    )


def _is_set(config: Mapping[str, str], key: str) -> bool:
    """Return whether a setting has a value, under its name or, if it is a list, that of its first
    entry.
    """
    return any(config.get(name, "(null)") not in NOTHING for name in (key, f"{key}[0]"))


def left_alone(nodes: Iterable[NodeView]) -> Iterator[Check]:
    """Report the nodes whose GPUs cannot be held one by one."""
    names = sorted(node.name for node in nodes if node.devices and node.idle is None)
    if names:
        examples = f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]
        detail = (
            f"left alone: {examples} (several types, shards, MPS, MIG, drained GPUs, or no "
            "File= in gres.conf)"
        )
        yield Check.warning("GPUs", detail, "none, if these nodes are not meant for training")
