"""Whether holders may run on a Slurm site, and whether all of the main queue may end them. Pure;
reasons in docs/site-setup.md.

The same checks are printed by doctor and decide whether a pilot submits a holder
(:mod:`.site_checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check
from bftrainer_clusters.slurm.associations import Accounting
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import Partition, Qos

SEE = "see docs/site-setup.md"
BY_PARTITION, BY_QOS = "preempt/partition_prio", "preempt/qos"
_ENDS_JOBS = ("CANCEL", "REQUEUE")
_EXEMPT = "min_exempt_priority"
_MOST_NAMES = 4


def holders(
    settings: SlurmSettings,
    config: Mapping[str, str],
    partitions: Mapping[str, Partition],
    accounting: Accounting,
    unused_qos: frozenset[str] = frozenset(),
    may_hold: Callable[[str], bool] = lambda node: True,
) -> Iterator[Check]:
    """Check whether holders may run, and whether every job that can use their nodes may
    end them.

    ``unused_qos``: QOSes that no job has. ``may_hold``: whether the pilot holds a node at
    all.
    """
    by = config.get("PreemptType", "")
    ours = partition_of(settings, partitions)
    if settings.partition and ours is None:
        available = ", ".join(sorted(partitions)) or "none"
        yield Check.broken(
            "partition",
            f"partition {settings.partition!r} does not exist; available: {available}",
            f"set slurm.partition, or ask the administrators for a partition ({SEE})",
        )
    elif ours is None and by != BY_QOS:
        yield Check.broken(
            "partition",
            "slurm.partition is empty, and no partition is the default",
            "set slurm.partition",
        )
    if ours is not None:
        if settings.partition:
            yield _check_partition_open(ours)
        nodes = frozenset(filter(may_hold, ours.nodes))
        others = _main_partitions(settings, ours, nodes, partitions)
        if by != BY_QOS:
            yield _preempted_by_partition(ours, nodes, by, config, others, default_of(partitions))
        yield from _whole_blocks(others)
        yield from _shared_cores(ours, by, others)
    if settings.qos:
        in_the_way = (
            qos_that_keep_waiting(settings, config, partitions, accounting, may_hold) - unused_qos
        )
        yield _preempted_by_qos(settings.qos, by, config, accounting, in_the_way)
    elif by == BY_QOS:
        yield Check.broken(
            "preemption",
            "PreemptType=preempt/qos, but slurm.qos is empty: nothing ends a holder",
            "set slurm.qos to the site's preemptible QOS",
        )


def partition_of(settings: SlurmSettings, partitions: Mapping[str, Partition]) -> Partition | None:
    """Return the partition in which holders run: ``slurm.partition``, or the cluster's default;
    None if it does not exist.
    """
    if settings.partition:
        return partitions.get(settings.partition)
    return default_of(partitions)


def default_of(partitions: Mapping[str, Partition]) -> Partition | None:
    """Return the partition of jobs that name none; None if the cluster has no default."""
    return next((partition for partition in partitions.values() if partition.is_default), None)


def _main_partitions(
    settings: SlurmSettings,
    ours: Partition,
    nodes: frozenset[str],
    partitions: Mapping[str, Partition],
) -> list[Partition]:
    """Return the partitions that have some of these nodes, but no holder of this pilot."""
    own = {ours.name, settings.parts_partition}
    return [
        partition
        for partition in partitions.values()
        if partition.name not in own and partition.nodes & nodes
    ]


def _check_partition_open(partition: Partition) -> Check:
    """Check whether an ordinary user's jobs start in the partition of holders."""
    name = f"partition {partition.name}"
    if partition.state != "UP":
        return Check.broken(
            "partition",
            f"{name} is {partition.state}",
            f"scontrol update PartitionName={partition.name} State=UP",
        )
    if partition.root_only:
        return Check.broken(
            "partition",
            f"{name} has RootOnly=YES",
            "RootOnly=NO, so that an ordinary user can run the pilot",
        )
    return Check.ok("partition", f"{name}: {counted(len(partition.nodes), 'node')}, UP")


