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
    exempt_s_by_qos = {
        qos.name: qos.exempt_s
        for qos in (at.partition_qos, at.qos)
        if qos is not None and qos.exempt_s is not None and qos.exempt_s < math.inf
    }
    name = max(exempt_s_by_qos, key=lambda name: exempt_s_by_qos[name], default="")
    if name:
        protected_s = exempt_s_by_qos[name]
        owner = f"QOS {name} has "
        change = f"sacctmgr modify qos {name} set PreemptExemptTime=0"
    else:
        protected_s, owner, change = exempt_s(config), "", "PreemptExemptTime=0"
    detail = (
        f"{owner}PreemptExemptTime {protected_s:g} s: a holder cannot be preempted in its "
        f"first {protected_s:g} s"
    )
    remedy = f"{change}; set it in the QOS of the jobs that need it"
    if 0 < protected_s <= _BRIEF_S:
        yield Check.warning("exempt time", detail, remedy)
    elif _BRIEF_S < protected_s < math.inf:
        yield Check.broken("exempt time", detail, remedy)


def limits(
    settings: SlurmSettings, config: Mapping[str, str], at: Holders, max_nodes: int
) -> Iterator[Check]:
    """Check the limits that holders have here. ``max_nodes``: the most nodes that the pilot holds
    (nodes.max_nodes).
    """
    yield from _check_longest_run(settings, at)
    yield from _over_time_limit(config, at.partition)
    yield from _check_count_limits(at, max_nodes)
    yield from _check_hour_budgets(at)


def _check_longest_run(settings: SlurmSettings, at: Holders) -> Iterator[Check]:
    """Check how long holders may last, if that is less than ``slurm.longest_s``: not for a minute,
    for less than an hour, or for longer.
    """
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


def _over_time_limit(config: Mapping[str, str], partition: Partition | None) -> Iterator[Check]:
    """Report OverTimeLimit, by which Slurm lets jobs run past their time limits, although it plans
    by these. Holders end in time. A partition's value comes before the cluster's.
    """
    text = config.get("OverTimeLimit", "0")
    if partition is not None and partition.over_min:
        text = partition.over_min
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


def _check_count_limits(at: Holders, max_nodes: int) -> Iterator[Check]:
    """Check the limits on jobs and nodes: whether they allow holders, and leave enough for main
    jobs that count as well. A holder counts as a job of one node.
    """
    nodes_of_partition = at.partition.nodes if at.partition is not None else ()
    caps = {source.name: _cap_nodes(source, at) for source in at.sources}
    # As many nodes as could be held if no limit were shared with main jobs.
    holders_cap = min((caps[s.name] for s in at.sources if not s.beside), default=math.inf)
    max_held = min(holders_cap, max_nodes, len(nodes_of_partition) or math.inf)
    for source in at.sources:
        if not source.caps:
            continue
        values = ", ".join(f"{key} {value}" for key, value in source.caps.items())
        text = f"{source.name}: {values}"
        cap_nodes = caps[source.name]
        if cap_nodes == 0:
            yield Check.broken("limits", f"{text}: no holder may run", "raise the limit that is 0")
        elif source.beside:
            yield _check_shared_limit(source, text, cap_nodes, max_held)
        elif cap_nodes < math.inf:
            held = f"at most {counted(cap_nodes, 'node is', 'nodes are')} held"
            yield Check.ok("limits", f"{text}: {held}")
        else:
            yield Check.ok("limits", f"{text}: these limit the nodes that are held")


def _cap_nodes(source: LimitSource, at: Holders) -> float:
    """Return the most nodes that the limits of one place allow; infinite without a limit."""
    caps = (most_nodes(key, value, at.partition) for key, value in source.caps.items())
    return min(caps, default=math.inf)


def _check_shared_limit(source: LimitSource, text: str, cap_nodes: float, max_held: float) -> Check:
    """Check a limit that also counts main-queue jobs: whether it leaves room for them beside
    ``max_held`` held nodes. ``text`` describes the limit, which allows ``cap_nodes`` nodes in all.
    """
    if cap_nodes > max_held:
        left = "counted in other units than nodes"
        if cap_nodes < math.inf:
            left = f"at least {cap_nodes - max_held:g} are left"
        return Check.ok(
            "limits",
            f"{text}: holders and {source.beside} count; {left} beside {max_held:g} held nodes",
        )
    return Check.broken(
        "limits",
        f"{text}: holders count, so {source.beside} would wait for them: Slurm preempts for "
        "nodes, not for limits",
        f"{source.remedy}; or set nodes.max_nodes to less than {cap_nodes:g}, by as much as those "
        "jobs need",
    )


def _check_hour_budgets(at: Holders) -> Iterator[Check]:
    """Check for budgets of node hours that held nodes would use up (unless their UsageFactor is 0):
    main jobs of the account wait when nothing is left.
    """
    if not at.is_enforced or (at.qos is not None and not at.qos.usage_factor):
        return
    budgets: list[tuple[str, Mapping[str, str]]] = []
    if at.qos is not None and not at.has_own_qos:  # else no main job has this QOS
        budgets.append((f"QOS {at.qos.name}", at.qos.hours))
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
    """Return the GraceTime of a holder in seconds: the QOS's with preemption by QOS, otherwise the
    partition's; 0 if that is None.
    """
    if config.get("PreemptType") == "preempt/qos":
        return qos.grace_s if qos is not None else 0
    return partition.grace_s if partition is not None else 0
