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
    yield _cgroups(config)
    yield _order(settings, config, partitions)
    select, words = config.get("SelectType", ""), config.get("SelectTypeParameters", "").upper()
    if "MEMORY" in words:
        yield Check.ok(
            "memory",
            "jobs request memory: a holder takes no more than slurm.mem_per_gpu for each GPU",
        )
    else:
        detail = (
            f"SelectTypeParameters={words or '(null)'}: jobs request no memory, so a "
            "holder cannot bound its own"
        )
        yield Check.broken(
            "memory", detail, 'SelectTypeParameters=CR_Core_Memory, or nodes.unit = "node"'
        )
    ours = partitions.get(settings.parts_partition or settings.partition)
    main = [
        p
        for p in partitions.values()
        if ours is None
        or (p.name not in (settings.partition, settings.parts_partition) and p.nodes & ours.nodes)
    ]
    alone = [f"{p.name} ({p.whole_nodes})" for p in main if p.whole_nodes]
    if select.endswith("linear") or (main and len(alone) == len(main)):
        why = select if select.endswith("linear") else ", ".join(alone)
        yield Check.warning(
            "shared nodes",
            f"jobs get whole nodes: {why}",
            'set nodes.unit = "node": there are no parts',
        )
    elif ours is not None and ours.whole_nodes:
        yield Check.broken(
            "shared nodes",
            f"holders of {ours.name} get whole nodes: {ours.whole_nodes}",
            "OverSubscribe=NO",
        )
    else:
        spreads = "LLN" in words or any(p.spreads for p in main)
        sharing = (
            "jobs go to the emptiest nodes (LLN): many parts, few whole nodes"
            if spreads
            else "jobs share nodes"
        )
        yield Check.ok("shared nodes", sharing)
    if programs := [key for key in ("Prolog", "Epilog") if _is_set(config, key)]:
        yield Check.warning(
            "beside jobs",
            f"{' and '.join(programs)} run at holders' starts and ends, beside other jobs of "
            "the node",
            "make sure that they reset no GPU, and end no process, of other jobs",
        )


def _order(
    settings: SlurmSettings, config: Mapping[str, str], partitions: Mapping[str, Partition]
) -> Check:
    """Check whether Slurm ends holders of parts before those of whole nodes: it ends one after the
    other until the main job fits, the youngest first or the lowest priority first.

    So a main job of one GPU lands where the first holder was (src/interfaces/preempt.c; 22.05 and
    later).
    """
    name = "parts first"
    if not settings.holds_parts:
        detail = "only idle nodes are held: no partition or QOS of a lower priority for parts"
        return Check.warning(name, detail, "set slurm.parts_partition (or slurm.parts_qos)")
    words = f"{config.get('SchedulerParameters', '')},{config.get('PreemptParameters', '')}"
    if "youngest_first" in words:
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


def _cgroups(config: Mapping[str, str]) -> Check:
    """Check whether cgroups limit jobs: otherwise training slows down or kills the jobs
    beside it.
    """
    missing = [key for key in CONSTRAINED if config.get(key, "no").lower() != "yes"]
    plugin = "task/cgroup" not in config.get("TaskPlugin", "")
    if not plugin and not missing:
        return Check.ok("limits", "cgroups limit cores, memory and devices of jobs")
    lacks = ["TaskPlugin=task/cgroup"] * plugin + [f"{key}=yes" for key in missing]
    detail = "training could take cores, memory or GPUs of the jobs beside it: no cgroup limits"
    return Check.broken(
        "limits",
        detail,
        f'set {", ".join(lacks)} (slurm.conf, cgroup.conf), or nodes.unit = "node"',
    )


def _is_set(config: Mapping[str, str], key: str) -> bool:
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
