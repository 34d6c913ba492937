"""Main-queue jobs that wait for a limit for which holders count as well: Slurm preempts for nodes,
not for limits. Pure.

``squeue`` says that a job waits for a limit, and not for which one of several. All that could be
meant count.
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
# Limits on what runs at a time (https://slurm.schedmd.com/job_reason_codes.html); not those of a
# job alone, nor used-up hours.
_OF_ALL = re.compile(r"(?:Assoc|QOS)(?:Grp|Max)\w+|Max\w+Per(?:Account|User)\b")
_OF_ONE = re.compile(r"PerJob|PerNode|WallDuration|GrpWall|(?<!Run)Minutes|Submit")


@dataclass(frozen=True, slots=True)
class SharedLimit:
    """A limit for which holders and main-queue jobs of these accounts, or of a user, QOS or
    partition, count.

    ``nodes`` is what it allows, if it counts nodes or what is in them; a larger job would wait
    without holders as well.
    """

    nodes: float
    accounts: frozenset[str] = frozenset()
    user: str = ""
    qos: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """All shared limits, and the QOS or partition of holders: other jobs there are of pilots as
    well.
    """

    limits: tuple[SharedLimit, ...] = ()
    own_qos: str = ""
    own_partition: str = ""


def shared_limits(at: Holders, cluster: str, ask: Callable[[list[str]], str]) -> SharedLimits:
    """Return the limits of holders that main-queue jobs share. Slurm is asked for the accounts only
    if one above the holders' has such a limit.
    """
    limits: list[SharedLimit] = []
    parents: Mapping[str, str] | None = None
    for source in at.sources:
        if not source.beside or not source.caps:
            continue
        of_nodes = [
            most_nodes(key, value, at.partition)
            for key, value in source.caps.items()
            if "TRES" in key
        ]
        if source.of_account and parents is None:
            parents = {
                account.account: account.parent
                for account in associations.parse(ask(associations.argv(cluster)))
            }
        accounts = (
            below(source.of_account, parents or {}) if source.of_account else frozenset[str]()
        )
        limits.append(
            SharedLimit(
                min(of_nodes, default=math.inf),
                accounts,
                source.of_user,
                source.of_qos,
                source.of_partition,
            )
        )
    own_partition = "" if at.by == BY_QOS or at.partition is None else at.partition.name
    own_qos = at.qos.name if at.qos is not None and at.has_own_qos else ""
    return SharedLimits(tuple(limits), own_qos, own_partition)


def below(account: str, parents: Mapping[str, str]) -> frozenset[str]:
    """Return an account and all accounts below it."""
    members, new = {account}, {account}
    while new:
        new = {name for name, parent in parents.items() if parent in new} - members
        members |= new
    return frozenset(members)


def parse(text: str, mark: str, shared: SharedLimits) -> tuple[LimitWait, ...]:
    """Return the main-queue jobs in squeue's output that wait for one of these limits."""
    waits = (_wait(record, shared) for record in parse_records(text, mark, _HEADER, "jobs"))
    return tuple(wait for wait in waits if wait is not None)


def _wait(record: str, shared: SharedLimits) -> LimitWait | None:
    """Return the wait of one job; None for a pilot's job, or one that does not wait for one of
    these limits.
    """
    job, user, account, qos, partitions, size, reason = fields_of(record, 7)
    if not is_number(size):
        raise SchedulerError(f"squeue: record truncated or garbled: {record[:80]!r}")
    is_pilots = qos == shared.own_qos if shared.own_qos else partitions == shared.own_partition
    if is_pilots or not _OF_ALL.match(reason) or _OF_ONE.search(reason):
        return None
    of_association, needed = reason.startswith("Assoc"), 1 if "Jobs" in reason else int(size)
    if not any(
        needed <= limit.nodes
        and _counts(limit, user, account, qos, partitions.split(","), of_association)
        for limit in shared.limits
    ):
        return None
    return LimitWait(job, needed, reason)


def _counts(
    limit: SharedLimit,
    user: str,
    account: str,
    qos: str,
    partitions: Iterable[str],
    of_association: bool,
) -> bool:
    """Return whether a limit counts jobs with these properties. ``of_association``: the job's
    reason names a limit of an association, not of a QOS or partition.
    """
    if limit.accounts:
        return of_association and account in limit.accounts and limit.user in ("", user)
    return not of_association and (limit.qos == qos if limit.qos else limit.partition in partitions)