def _preempted_by_partition(
    ours: Partition,
    nodes: frozenset[str],
    by: str,
    config: Mapping[str, str],
    others: Iterable[Partition],
    default: Partition | None,
) -> Check:
    """Check whether jobs of all ``others`` preempt holders by the PriorityTier of their
    partition.

    A partition that is set up like the cluster's ``default`` is a queue for main jobs, whatever
    preempts them: nothing sets its jobs apart. Partitions that are DOWN, or only for root, start no
    job that could wait; they show whose the nodes are all the same.
    """
    if by != BY_PARTITION:
        return Check.broken(
            "preemption",
            f"PreemptType={by or 'preempt/none'}: main jobs would wait until a holder's time limit",
            f"PreemptType=preempt/partition_prio and PreemptMode=CANCEL ({SEE})",
        )
    if problem := _does_not_end("partition " + ours.name, ours.preempt_mode, config):
        return problem
    above = [partition for partition in others if partition.tier > ours.tier]
    equal = _names_text(p.name for p in others if p.tier <= ours.tier and p.starts_jobs)
    tier = f"PriorityTier {ours.tier}"
    if not above:
        return Check.broken(
            "preemption",
            f"{tier}: no partition with its nodes is above {ours.name}, so nothing preempts "
            "holders",
            f"give the main partitions a PriorityTier above {ours.tier}",
        )
    names = _names_text(partition.name for partition in above)
    if equal:
        return Check.broken(
            "preemption",
            f"{tier}: jobs of {equal} wait for holders, those of {names} do not",
            f"give {equal} a PriorityTier above {ours.tier}, or exclude their nodes "
            "(nodes.exclude)",
        )
    if ours.is_default:
        return Check.broken(
            "preemption",
            f"partition {ours.name} is the default: jobs that name no partition run there, and "
            "wait for holders",
            "set slurm.partition to a partition of its own for preemptible jobs",
        )
    if default is not None and _treats_alike(ours, default):
        return Check.broken(
            "preemption",
            f"partition {ours.name} has the PriorityTier and PreemptMode of the default "
            f"partition {default.name}: jobs of both are main jobs, and wait for holders",
            "set slurm.partition to a partition of its own for preemptible jobs",
        )
    if alone := nodes.difference(*(partition.nodes for partition in above)):
        return Check.broken(
            "preemption",
            f"{tier}: {_names_text(alone)} in no partition above {ours.name}: its own jobs are the "
            "main queue there",
            "exclude these nodes (nodes.exclude)",
        )
    return Check.ok("preemption", f"{tier}: {names} preempts holders, which are canceled")


def _treats_alike(ours: Partition, default: Partition) -> bool:
    """Whether Slurm treats the jobs of two partitions alike when others need their nodes."""
    return (ours.tier, ours.preempt_mode) == (default.tier, default.preempt_mode)


def _whole_blocks(others: Iterable[Partition]) -> Iterator[Check]:
    """Check whether jobs of other partitions get whole blocks of nodes: 24.11.5 and 26.05.5 preempt
    jobs on the nodes that such a job gets, but not those on the other nodes of its block.
    """
    if names := _names_text(partition.name for partition in others if partition.whole_blocks):
        yield Check.broken(
            "topology",
            f"jobs of {names} get whole blocks of nodes (Exclusive=TOPO, ExclusiveTopo=YES): "
            "they wait for holders on the other nodes of their block",
            f"exclude the nodes of {names} (nodes.exclude), or have the administrators use "
            "Exclusive=NODE",
        )


def _shared_cores(ours: Partition, by: str, others: Iterable[Partition]) -> Iterator[Check]:
    """Check whether main jobs would run on the cores of a holder instead of preempting it
    (OverSubscribe=FORCE), although the holder asked for --exclusive.

    Seen with 22.05.8 where both jobs are in such partitions, and in one such partition without
    preemption. Where only one of two partitions forces, the holder is preempted. FORCE:1 shares
    nothing.
    """
    sharing = [
        partition.name
        for partition in others
        if partition.jobs_a_core > 1 and partition.starts_jobs
    ]
    if by != BY_PARTITION or ours.is_default:  # it may be the main queue's own
        sharing.append(ours.name)
    if ours.jobs_a_core > 1 and sharing:
        yield Check.broken(
            "oversubscribe",
            f"partition {ours.name} has OverSubscribe=FORCE:{ours.jobs_a_core}: jobs of "
            f"{_names_text(sharing)} run on the cores and "
            "GPUs of holders, beside training",
            f"OverSubscribe=EXCLUSIVE for {ours.name}",
        )


def qos_that_keep_waiting(
    settings: SlurmSettings,
    config: Mapping[str, str],
    partitions: Mapping[str, Partition],
    accounting: Accounting,
    may_hold: Callable[[str], bool],
) -> frozenset[str]:
    """Return the QOSes whose jobs can use the nodes of holders and do not preempt holders, as far
    as sacctmgr shows.

    A QOS that is preempted by all that preempt holders is preemptible itself, and does not count,
    unless jobs get it that name none.
    """
    all_qos = accounting.qos
    if config.get("PreemptType") != BY_QOS or all_qos is None or settings.qos not in all_qos:
        return frozenset()
    ours = partition_of(settings, partitions)
    nodes = frozenset(filter(may_hold, ours.nodes)) if ours is not None else frozenset[str]()
    reachable = [
        partition
        for partition in partitions.values()
        if partition.starts_jobs and (ours is None or partition.nodes & nodes)
    ]
    above = _preempting_qos(settings.qos, all_qos)

    def keeps_waiting(name: str) -> bool:
        if not any(partition.admits(name) for partition in reachable):
            return False
        return name == accounting.default_qos or not above <= _preempting_qos(name, all_qos)

    others = all_qos.keys() - above - {settings.qos, settings.parts_qos}
    return frozenset(filter(keeps_waiting, others))


