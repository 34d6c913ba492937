"""Main-queue jobs that wait for a limit for which holders count as well: Slurm preempts for nodes,
not for limits. Pure.

``squeue`` says that a job waits for a limit, and not for which one of several. Every limit that the
job's reason could mean is considered.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bftrainer.cluster.model import LimitWait
from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm import associations
from bftrainer_clusters.slurm.records import fields_of, is_number, parse_records
from bftrainer_clusters.slurm.site_limits import BY_QOS, Holders, most_nodes

FORMAT = "%A|%u|%a|%q|%P|%D|%r"
_HEADER = "JOBID|USER|ACCOUNT|QOS|PARTITION|NODES|REASON"
# Reasons that name a limit on what runs at a time (https://slurm.schedmd.com/job_reason_codes.html),
# but for those that the second pattern matches: limits of a job alone, and used-up hours.
_RUNNING_LIMIT = re.compile(r"(?:Assoc|QOS)(?:Grp|Max)\w+|Max\w+Per(?:Account|User)\b")
_OTHER_LIMIT = re.compile(r"PerJob|PerNode|WallDuration|GrpWall|(?<!Run)Minutes|Submit")


@dataclass(frozen=True, slots=True)
class SharedLimit:
    """A limit for which holders count, and main-queue jobs of these accounts (of a user in them),
    or of a QOS, or of a partition.

    ``nodes`` is the number of nodes that the limit allows; infinite if it does not count nodes or
    what is in them. A job of more nodes would wait without holders as well.
    """

    nodes: float
    accounts: frozenset[str] = frozenset()
    user: str = ""
    qos: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """All shared limits, and the QOS or partition of holders: all jobs there count as jobs of
    pilots, not as main-queue jobs. If ``own_qos`` is set, the partition does not matter.
    """

    limits: tuple[SharedLimit, ...] = ()
    own_qos: str = ""
    own_partition: str = ""


def shared_limits(holders: Holders, cluster: str, ask: Callable[[list[str]], str]) -> SharedLimits:
    """Return the limits of holders that main-queue jobs share. ``ask`` runs sacctmgr, for all
    accounts of the cluster, only if such a limit is that of an account.
    """
    limits: list[SharedLimit] = []
    parents: Mapping[str, str] | None = None  # of accounts; None: not asked for yet
    for source in holders.sources:
        if not source.beside or not source.caps:
            continue
        max_nodes = [
            most_nodes(key, value, holders.partition)
            for key, value in source.caps.items()
            if "TRES" in key
        ]
        accounts = frozenset[str]()
        if source.of_account:
            if parents is None:
                rows = associations.parse(ask(associations.argv(cluster)))
                parents = {row.account: row.parent for row in rows}
            accounts = below(source.of_account, parents)
        limits.append(
            SharedLimit(
                nodes=min(max_nodes, default=math.inf),
                accounts=accounts,
                user=source.of_user,
                qos=source.of_qos,
                partition=source.of_partition,
            )
        )
    own_partition = ""
    if holders.by != BY_QOS and holders.partition is not None:
        own_partition = holders.partition.name
    own_qos = ""
    if holders.qos is not None and holders.has_own_qos:
        own_qos = holders.qos.name
    return SharedLimits(tuple(limits), own_qos, own_partition)


def below(account: str, parents: Mapping[str, str]) -> frozenset[str]:
    """Return an account and all accounts below it. ``parents`` has each account's parent."""
    accounts = {account}
    level = {account}
    while level:
        level = {name for name, parent in parents.items() if parent in level} - accounts
        accounts |= level
    return frozenset(accounts)


def parse(text: str, mark: str, shared: SharedLimits) -> tuple[LimitWait, ...]:
    """Return the waits of main-queue jobs for these limits, from squeue's output with the columns
    of :data:`FORMAT` and the mark of its call. Raises ``SchedulerError``.
    """
    waits = (
        _wait_for_limit(record, shared) for record in parse_records(text, mark, _HEADER, "jobs")
    )
    return tuple(wait for wait in waits if wait is not None)


def _wait_for_limit(record: str, shared: SharedLimits) -> LimitWait | None:
    """Return the wait of one job; None for a pilot's job, or one that does not wait for one of
    these limits.
    """
    job, user, account, qos, partitions, size, reason = fields_of(record, 7)
    if not is_number(size):
        raise SchedulerError(f"squeue: record truncated or garbled: {record[:80]!r}")
    is_pilots = qos == shared.own_qos if shared.own_qos else partitions == shared.own_partition
    if is_pilots or not _RUNNING_LIMIT.match(reason) or _OTHER_LIMIT.search(reason):
        return None
    names_association = reason.startswith("Assoc")
    # For a limit on the number of jobs, the end of one holder is enough.
    n_nodes = 1 if "Jobs" in reason else int(size)
    for limit in shared.limits:
        is_counted = _may_wait_for_limit(
            limit, user, account, qos, partitions.split(","), names_association
        )
        if is_counted and n_nodes <= limit.nodes:
            return LimitWait(job, n_nodes, reason)
    return None


def _may_wait_for_limit(
    limit: SharedLimit,
    user: str,
    account: str,
    qos: str,
    partitions: Iterable[str],
    names_association: bool,
) -> bool:
    """Return whether a job with these properties may wait for a limit, which counts such jobs.
    ``names_association``: the job's reason names a limit of an association, not of a QOS or
    partition.
    """
    if names_association != bool(limit.accounts):
        return False
    if limit.accounts:
        return account in limit.accounts and limit.user in ("", user)
    if limit.qos:
        return limit.qos == qos
    return limit.partition in partitions
