"""Users' weights in the split of nodes: their shares (Fairshare) in the account of holders.

sacctmgr asks slurmdbd, not slurmctld.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from bftrainer.errors import CommandError, SchedulerError
from bftrainer.system import command
from bftrainer_clusters.holding.call_budget import CallKind
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.setup import parse_config

EVERY_S = 900.0
"""Shares are read at the first look in each quarter of an hour by the clock, so that pilots read
new ones at nearly the same time.
"""


def argv(cluster: str, account: str) -> list[str]:
    """Build the query for the associations in an account."""
    where = ["where", f"cluster={cluster}", f"account={account}"]
    return ["sacctmgr", "-nP", "show", "assoc", *where, "format=User,Partition,Share"]


def parse(text: str, user: str) -> dict[str, int]:
    """Return users' weights, where they differ from 1. Empty if no user but ``user``, who asks, is
    shown: PrivateData may hide the others. Raises ``SchedulerError`` for text of another form.
    """
    weights = dict[str, int]()
    rows = [line.split("|") for line in filter(str.strip, text.splitlines())]
    # Sorted: a user's association without a partition comes before those in one, and counts.
    for fields in sorted(rows):
        if len(fields) != 3 or not (fields[2].isdecimal() or fields[2] == "parent"):
            raise SchedulerError(f"sacctmgr: line truncated or garbled: {'|'.join(fields)[:80]!r}")
        name, _, fairshare = fields
        if name:  # else it is the account's association
            weights.setdefault(name, 1 if fairshare == "parent" else int(fairshare))
    if not weights.keys() - {user}:
        return {}
    return {name: weight for name, weight in weights.items() if weight != 1}


@dataclass
class Weights:
    """The weights of users as they were last read. If they cannot be read, they stay as they were,
    so that running pilots go on with the same weights. ``account`` returns the account of holders,
    ``host_s`` the time in seconds since 1970.
    """

    calls: SlurmCalls
    account: Callable[[], str]
    timeout_s: float = 10.0
    host_s: Callable[[], float] = time.time
    _weights: Mapping[str, int] = field(default_factory=dict)
    _latest_read: tuple[str, float] = ("", 0.0)
    """The account whose weights were read, and the quarter of an hour."""

    def current(self) -> Mapping[str, int]:
        """Return the weights of users, after at most one command. Empty without an account or
        accounting: all users weigh the same.
        """
        account, quarter = self.account(), self.host_s() // EVERY_S
        latest_account, _ = self._latest_read
        if (account, quarter) != self._latest_read:
            if account != latest_account:
                self._weights = {}
            self._latest_read = (account, quarter)
            if account:
                with suppress(CommandError, SchedulerError):
                    self._read_weights(account)
        return self._weights

    def _read_weights(self, account: str) -> None:
        """Read the weights of users in this account, if there is accounting. Raises
        ``CommandError`` or ``SchedulerError``.
        """
        config = parse_config(self.calls.config(self.timeout_s))
        if "slurmdbd" not in config.get("AccountingStorageType", ""):
            return
        query = argv(config.get("ClusterName", ""), account)
        text = self.calls.run(query, CallKind.LOOK, self.timeout_s)
        self._weights = command.parsed(query, text, lambda text: parse(text, self.calls.user))
