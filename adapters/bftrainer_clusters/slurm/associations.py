"""Associations: which account a holder is charged to, and what that account and the accounts above
it limit.

sacctmgr asks slurmdbd, not slurmctld.

Tried with 22.05.8 on a real cluster with accounting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bftrainer.errors import CommandError
from bftrainer.system import command
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import (
    Qos,
    limit_s,
    parse_config,
    parse_qos,
    qos_argv,
    sacctmgr_rows,
)

RunCommand = Callable[[list[str]], str]
"""Runs a command; its standard output."""

# sacctmgr shows MaxJobs, MaxSubmit and MaxWall of a user as inherited. Grp limits hold at each
# level.
_FIELDS = ("Account", "User", "Partition", "ParentName", "QOS", "DefaultQOS", "MaxWall")
_USER_CAPS = ("MaxJobs", "MaxSubmit")
_GROUP_CAPS = ("GrpTRES", "GrpJobs", "GrpSubmit")
_HOURS = ("GrpTRESMins", "GrpWall")
_COLUMNS = (*_FIELDS, *_USER_CAPS, *_GROUP_CAPS, *_HOURS)
_MAX_DEPTH = 20
"""Associations in a chain; accounts that are each other's parents end there."""


@dataclass(frozen=True, slots=True)
class Association:
    """A user in an account (and maybe a partition), or an account: ``user`` is empty then.

    ``caps`` are the limits on what runs at a time, ``hours`` those on usage, which is used up; both
    by sacctmgr's name. ``max_s`` is MaxWall.
    """

    account: str
    user: str
    partition: str = ""
    parent: str = ""
    qos: frozenset[str] = frozenset()
    default_qos: str = ""
    max_s: float = float("inf")
    caps: Mapping[str, str] = field(default_factory=dict)
    hours: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The association in messages: ``user ada in account ml``, ``account ml``."""
        return (
            f"user {self.user} in account {self.account}"
            if self.user
            else f"account {self.account}"
        )


def argv(cluster: str, *, user: str = "", account: str = "") -> list[str]:
    """Build the query for the associations of a user, or for that of an account itself; without
    either, for those of all accounts.
    """
    # An empty user selects the associations of accounts.
    if user:
        conditions = [f"user={user}"]
    elif account:
        conditions = [f"account={account}", "user="]
    else:
        conditions = ["user="]
    return [
        "sacctmgr",
        "-nP",
        "show",
        "assoc",
        "where",
        f"cluster={cluster}",
        *conditions,
        f"format={','.join(_COLUMNS)}",
    ]


def default_account_argv(user: str) -> list[str]:
    """Build the query for the account of jobs that name none."""
    return ["sacctmgr", "-nP", "show", "user", user, "format=DefaultAccount"]


def parse(text: str) -> list[Association]:
    """Parse the answer to :func:`argv`, a line per association; empty if there is none, or if
    PrivateData hides them.
    """
    associations = []
    for values in sacctmgr_rows(filter(str.strip, text.splitlines()), _COLUMNS):
        cap_names = (*_USER_CAPS, *_GROUP_CAPS) if values["User"] else _GROUP_CAPS
        associations.append(
            Association(
                account=values["Account"],
                user=values["User"],
                partition=values["Partition"],
                parent=values["ParentName"],
                qos=frozenset(values["QOS"].split(",")) - {""},
                default_qos=values["DefaultQOS"],
                max_s=limit_s(values["MaxWall"]) if values["MaxWall"] else float("inf"),
                caps={name: values[name] for name in cap_names if values[name]},
                hours={name: values[name] for name in _HOURS if values[name]},
            )
        )
    return associations


def chosen(
    associations: list[Association], account: str, default_account: str, partition: str
) -> Association | None:
    """Return that of a user's associations under which a holder runs: in ``account``, or in
    ``default_account`` if that is empty, and preferably the one for its partition. None if the user
    has none.
    """
    holder_account = account or default_account
    candidates = [
        association
        for association in associations
        if association.account == holder_account and association.partition in ("", partition)
    ]
    # At most one names the partition; an empty name is the smallest.
    return max(candidates, key=lambda association: association.partition, default=None)


def chain(
    ask: RunCommand, cluster: str, user: str, account: str, partition: str
) -> tuple[Association, ...]:
    """Return the association of holders, then those of its accounts up to the root; empty if the
    user has none on this cluster.

    ``ask`` runs sacctmgr, once for each account. ``account`` and ``partition`` are those of
    holders; an empty account is the user's default account.
    """
    of_user = parse(ask(argv(cluster, user=user)))
    default_account = account or ask(default_account_argv(user)).strip()
    user_association = chosen(of_user, account, default_account, partition)
    if user_association is None:
        return ()
    associations = [user_association]
    name = user_association.account
    while name and len(associations) < _MAX_DEPTH:
        rows = parse(ask(argv(cluster, account=name)))
        of_account = next((association for association in rows if not association.user), None)
        if of_account is None:
            break
        associations.append(of_account)
        name = of_account.parent if of_account.parent != name else ""
    return tuple(associations)


@dataclass(frozen=True, slots=True)
class Accounting:
    """What accounting says of holders. ``qos`` has all QOSes by name; None where there is no
    accounting, or accounting does not answer.

    ``associations``: that of holders, then those of its accounts up to the root (:func:`chain`).
    ``silence`` is why accounting does not answer; empty if it does, or if there is none.
    """

    qos: dict[str, Qos] | None = None
    associations: tuple[Association, ...] = ()
    silence: str = ""

    @property
    def default_qos(self) -> str:
        """The QOS of jobs that name none, as the root account has it; "normal" where it has none,
        or is not known.
        """
        root = self.associations[-1] if self.associations else None
        if root is None or root.user or not root.default_qos:
            return "normal"
        return root.default_qos


def read_accounting(
    settings: SlurmSettings, config_text: str, user: str, ask: RunCommand
) -> Accounting:
    """Ask sacctmgr for all QOSes and for the associations of holders. Raises ``SchedulerError`` if
    an answer is not understood; no answer is recorded (``Accounting.silence``).
    """
    config = parse_config(config_text)
    if "slurmdbd" not in config.get("AccountingStorageType", ""):
        return Accounting()
    try:
        qos = command.parsed(qos_argv(), ask(qos_argv()), parse_qos)
        associations = chain(
            ask, config.get("ClusterName", ""), user, settings.account, settings.partition
        )
    except CommandError as error:
        return Accounting(silence=str(error))
    return Accounting(qos, associations)
