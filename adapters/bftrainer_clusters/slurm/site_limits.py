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

from bftrainer_clusters.slurm.associations import Association
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import Partition, Qos, parse_tres

BY_QOS = "preempt/qos"


@dataclass(frozen=True, slots=True)
class LimitSource:
    """One place where limits are set. ``beside`` are the main-queue jobs that count as well; empty:
    none does.

    ``of_...`` say which jobs those are: of an account and the accounts below it, of a user in it,
    of a QOS, or of a partition.
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
    def longest(self) -> tuple[float, str]:
        """The longest time limit that a holder may have in seconds, and what sets it."""
        limits = [(source.max_s, f"{source.name} has MaxWall") for source in self.sources]
        if self.partition is not None:
            limits.append((self.partition.max_s, f"partition {self.partition.name} has MaxTime"))
        return min(limits, default=(math.inf, ""))

    @property
    def sources(self) -> tuple[LimitSource, ...]:
        """All places whose limits apply to holders, in Slurm's order of precedence; none if
        slurmctld enforces no limits.
        """
        limits = (
            *self._of_partition(),
            *self._of_qos(),
            *map(self._of_association, self.associations),
        )
        return (
            tuple(limit for limit in limits if limit.caps or limit.max_s < math.inf)
            if self.is_enforced
            else ()
        )

    def _of_partition(self) -> Iterator[LimitSource]:
        """Yield the limits of the partition's QOS, which come before those of a job's own."""
        if self.partition is None or (qos := self.partition_qos) is None:
            return
        name, own = self.partition.name, self.qos.name if self.qos is not None else ""
        is_shared = self.by == BY_QOS and self.partition.allowed_qos != {own}
        yield LimitSource(
            f"QOS {qos.name} of partition {name}",
            qos.caps,
            qos.max_s,
            f"main jobs in {name}" if is_shared else "",
            f"add a partition of the same nodes without a QOS, for {own} only (AllowQos), and "
            "set slurm.partition",
            of_partition=name,
        )

    def _of_qos(self) -> Iterator[LimitSource]:
        """Yield the limits of the holders' QOS."""
        if self.qos is not None:
            beside = "" if self.has_own_qos else f"main jobs of QOS {self.qos.name}"
            remedy = "give holders a QOS of their own (slurm.qos)"
            name = self.qos.name
            yield LimitSource(
                f"QOS {name}", self.qos.caps, self.qos.max_s, beside, remedy, of_qos=name
            )

    def _of_association(self, association: Association) -> LimitSource:
        """Return the limits of a user or account; its main jobs count as well, unless the
        association is for holders alone.
        """
        names = {self.qos.name} if self.qos is not None and self.has_own_qos else set()
        is_alone = (bool(association.qos) and association.qos <= names) or (
            bool(association.partition) and self.by != BY_QOS
        )
        whose = (
            f"your main jobs in account {association.account}"
            if association.user
            else f"main jobs of account {association.account}"
        )
        return LimitSource(
            association.name,
            association.caps,
            association.max_s,
            "" if is_alone else whose,
            "give pilots an account of their own, without limits above it (slurm.account)",
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
    """Return where the holders of these settings run, and so which limits apply to them."""
    default = next((p for p in partitions.values() if p.is_default), None)
    partition = partitions.get(settings.partition) if settings.partition else default
    name = settings.qos or (associations[0].default_qos if associations else "") or "normal"
    enforced = {"limits", "safe"} & set(
        config.get("AccountingStorageEnforce", "").lower().split(",")
    )
    return Holders(
        partition,
        qos.get(name),
        None if partition is None else qos.get(partition.qos),
        associations,
        config.get("PreemptType", ""),
        bool(settings.qos),
        bool(enforced),
    )


def most_nodes(key: str, value: str, partition: Partition | None) -> float:
    """Return how many one-node jobs a limit such as ``GrpTRES`` ``cpu=512,node=8`` allows; infinite
    if it names nothing that nodes have. What a node has is the partition's average.
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
