"""Whether holders may run on a Slurm site, and whether the main queue may end them. Pure; reasons in docs/site-setup.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bftrainer.domain.checks import Check, CheckStatus
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.setup import Partition, Qos

SEE = "see docs/site-setup.md"
_ENDS_JOBS = ("CANCEL", "REQUEUE")
_EXEMPT = "min_exempt_priority"


def holders(
    settings: SlurmSettings,
    config: Mapping[str, str],
    partitions: Mapping[str, Partition],
    qos: Mapping[str, Qos] | None,
) -> Iterator[Check]:
    """Whether holders may run, and whether the main queue may end them."""
    by = config.get("PreemptType", "")
    if settings.partition:
        partition = partitions.get(settings.partition)
        if partition is None:
            known = ", ".join(sorted(partitions)) or "none"
            yield Check.broken(
                "partition",
                f"partition {settings.partition!r} does not exist; available: {known}",
                f"set slurm.partition, or ask the administrators for a partition ({SEE})",
            )
        else:
            yield _open(partition)
            if by != "preempt/qos":
                yield _preempted_by_partition(partition, by, config, partitions.values())
            yield from _whole_blocks(partition, partitions.values())
    if settings.qos:
        yield _preempted_by_qos(settings.qos, by, config, qos)
    elif by == "preempt/qos":
        yield Check.broken(
            "preemption",
            "PreemptType=preempt/qos, but slurm.qos is empty: nothing ends a holder",
            "set slurm.qos to the site's preemptible QOS",
        )


def _open(partition: Partition) -> Check:
    name = f"partition {partition.name}"
    if partition.state != "UP":
        return Check.broken(
            "partition",
            f"{name} is {partition.state}",
            f"scontrol update PartitionName={partition.name} State=UP",
        )
    if partition.root_only:
        return Check.broken(
            "partition", f"{name} has RootOnly=YES", "RootOnly=NO, so that an ordinary user can run the pilot"
        )
    return Check.ok("partition", f"{name}: {len(partition.nodes)} nodes, UP")


def _preempted_by_partition(
    ours: Partition, by: str, config: Mapping[str, str], all_of_them: Iterable[Partition]
) -> Check:
    if by != "preempt/partition_prio":
        return Check.broken(
            "preemption",
            f"PreemptType={by or 'preempt/none'}: main jobs would wait until a holder's time limit",
            f"PreemptType=preempt/partition_prio and PreemptMode=CANCEL ({SEE})",
        )
    if problem := _does_not_end("partition " + ours.name, ours.preempt_mode, config):
        return problem
    sharing = [p for p in all_of_them if p.name != ours.name and p.nodes & ours.nodes]
    above = sorted(p.name for p in sharing if p.tier > ours.tier)
    equal = sorted(p.name for p in sharing if p.tier <= ours.tier)
    tier = f"PriorityTier {ours.tier}"
    if not above:
        return Check.broken(
            "preemption",
            f"{tier}: no partition with its nodes is above {ours.name}, so nothing preempts holders",
            f"give the main partitions a PriorityTier above {ours.tier}",
        )
    if equal:
        return Check.warning(
            "preemption",
            f"{tier}: jobs of {', '.join(equal)} wait for holders, those of {', '.join(above)} do not",
            f"give {', '.join(equal)} a PriorityTier above {ours.tier}, or exclude their nodes (nodes.exclude)",
        )
    return Check.ok("preemption", f"{tier}: {', '.join(above)} preempts holders, which are canceled")


def _whole_blocks(ours: Partition, all_of_them: Iterable[Partition]) -> Iterator[Check]:
    """24.11.5 and 26.05.5 preempt jobs on the nodes that a job gets, but not those on the other nodes of its block."""
    found = sorted(p.name for p in all_of_them if p.whole_blocks and p.name != ours.name and p.nodes & ours.nodes)
    if found:
        yield Check.broken(
            "topology",
            f"jobs of {', '.join(found)} get whole blocks of nodes (Exclusive=TOPO, ExclusiveTopo=YES): "
            "they wait for holders on the other nodes of their block",
            f"exclude the nodes of {', '.join(found)} (nodes.exclude), or have the administrators use Exclusive=NODE",
        )


def _preempted_by_qos(name: str, by: str, config: Mapping[str, str], known: Mapping[str, Qos] | None) -> Check:
    if by != "preempt/qos":
        return Check(
            "qos",
            CheckStatus.BROKEN if by != "preempt/partition_prio" else CheckStatus.WARNING,
            f"PreemptType={by or 'preempt/none'}: QOS {name!r} does not make holders preemptible",
            f"PreemptType=preempt/qos ({SEE}), or leave slurm.qos empty",
        )
    if known is None:
        return Check.broken(
            "qos", "sacctmgr does not answer; a QOS needs accounting", "ask the administrators for slurmdbd"
        )
    ours = known.get(name)
    if ours is None:
        return Check.broken(
            "qos",
            f"QOS {name!r} does not exist; available: {', '.join(sorted(known))}",
            f"sacctmgr add qos {name}",
        )
    mode = "" if ours.preempt_mode == "CLUSTER" else ours.preempt_mode
    if problem := _does_not_end(f"QOS {name}", mode, config):
        return problem
    above = sorted(q.name for q in known.values() if name in q.preempts)
    if not above:
        return Check.broken(
            "qos",
            f"no QOS lists {name} under Preempt, so nothing preempts holders",
            f"sacctmgr modify qos normal set Preempt={name}",
        )
    if "WITHIN" in mode.split(","):
        return Check.warning(
            "qos",
            f"PreemptMode {ours.preempt_mode}: holders of one pilot may preempt another pilot's",
            f"sacctmgr modify qos {name} set PreemptMode=cancel",
        )
    if ours.usage_factor:
        return Check.warning(
            "qos",
            f"UsageFactor {ours.usage_factor:g}: held nodes cost their owner fair-share",
            f"sacctmgr modify qos {name} set UsageFactor=0",
        )
    return Check.ok("qos", f"{', '.join(above)} preempts {name}; held nodes cost nothing")


def _does_not_end(whose: str, mode: str, config: Mapping[str, str]) -> Check | None:
    """PreemptMode. Its flag PRIORITY, and min_exempt_priority, spare a job whose priority is high enough."""
    effective = mode or config.get("PreemptMode", "OFF")
    words = effective.upper().split(",")
    if any(word in words for word in _ENDS_JOBS):
        exempt = next((w for w in config.get("PreemptParameters", "").split(",") if w.startswith(_EXEMPT)), "")
        flags = [f"PreemptMode {effective}"] * ("PRIORITY" in words) + [f"PreemptParameters={exempt}"] * bool(exempt)
        if not flags:
            return None
        return Check.broken(
            "preemption",
            f"{whose}: {' and '.join(flags)}: main jobs wait for a holder whose priority is as high as theirs",
            f"remove {' and '.join(['PRIORITY'] * ('PRIORITY' in words) + [_EXEMPT] * bool(exempt))}, or see that holders "
            'have the lowest priority of all: a QOS with Priority=0, and slurm.options = ["--nice=2147483645"]',
        )
    why = "holders would keep memory and GPUs" if "SUSPEND" in effective.upper() else "nothing ends a holder"
    return Check.broken("preemption", f"{whose} has PreemptMode {effective}: {why}", f"PreemptMode=CANCEL ({SEE})")
