"""Limits of holders on a Slurm site: their QOS, their partition and its QOS, their account and
those above it. Pure.

A limit that counts holders only caps the pilot. One that counts main-queue jobs as well, makes
these wait: Slurm preempts for nodes, not for limits (seen with 22.05.8: AssocGrpNodeLimit,
AssocMaxJobsLimit and QOSGrpNodeLimit beside held nodes).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bftrainer_clusters.slurm.associations import Association
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import Partition, Qos, parse_tres

BY_QOS = "preempt/qos"


class RunTimeLimit(NamedTuple):
    """The longest time for which a holder may run, in seconds, and the setting that says so."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class LimitSource:
    """One place where limits are set. ``caps`` are the limits on jobs and nodes by sacctmgr's name,
    ``max_s`` is the longest time limit of a job.

    ``beside`` describes the main-queue jobs that count as well (empty: none does), and ``remedy``
    says how to let holders alone count. ``of_...`` say which jobs count: those of an account and
    the accounts below it, of a user in it, of a QOS, or of a partition.
    """

    name: str
    caps: Mapping[str, str] = field(default_factory=dict)
    max_s: float = math.inf
    beside: str = ""
    remedy: str = ""
    of_account: str = ""
    of_user: str = ""
    of_qos: str = ""
    of_partition: str = ""


@dataclass(frozen=True, slots=True)
class Holders:
    """Where holders run: by the settings, or by Slurm's defaults where these are empty.

    ``partition_qos`` is the QOS of the partition, whose limits come before those of ``qos``.
    ``associations``: that of the user, then its accounts up to the root. ``by`` is PreemptType.
    ``has_own_qos``: the QOS is not that of main-queue jobs. ``is_enforced``: whether slurmctld
    applies limits at all.
    """

    partition: Partition | None
    qos: Qos | None = None
    partition_qos: Qos | None = None
    associations: tuple[Association, ...] = ()
    by: str = ""
    has_own_qos: bool = False
    is_enforced: bool = True

    @property
    def longest(self) -> RunTimeLimit:
        """The longest time limit that a holder may have, and what sets it."""
        limits = [
            RunTimeLimit(source.max_s, f"{source.name} has MaxWall") for source in self.sources
        ]
        if self.partition is not None:
            reason = f"partition {self.partition.name} has MaxTime"
            limits.append(RunTimeLimit(self.partition.max_s, reason))
        return min(limits, default=RunTimeLimit(math.inf, ""))

    @property
    def sources(self) -> tuple[LimitSource, ...]:
        """All places with limits that apply to holders, in Slurm's order of precedence; none if
        slurmctld enforces no limits.
        """
        if not self.is_enforced:
            return ()
        sources = (
            *self._of_partition(),
            *self._of_qos(),
            *map(self._of_association, self.associations),
        )
        return tuple(source for source in sources if source.caps or source.max_s < math.inf)

    def _of_partition(self) -> Iterator[LimitSource]:
        """Yield the limits of the partition's QOS, which come before those of a job's own."""
        if self.partition is None or (qos := self.partition_qos) is None:
            return
        name = self.partition.name
        holders_qos = self.qos.name if self.qos is not None else ""
        # With preemption by partition, the partition is for holders alone.
        is_shared = self.by == BY_QOS and self.partition.allowed_qos != {holders_qos}
        yield LimitSource(
            f"QOS {qos.name} of partition {name}",
            qos.caps,
            qos.max_s,
            beside=f"main jobs in {name}" if is_shared else "",
            remedy="add a partition of the same nodes without a QOS, for "
            f"{holders_qos} only (AllowQos), and set slurm.partition",
            of_partition=name,
        )

    def _of_qos(self) -> Iterator[LimitSource]:
        """Yield the limits of the holders' QOS."""
        if self.qos is not None:
            beside = "" if self.has_own_qos else f"main jobs of QOS {self.qos.name}"
            remedy = "give holders a QOS of their own (slurm.qos)"
            name = self.qos.name
            yield LimitSource(
                f"QOS {name}",
                self.qos.caps,
                self.qos.max_s,
                beside=beside,
                remedy=remedy,
                of_qos=name,
            )

    def _of_association(self, association: Association) -> LimitSource:
        """Return the limits of a user or account; its main jobs count as well, unless the
        association is for holders alone: it allows only the holders' QOS, or it is for the holders'
        partition, where preemption is by partition.
        """
        holders_qos = {self.qos.name} if self.qos is not None and self.has_own_qos else set()
        has_only_holders_qos = bool(association.qos) and association.qos <= holders_qos
        has_only_holders_partition = bool(association.partition) and self.by != BY_QOS
        beside = ""
        if not has_only_holders_qos and not has_only_holders_partition:
            beside = f"main jobs of account {association.account}"
            if association.user:
                beside = f"your main jobs in account {association.account}"
        return LimitSource(
            association.name,
            association.caps,
            association.max_s,
            beside=beside,
            remedy="give pilots an account of their own, without limits above it (slurm.account)",
            of_account=association.account,
            of_user=association.user,
        )


def holders_of(
    settings: SlurmSettings,
    config: Mapping[str, str],
    partitions: Mapping[str, Partition],
    qos: Mapping[str, Qos],
    associations: tuple[Association, ...] = (),
) -> Holders:
    """Return where the holders of these settings run, and so which limits apply to them.

    ``config`` is Slurm's, ``partitions`` and ``qos`` are all of the cluster, by name.
    ``associations``: that of holders, then those of its accounts up to the root.
    """
    if settings.partition:
        partition = partitions.get(settings.partition)
    else:
        partition = next((other for other in partitions.values() if other.is_default), None)
    # As Slurm chooses: the QOS that the job names, the association's, or else "normal".
    default_qos = associations[0].default_qos if associations else ""
    name = settings.qos or default_qos or "normal"
    enforcement = config.get("AccountingStorageEnforce", "").lower().split(",")
    return Holders(
        partition,
        qos=qos.get(name),
        partition_qos=None if partition is None else qos.get(partition.qos),
        associations=associations,
        by=config.get("PreemptType", ""),
        has_own_qos=bool(settings.qos),
        is_enforced="limits" in enforcement or "safe" in enforcement,
    )


def most_nodes(key: str, value: str, partition: Partition | None) -> float:
    """Return how many one-node jobs a limit allows, of sacctmgr's name ``key`` (``GrpTRES``) and
    value (``cpu=512,node=8``); infinite if it names nothing that nodes have. Each node counts as
    the average node of the partition.
    """
    if value.isdecimal():
        return int(value)
    if "TRES" not in key or partition is None:
        return math.inf
    nodes = partition.tres.get("node", len(partition.nodes)) or 1.0
    per_node = {name: count / nodes for name, count in partition.tres.items() if count}
    limits = parse_tres(value)
    return min(
        (limits[name] // per_node[name] for name in limits if name in per_node), default=math.inf
    )
