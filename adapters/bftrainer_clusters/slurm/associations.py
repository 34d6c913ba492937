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
_OF_USER = ("MaxJobs", "MaxSubmit")
_OF_ANY = ("GrpTRES", "GrpJobs", "GrpSubmit")
_HOURS = ("GrpTRESMins", "GrpWall")
_NAMES = (*_FIELDS, *_OF_USER, *_OF_ANY, *_HOURS)
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Association:
    """A user in an account (and maybe a partition), or an account: ``user`` is empty. ``hours`` are
    limits that are used up.
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
    if user:
        of = [f"user={user}"]
    elif account:
        of = [f"account={account}", "user="]
    else:
        of = ["user="]
    return [
        "sacctmgr",
        "-nP",
        "show",
        "assoc",
        "where",
        f"cluster={cluster}",
        *of,
        f"format={','.join(_NAMES)}",
    ]


def default_account_argv(user: str) -> list[str]:
    """Build the query for the account of jobs that name none."""
    return ["sacctmgr", "-nP", "show", "user", user, "format=DefaultAccount"]


def parse(text: str) -> list[Association]:
    """Parse the answer to :func:`argv`, a line per association; empty if there is none, or if
    PrivateData hides them.
    """
    associations = []
    for values in sacctmgr_rows(filter(str.strip, text.splitlines()), _NAMES):
        kinds = (*_OF_USER, *_OF_ANY) if values["User"] else _OF_ANY
        associations.append(
            Association(
                values["Account"],
                values["User"],
                values["Partition"],
                values["ParentName"],
                frozenset(values["QOS"].split(",")) - {""},
                values["DefaultQOS"],
                limit_s(values["MaxWall"]) if values["MaxWall"] else float("inf"),
                {key: values[key] for key in kinds if values[key]},
                {key: values[key] for key in _HOURS if values[key]},
            )
        )
    return associations


def chosen(
    of_user: list[Association], account: str, default: str, partition: str
) -> Association | None:
    """Return the user's association that a holder runs under, preferably that for its partition;
    None if the user has none.
    """
    candidates = [
        association
        for association in of_user
        if association.account == (account or default) and association.partition in ("", partition)
    ]
    return max(candidates, key=lambda association: association.partition, default=None)


def chain(
    ask: RunCommand, cluster: str, user: str, account: str, partition: str
) -> tuple[Association, ...]:
    """Return the association of holders, then those of its accounts up to the root; empty if the
    user has none on this cluster.
    """
    of_user = parse(ask(argv(cluster, user=user)))
    default = account or ask(default_account_argv(user)).strip()
    own = chosen(of_user, account, default, partition)
    if own is None:
        return ()
    associations, name = [own], own.account
    while name and len(associations) < _DEEPEST:
        above = next(
            (
                association
                for association in parse(ask(argv(cluster, account=name)))
                if not association.user
            ),
            None,
        )
        if above is None:
            break
        associations.append(above)
        name = above.parent if above.parent != name else ""
    return tuple(associations)


@dataclass(frozen=True, slots=True)
class Accounting:
    """What accounting says of holders. ``qos`` is None where there is no accounting, or it does not
    answer.

    ``associations``: the user's, then those above. ``silence`` is why it does not answer.
    """

    qos: dict[str, Qos] | None = None
    associations: tuple[Association, ...] = ()
    silence: str = ""

    @property
    def default_qos(self) -> str:
        """The QOS of jobs that name none, as the root account has it."""
        top = self.associations[-1] if self.associations else None
        return (top.default_qos if top is not None and not top.user else "") or "normal"


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
        above = chain(
            ask, config.get("ClusterName", ""), user, settings.account, settings.partition
        )
    except CommandError as error:
        return Accounting(silence=str(error))
    return Accounting(qos, above)