def _preempting_qos(name: str, all_qos: Mapping[str, Qos]) -> frozenset[str]:
    return frozenset(qos.name for qos in all_qos.values() if name in qos.preempts)


def _preempted_by_qos(
    name: str,
    by: str,
    config: Mapping[str, str],
    accounting: Accounting,
    in_the_way: frozenset[str],
) -> Check:
    """Check whether jobs of all other QOSes preempt holders, whose QOS is ``name``. ``in_the_way``:
    QOSes that do not (:func:`qos_that_keep_waiting`).
    """
    if by != BY_QOS:
        detail = (
            f"PreemptType={by or 'preempt/none'}: QOS {name!r} does not make holders preemptible"
        )
        remedy = f"PreemptType=preempt/qos ({SEE}), or leave slurm.qos empty"
        return (Check.warning if by == BY_PARTITION else Check.broken)("qos", detail, remedy)
    all_qos = accounting.qos
    if all_qos is None:
        why = f" ({accounting.silence})" if accounting.silence else ""
        return Check.broken(
            "qos",
            f"sacctmgr does not answer{why}; a QOS needs accounting",
            "ask the administrators for slurmdbd",
        )
    ours = all_qos.get(name)
    if ours is None:
        return Check.broken(
            "qos",
            f"QOS {name!r} does not exist; available: {', '.join(sorted(all_qos))}",
            f"sacctmgr add qos {name}",
        )
    mode = "" if ours.preempt_mode == "CLUSTER" else ours.preempt_mode
    if problem := _does_not_end(f"QOS {name}", mode, config):
        return problem
    above = _names_text(_preempting_qos(name, all_qos))
    if not above:
        return Check.broken(
            "qos",
            f"no QOS lists {name} under Preempt, so nothing preempts holders",
            f"sacctmgr modify qos normal set Preempt={name}",
        )
    if name == accounting.default_qos:
        return Check.broken(
            "qos",
            f"jobs that name no QOS get {name}, as holders do: they wait for holders",
            "set slurm.qos to a QOS of its own for preemptible jobs",
        )
    if in_the_way:
        names = _names_text(in_the_way)
        return Check.broken(
            "qos",
            f"jobs of QOS {names} wait for holders, those of {above} do not",
            f"sacctmgr modify qos {','.join(sorted(in_the_way))} set Preempt+={name}; or a "
            "partition with other nodes for "
            "them (AllowQos)",
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
    return Check.ok("qos", f"{above} preempts {name}; held nodes cost nothing")


def _does_not_end(whose: str, mode: str, config: Mapping[str, str]) -> Check | None:
    """Return a failed check if PreemptMode does not end holders, or spares those of a high priority
    (its flag PRIORITY, or min_exempt_priority); None if preemption ends every holder.
    """
    effective = mode or config.get("PreemptMode", "OFF")
    words = effective.upper().split(",")
    if any(word in words for word in _ENDS_JOBS):
        exempt = next(
            (w for w in config.get("PreemptParameters", "").split(",") if w.startswith(_EXEMPT)), ""
        )
        flags = [f"PreemptMode {effective}"] * ("PRIORITY" in words) + [
            f"PreemptParameters={exempt}"
        ] * bool(exempt)
        if not flags:
            return None
        return Check.broken(
            "preemption",
            f"{whose}: {' and '.join(flags)}: main jobs wait for a holder whose priority is as "
            "high as theirs",
            "remove "
            f"{' and '.join(['PRIORITY'] * ('PRIORITY' in words) + [_EXEMPT] * bool(exempt))}, "
            "or see that holders "
            "have the lowest priority of all (a QOS with Priority=0, and slurm.options = "
            '["--nice=2147483645"]) and set '
            'slurm.accept = ["preemption"]',
        )
    why = (
        "holders would keep memory and GPUs"
        if "SUSPEND" in effective.upper()
        else "nothing ends a holder"
    )
    return Check.broken(
        "preemption", f"{whose} has PreemptMode {effective}: {why}", f"PreemptMode=CANCEL ({SEE})"
    )


def _names_text(items: Iterable[str]) -> str:
    """Format a list of names for a message; of a long one, the rest is counted, since a partition
    may have thousands of nodes.
    """
    names = sorted(items)
    rest = len(names) - _MOST_NAMES
    return ", ".join(names) if rest <= 1 else f"{', '.join(names[:_MOST_NAMES])} and {rest} more"
