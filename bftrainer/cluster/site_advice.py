"""What a site may do besides being held: read itself for ``bftrainer init``, say what its
administrator would have to change, and list past jobs for ``bftrainer audit``.

A site plug-in offers a part by having its methods; none is required.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from bftrainer.cluster.past_jobs import JobLog
from bftrainer.cluster.site_plugin import SitePlugin, batch_systems, find_site
from bftrainer.errors import UserError


@dataclass(frozen=True, slots=True)
class SiteWishes:
    """What the user has decided for ``bftrainer init``; empty or None: the site's answers decide.

    ``chains_allowed``: the site's rules, which no scheduler shows, allow many short jobs one after
    another.
    """

    partition: str = ""
    qos: str = ""
    account: str = ""
    interface: str = ""
    slots: int | None = None
    longest_s: float | None = None
    nodes_per_holder: int | None = None
    chains_allowed: bool = False


@dataclass(frozen=True, slots=True)
class DecidedKey:
    """A key of the pilot's configuration, its value, and in a few words why it has that value."""

    table: str
    key: str
    value: object
    reason: str


@dataclass(frozen=True, slots=True)
class SiteProposal:
    """The keys that a site's own answers decide. ``remarks`` are lines for the head of the file:
    who frees nodes for main jobs, and the second-best choice.
    """

    keys: tuple[DecidedKey, ...]
    remarks: tuple[str, ...] = ()


@runtime_checkable
class ProposingSite(Protocol):
    """A site that reads the scheduler's configuration."""

    def propose(self, wishes: SiteWishes) -> SiteProposal | None:
        """The keys for a pilot of this user; None where the scheduler's commands are not installed.

        Raises :class:`~bftrainer.errors.UndecidedError` where the user has to decide,
        ``CommandError`` and ``SchedulerError`` where the scheduler gives no answer.
        """


@runtime_checkable
class AdjustableSite(Protocol):
    """A site whose administrator can make it end holders at once."""

    def setup_steps(self, partition: str, qos: str) -> str:
        """The changes and commands for this cluster, as text; nothing is executed.

        ``partition`` and ``qos`` are the names for holders; empty: chosen. Raises ``UserError``,
        ``CommandError`` and ``SchedulerError``.
        """


@runtime_checkable
class AccountedSite(Protocol):
    """A site that keeps an account of past jobs."""

    def job_log(self, days: float, file: Path | None) -> JobLog:
        """The jobs of the last days, or those in a file. Raises ``InputFileError`` for a file,
        ``CommandError`` and ``SchedulerError`` for the scheduler.
        """


def accounted_site(scheduler: str | None) -> AccountedSite:
    """Return the site of a scheduler that keeps an account of past jobs; without a name, the only
    such site. Raises ``UserError``.
    """
    site = _able_site("job_log", scheduler, "no account of past jobs can be read")
    assert isinstance(site, AccountedSite)
    return site


def adjustable_site(scheduler: str | None) -> AdjustableSite:
    """Return the site of a scheduler whose administrator can change it as pilots need; without a
    name, the only such site. Raises ``UserError``.
    """
    site = _able_site("setup_steps", scheduler, "no changes are known")
    assert isinstance(site, AdjustableSite)
    return site


def _able_site(method: str, scheduler: str | None, problem: str) -> SitePlugin:
    """Choose the site for a command that calls ``method``: that of ``scheduler``, or the only site
    with this method if no scheduler is named.

    Raises ``UserError`` otherwise: with ``problem`` if the named site lacks the method.
    """
    sites = {
        name: find_site(name) for name, _ in batch_systems() if hasattr(find_site(name), method)
    }
    names = ", ".join(sites) or "a package that brings one"
    if scheduler and scheduler not in sites:
        raise UserError(f"--scheduler {scheduler}: {problem}; expected {names}")
    if not scheduler and len(sites) != 1:
        raise UserError(f"--scheduler is missing; expected {names}")
    return sites[scheduler or next(iter(sites))]
