"""Whether holders may run on a Slurm site, and whether the main queue may end them. Pure; reasons in docs/site-setup.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bftrainer_adapters.holding.finding import SEE, SiteFinding, Weight
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.setup import Partition, Qos, exempt_s

_ENDS_JOBS = ("CANCEL", "REQUEUE")


def holders(
    settings: SlurmSettings,
    config: Mapping[str, str],
    partitions: Mapping[str, Partition],
    qos: Mapping[str, Qos] | None,
) -> Iterator[SiteFinding]:
    """Whether holders may run, and whether the main queue may end them."""
    by = config.get("PreemptType", "")
    if settings.partition:
        partition = partitions.get(settings.partition)
        if partition is None:
            known = ", ".join(sorted(partitions)) or "none"
            yield SiteFinding(
                "partition", Weight.ERROR, f"there is no partition {settings.partition!r}; there are {known}",
                f"set slurm.partition, or have the site add one ({SEE})",
            )  # fmt: skip
        else:
            yield _open(partition, settings)
            if by != "preempt/qos":
                yield _preempted_by_partition(partition, by, config, partitions.values())
    if exempt := exempt_s(config):
        yield SiteFinding(
            "exempt time", Weight.ERROR, f"PreemptExemptTime {exempt:g} s: so long nothing ends a holder that has just begun",
            "PreemptExemptTime=0, or that of a QOS for the jobs that need it",
        )  # fmt: skip
    if settings.qos:
        yield _preempted_by_qos(settings.qos, by, config, qos)
    elif by == "preempt/qos":
        yield SiteFinding(
            "preemption", Weight.ERROR, "PreemptType=preempt/qos, and slurm.qos is empty: nothing ends a holder",
            "set slurm.qos to the site's preemptible QOS",
        )  # fmt: skip


def _open(partition: Partition, settings: SlurmSettings) -> SiteFinding:
    name = f"partition {partition.name}"
    if partition.state != "UP":
        return SiteFinding(
            "partition",
            Weight.ERROR,
            f"{name} is {partition.state}",
            f"scontrol update PartitionName={partition.name} State=UP",
        )
    if partition.root_only:
        return SiteFinding(
            "partition", Weight.ERROR, f"{name} has RootOnly=YES", "RootOnly=NO: a pilot is no business of root's"
        )
    if partition.max_s < settings.longest_s:
        return SiteFinding(
            "partition", Weight.ERROR, f"{name} has MaxTime {partition.max_s:g} s, slurm.longest_s is {settings.longest_s:g}: "
            "holders on nodes without plans would never start", f"set slurm.longest_s = {partition.max_s:g} or less",
        )  # fmt: skip
    return SiteFinding("partition", Weight.FINE, f"{name}: {len(partition.nodes)} nodes, UP")


def _preempted_by_partition(
    ours: Partition, by: str, config: Mapping[str, str], all_of_them: Iterable[Partition]
) -> SiteFinding:
    if by != "preempt/partition_prio":
        return SiteFinding(
            "preemption", Weight.ERROR, f"PreemptType={by or 'preempt/none'}: a main job waits until a holder's time is over",
            f"PreemptType=preempt/partition_prio and PreemptMode=CANCEL ({SEE})",
        )  # fmt: skip
    if problem := _does_not_end("partition " + ours.name, ours.preempt_mode, config):
        return problem
    sharing = [p for p in all_of_them if p.name != ours.name and p.nodes & ours.nodes]
    above = sorted(p.name for p in sharing if p.tier > ours.tier)
    equal = sorted(p.name for p in sharing if p.tier <= ours.tier)
    tier = f"PriorityTier {ours.tier}"
    if not above:
        return SiteFinding(
            "preemption", Weight.ERROR,
            f"{tier}: no partition with its nodes is above {ours.name}, so nothing preempts holders",
            f"give the main partitions a PriorityTier above {ours.tier}",
        )  # fmt: skip
    if equal:
        return SiteFinding(
            "preemption", Weight.WARNING,
            f"{tier}: jobs of {', '.join(equal)} wait for holders, those of {', '.join(above)} do not",
            f"give {', '.join(equal)} a PriorityTier above {ours.tier}, or keep off their nodes (nodes.exclude)",
        )  # fmt: skip
    return SiteFinding("preemption", Weight.FINE, f"{tier}: {', '.join(above)} preempts holders, which are cancelled")


def _preempted_by_qos(name: str, by: str, config: Mapping[str, str], known: Mapping[str, Qos] | None) -> SiteFinding:
    if by != "preempt/qos":
        return SiteFinding(
            "qos", Weight.ERROR if by != "preempt/partition_prio" else Weight.WARNING,
            f"PreemptType={by or 'preempt/none'}: the QOS {name!r} makes no holder preemptible",
            f"PreemptType=preempt/qos ({SEE}), or leave slurm.qos empty",
        )  # fmt: skip
    if known is None:
        return SiteFinding(
            "qos", Weight.ERROR, "sacctmgr does not answer; a QOS needs accounting", "ask the site for slurmdbd"
        )
    ours = known.get(name)
    if ours is None:
        return SiteFinding(
            "qos",
            Weight.ERROR,
            f"there is no QOS {name!r}; there are {', '.join(sorted(known))}",
            f"sacctmgr add qos {name}",
        )
    mode = "" if ours.preempt_mode == "CLUSTER" else ours.preempt_mode
    if problem := _does_not_end(f"QOS {name}", mode, config):
        return problem
    above = sorted(q.name for q in known.values() if name in q.preempts)
    if not above:
        return SiteFinding(
            "qos", Weight.ERROR, f"no QOS lists {name} under Preempt, so nothing preempts holders",
            f"sacctmgr modify qos normal set Preempt={name}",
        )  # fmt: skip
    if ours.usage_factor:
        return SiteFinding(
            "qos", Weight.WARNING, f"UsageFactor {ours.usage_factor:g}: held nodes cost their owner fair-share",
            f"sacctmgr modify qos {name} set UsageFactor=0",
        )  # fmt: skip
    return SiteFinding("qos", Weight.FINE, f"{', '.join(above)} preempts {name}; held nodes cost nothing")


def _does_not_end(whose: str, mode: str, config: Mapping[str, str]) -> SiteFinding | None:
    effective = mode or config.get("PreemptMode", "OFF")
    if any(word in effective.upper().split(",") for word in _ENDS_JOBS):
        return None
    why = "holders would keep memory and GPUs" if "SUSPEND" in effective.upper() else "nothing ends a holder"
    return SiteFinding(
        "preemption", Weight.ERROR, f"{whose} has PreemptMode {effective}: {why}", f"PreemptMode=CANCEL ({SEE})"
    )
