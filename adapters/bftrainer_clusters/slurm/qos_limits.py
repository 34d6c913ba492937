"""Limits on holders as findings: what makes main jobs wait, what keeps holders from starting, and
what caps the pilot. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import Partition, Qos, exempt_s, seconds
from bftrainer_clusters.slurm.site_limits import Holders, LimitSource, most_nodes

_SHORT_S = 3600.0
_BRIEF_S = 2.0
"""An exempt time that delays a main job no longer than Slurm's own next cycle would."""


def exempt_time(config: Mapping[str, str], at: Holders) -> Iterator[Check]:
    """Check whether PreemptExemptTime protects a new holder from preemption: that of its
    partition's QOS or of its own (of two, the longer), else the cluster's.

    It counts whatever PreemptType is. A time without an end is one that is not set (slurm.conf: -1
    and INFINITE disable it).
    """
    of_qos = {
        qos.name: qos.exempt_s
        for qos in (at.partition_qos, at.qos)
        if qos is not None and qos.exempt_s is not None and qos.exempt_s < math.inf
    }
    name = max(of_qos, key=lambda name: of_qos[name], default="")
    exempt, whose, remedy = exempt_s(config), "", "PreemptExemptTime=0"
    if name:
        exempt, whose = of_qos[name], f"QOS {name} has "
        remedy = f"sacctmgr modify qos {name} set PreemptExemptTime=0"
    detail = (
        f"{whose}PreemptExemptTime {exempt:g} s: a holder cannot be preempted in its "
        f"first {exempt:g} s"
    )
    remedy = f"{remedy}; set it in the QOS of the jobs that need it"
    if 0 < exempt <= _BRIEF_S:
        yield Check.warning("exempt time", detail, remedy)
    elif _BRIEF_S < exempt < math.inf:
        yield Check.broken("exempt time", detail, remedy)


def limits(
    settings: SlurmSettings, config: Mapping[str, str], at: Holders, max_nodes: int
) -> Iterator[Check]:
    """Check the limits that holders have here. ``max_nodes``: the most nodes that the pilot holds
    (nodes.max_nodes).
    """
    yield from _longest(settings, at)
    yield from _over(config, at.partition)
    yield from _caps(at, max_nodes)
    yield from _hours(at)


def _longest(settings: SlurmSettings, at: Holders) -> Iterator[Check]:
    """Check how long holders may last, if that is less than ``slurm.longest_s``."""
    longest_s, why = at.longest
    if longest_s >= settings.longest_s:
        return
    limit = (
        f"{why} {longest_s:g} s, slurm.longest_s is {settings.longest_s:g}: holders last "
        f"{longest_s:g} s"
    )
    if longest_s < 60:
        yield Check.broken(
            "max wall", f"{limit}; no holder may run for a minute", "raise that limit"
        )
    elif longest_s < _SHORT_S:
        yield Check.warning(
            "max wall",
            f"{limit}, after which trainers leave the node and return to it",
            "raise that limit to hours",
        )
    else:
        yield Check.ok("max wall", f"{limit}, and nodes are held again after that")


def _over(config: Mapping[str, str], partition: Partition | None) -> Iterator[Check]:
    """Report OverTimeLimit, by which Slurm lets jobs run past the time limits by which it plans.
    The pilot does not.
    """
    text = (partition.over_min if partition is not None else "") or config.get("OverTimeLimit", "0")
    minutes = 0.0
    if text.upper() == "UNLIMITED":
        minutes = math.inf
    elif text[:1].isdigit():
        minutes = seconds(text)
    if minutes:
        yield Check.ok(
            "over time limit",
            f"OverTimeLimit {minutes:g} min: jobs may exceed their limits; the pilot releases "
            "its nodes before them, and the "
            "lease ends the holders of a dead pilot",
        )


def _caps(at: Holders, max_nodes: int) -> Iterator[Check]:
    """Check the limits on jobs and nodes: whether they allow holders, and leave enough for main
    jobs that count as well. A holder counts as a job of one node.
    """
    nodes_of_partition = at.partition.nodes if at.partition is not None else ()
    capped = {source.name: _cap(source, at) for source in at.sources}
    alone = min((capped[s.name] for s in at.sources if not s.beside), default=math.inf)
    max_held = min(alone, max_nodes, len(nodes_of_partition) or math.inf)
    for source in at.sources:
        caps = f"{source.name}: " + ", ".join(
            f"{key} {value}" for key, value in source.caps.items()
        )
        if not source.caps:
            continue
        if capped[source.name] == 0:
            yield Check.broken("limits", f"{caps}: no holder may run", "raise the limit that is 0")
        elif source.beside:
            yield _shared(source, caps, capped[source.name], max_held)
        else:
            nodes = capped[source.name]
            held = (
                f"at most {counted(nodes, 'node is', 'nodes are')} held"
                if nodes < math.inf
                else "these limit the nodes that are held"
            )
            yield Check.ok("limits", f"{caps}: {held}")


def _cap(source: LimitSource, at: Holders) -> float:
    """Return the most nodes that the limits of one place allow; infinite without a limit."""
    caps = (most_nodes(key, value, at.partition) for key, value in source.caps.items())
    return min(caps, default=math.inf)


def _shared(source: LimitSource, caps: str, nodes: float, max_held: float) -> Check:
    """Check a limit that also counts main-queue jobs: whether it leaves room for them beside
    ``max_held`` held nodes.
    """
    if nodes > max_held:
        left = (
            f"at least {nodes - max_held:g} are left"
            if nodes < math.inf
            else "counted in other units than nodes"
        )
        return Check.ok(
            "limits",
            f"{caps}: holders and {source.beside} count; {left} beside {max_held:g} held nodes",
        )
    return Check.broken(
        "limits",
        f"{caps}: holders count, so {source.beside} would wait for them: Slurm preempts for "
        "nodes, not for limits",
        f"{source.remedy}; or set nodes.max_nodes to less than {nodes:g}, by as much as those "
        "jobs need",
    )


def _hours(at: Holders) -> Iterator[Check]:
    """Check for budgets of node hours that held nodes would use up (unless their UsageFactor is 0):
    main jobs of the account wait when nothing is left.
    """
    if not at.is_enforced or (at.qos is not None and not at.qos.usage_factor):
        return
    budgets = (
        [(f"QOS {at.qos.name}", at.qos.hours)] if at.qos is not None and not at.has_own_qos else []
    )
    budgets += [(association.name, association.hours) for association in at.associations]
    for name, hours in budgets:
        if hours:
            used = ", ".join(f"{key} {value}" for key, value in hours.items())
            yield Check.broken(
                "hours",
                f"{name}: {used}: held nodes use it up, and main jobs wait when nothing is left",
                "a QOS with UsageFactor=0 for holders (slurm.qos)",
            )


def grace_s(config: Mapping[str, str], partition: Partition | None, qos: Qos | None) -> int:
    """Return the GraceTime of a holder: the QOS's with preemption by QOS, otherwise the
    partition's.
    """
    if config.get("PreemptType") == "preempt/qos":
        return qos.grace_s if qos is not None else 0
    return partition.grace_s if partition is not None else 0
