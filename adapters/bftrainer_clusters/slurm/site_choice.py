"""Which partition, QOS and account the holders of a user's pilot should have at a Slurm site, and
who frees their nodes for main jobs. Pure.

The rules of the pilot itself decide (:mod:`.site_checks`): a place is the better, the less a main
job can wait for a holder there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import UndecidedError, UserError
from bftrainer_clusters.slurm.associations import Association
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.preempt import BY_PARTITION, BY_QOS
from bftrainer_clusters.slurm.setup import Partition
from bftrainer_clusters.slurm.site_checks import checks_of_holding
from bftrainer_clusters.slurm.site_facts import SiteSetup
from bftrainer_clusters.slurm.text import hides_jobs

_CURED = frozenset({"preemption", "exempt time", "qos"})
"""Checks that do not matter where the pilot itself ends holders: Slurm does not, or not at once."""
_SHORTEST_S = 60.0
_MAX_CHOICES = 6
_MAX_EXCLUDED_SHARE = 0.5


class Way(Enum):
    """Who frees nodes for main jobs, by the words of ``nodes.give_way``; the best is first."""

    SITE = "site"
    """Slurm ends holders at once, for every main job."""
    YIELD = "yield"
    """Slurm does not: the pilot watches the queue and releases nodes."""
    BLIND = "blind"
    """Slurm does not, and the queue is hidden: the pilot watches Slurm's counters."""


@dataclass(frozen=True, slots=True)
class SiteView:
    """What a user sees of a site. Without accounting, there are no ``associations``; ``groups`` are
    the user's, by name.
    """

    facts: SiteSetup
    user: str
    associations: tuple[Association, ...] = ()
    default_account: str = ""
    groups: frozenset[str] = frozenset()
    gpus: dict[str, int] = field(default_factory=dict)
    """GPUs of each node, where scontrol shows them."""

    @property
    def is_by_qos(self) -> bool:
        return self.facts.config.get("PreemptType") == BY_QOS


@dataclass(frozen=True, slots=True)
class Place:
    """A partition with a QOS, for holders. ``way`` is None where no node can be held; ``why`` says
    what decides about that.

    ``accounts``: those of the user by which a job gets there; none: Slurm's default.
    ``ends_later``: Slurm ends holders for some main jobs, or after a time. ``exclude``: nodes that
    a pilot must leave alone for the site's way to hold.
    """

    partition: Partition
    qos: str
    accounts: tuple[str, ...]
    way: Way | None
    why: str
    gpus: int = 0
    ends_later: bool = False
    usage_factor: float = 1.0
    longest_s: float = float("inf")
    longest_why: str = ""
    exclude: frozenset[str] = frozenset()

    @property
    def nodes(self) -> int:
        return len(self.partition.nodes) - len(self.exclude)

    @property
    def name(self) -> str:
        """The place in lists of names: ``gpu (scavenger)``."""
        return f"{self.partition.name} ({self.qos})" if self.qos else self.partition.name

    @property
    def words(self) -> str:
        """The place in comments and questions: ``partition gpu with QOS low (8 nodes, 32
        GPUs)``.
        """
        qos = f" with QOS {self.qos}" if self.qos else ""
        gpus = f", {counted(self.gpus, 'GPU')}" if self.gpus else ""
        return f"partition {self.partition.name}{qos} ({counted(self.nodes, 'node')}{gpus})"

    def settings(self, account: str = "") -> SlurmSettings:
        """The table [slurm] that a pilot would have here."""
        return SlurmSettings(partition=self.partition.name, qos=self.qos, account=account)

    @property
    def order(self) -> tuple[object, ...]:
        """The key by which places are sorted, the better one first. Of two alike, the one whose
        jobs come last in Slurm is the better.
        """
        return (
            len(Way) if self.way is None else list(Way).index(self.way),
            not self.ends_later,
            -self.gpus,
            -self.nodes,
            self.partition.tier,
            not self.partition.is_default,
            self.usage_factor,
            -self.longest_s,
            self.partition.name,
            self.qos,
        )


@dataclass(frozen=True, slots=True)
class SiteChoice:
    """The best place, its account (empty: Slurm's default), and the best one in another
    partition.
    """

    place: Place
    account: str
    second: Place | None


def choose(view: SiteView, partition: str = "", qos: str = "", account: str = "") -> SiteChoice:
    """Return the best place for holders among those that the given names allow.

    Raises ``UndecidedError`` where two are better in different respects, and ``UserError`` where no
    node can be held.
    """
    every = ranked_places(view)
    chosen = [place for place in every if _is_named(place, partition, qos, account)]
    if not chosen:
        raise UserError(_no_such_place(every, partition, qos, account))
    best = chosen[0]
    if best.way is None:
        raise UserError(f"no node can be held in {best.words}: {best.why}")
    if not partition:
        _check_undisputed(best, chosen)
    second = next((p for p in every if p.way and p.partition.name != best.partition.name), None)
    return SiteChoice(best, account_of(view, best, account), second)


def ranked_places(view: SiteView) -> list[Place]:
    """Return all places in which this user may submit jobs, the best first."""
    every = [
        _judged_place(view, partition, qos, accounts)
        for partition in view.facts.partitions.values()
        if partition.starts_jobs and partition.state == "UP" and _admits_user(view, partition)
        for qos, accounts in _qos_and_accounts(view, partition)
    ]
    return sorted(every, key=lambda place: place.order)


def _admits_user(view: SiteView, partition: Partition) -> bool:
    groups = partition.allowed_groups
    return not groups or not view.groups or bool(groups & view.groups)


def _qos_and_accounts(
    view: SiteView, partition: Partition
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each QOS that the user's jobs may have in a partition, with the accounts that have it;
    an empty name is the default QOS.
    """
    catalog = view.facts.accounting.qos or {}
    if not view.associations:
        for name in sorted(catalog) if view.is_by_qos else ("",):
            if not name or partition.admits(name):
                yield name, ()
        return
    accounts_of: dict[str, list[str]] = {}
    for association in view.associations:
        if association.partition not in ("", partition.name):
            continue
        if not partition.admits_account(association.account):
            continue
        for name in _qos_of(view, association, partition):
            accounts_of.setdefault(name, []).append(association.account)
    for name, accounts in sorted(accounts_of.items()):
        yield name, tuple(dict.fromkeys(accounts))


def _qos_of(view: SiteView, association: Association, partition: Partition) -> list[str]:
    """Return the QOSes of an association to consider in a partition: with preemption by QOS, all
    that it admits; otherwise the default (an empty name), or one in its place if it is not
    admitted.
    """
    admitted = sorted(name for name in association.qos if partition.admits(name))
    if view.is_by_qos:
        catalog = view.facts.accounting.qos or {}
        return [name for name in admitted if name in catalog]
    default = association.default_qos or "normal"
    if partition.admits(default):
        return [""]
    return admitted[:1]


def _judged_place(
    view: SiteView, partition: Partition, qos: str, accounts: tuple[str, ...]
) -> Place:
    """Judge a partition and QOS as a place for holders; nodes where main jobs would wait may be
    excluded if they are few.
    """
    facts = view.facts
    settings = SlurmSettings(partition=partition.name, qos=qos)
    broken = _failing_checks(view, settings)
    exclude: frozenset[str] = frozenset()
    if set(broken) == {"preemption"} and facts.config.get("PreemptType") == BY_PARTITION:
        exclude = _nodes_of_others(partition, facts.partitions.values())
        is_small = len(exclude) <= _MAX_EXCLUDED_SHARE * len(partition.nodes)
        if exclude and is_small and not _failing_checks(view, settings, exclude):
            broken = {}
        else:
            exclude = frozenset()
    longest_s, longest_why = facts.holders(settings).longest
    way, why = _way_to_free_nodes(view, partition, broken, longest_s)
    quality = (facts.accounting.qos or {}).get(qos or "normal")
    return Place(
        partition,
        qos,
        accounts,
        way,
        why or _preemption_text(view, partition, qos),
        _holdable_gpus(view, partition, exclude),
        _ends_some(view, partition, qos),
        1.0 if quality is None else quality.usage_factor,
        longest_s,
        longest_why,
        exclude,
    )


def _failing_checks(
    view: SiteView, settings: SlurmSettings, exclude: frozenset[str] = frozenset()
) -> dict[str, Check]:
    """Return the checks that would keep a pilot of these settings from holding nodes, by name."""

    def may_hold(node: str) -> bool:
        return node not in exclude

    checks = checks_of_holding(settings, view.facts, view.user, may_hold)
    return {check.name: check for check in checks if check.state is CheckStatus.BROKEN}


def _way_to_free_nodes(
    view: SiteView, partition: Partition, broken: dict[str, Check], longest_s: float
) -> tuple[Way | None, str]:
    """Return who would free nodes of a partition for main jobs (None: no node can be held), and
    what decides about that.
    """
    if not partition.nodes:
        return None, "it has no nodes"
    if partition.min_nodes > 1:
        return None, f"a job there has {partition.min_nodes} nodes at least (MinNodes)"
    if longest_s < _SHORTEST_S:
        return None, "no job there may run for a minute"
    why = "; ".join(check.detail for check in broken.values())
    if set(broken) - _CURED:
        return None, why
    if not broken:
        return Way.SITE, ""
    if partition.jobs_a_core > 1:
        forced = f"OverSubscribe=FORCE:{partition.jobs_a_core}"
        return None, f"{why}; {forced}: main jobs run on the cores of holders, beside training"
    if hides_jobs(view.facts.config_text, view.user):
        return Way.BLIND, f"{why}; PrivateData hides the queue"
    return Way.YIELD, why


def _preemption_text(view: SiteView, partition: Partition, qos: str) -> str:
    """Describe how Slurm ends holders in a partition, in the words of the checks."""
    settings = SlurmSettings(partition=partition.name, qos=qos)
    name = "qos" if view.is_by_qos else "preemption"
    checks = checks_of_holding(settings, view.facts, view.user)
    return next((check.detail for check in checks if check.name == name), "")


def _ends_some(view: SiteView, partition: Partition, qos: str) -> bool:
    """Return whether Slurm ends holders in a partition for any main job at all, at once
    or later.
    """
    facts = view.facts
    catalog = facts.accounting.qos or {}
    cluster_mode = facts.config.get("PreemptMode", "OFF")
    if view.is_by_qos:
        quality = catalog.get(qos)
        own = "" if quality is None or quality.preempt_mode == "CLUSTER" else quality.preempt_mode
        above = any(qos in other.preempts for other in catalog.values())
        mode = own or cluster_mode
    else:
        is_by_partition = facts.config.get("PreemptType") == BY_PARTITION
        others = facts.partitions.values()
        above = is_by_partition and any(
            other.tier > partition.tier and other.nodes & partition.nodes for other in others
        )
        mode = partition.preempt_mode or cluster_mode
    words = set(mode.upper().split(","))
    return above and bool(words & {"CANCEL", "REQUEUE"})


def _nodes_of_others(partition: Partition, partitions: Iterable[Partition]) -> frozenset[str]:
    """Return the nodes where main jobs would wait for holders: those in no higher partition, and
    those of partitions that are not above this one.
    """
    others = [other for other in partitions if other.name != partition.name]
    above = [other for other in others if other.tier > partition.tier]
    equal = [other for other in others if other.tier <= partition.tier and other.starts_jobs]
    alone = partition.nodes.difference(*(other.nodes for other in above))
    shared = frozenset().union(*(other.nodes & partition.nodes for other in equal))
    return alone | shared


def _holdable_gpus(view: SiteView, partition: Partition, exclude: frozenset[str]) -> int:
    """Return the number of GPUs on the nodes that can be held, by the nodes as scontrol shows them,
    or else by the partition's TRES.
    """
    seen = sum(view.gpus.get(node, 0) for node in partition.nodes - exclude)
    return seen or int(partition.tres.get("gres/gpu", 0))


def _check_undisputed(best: Place, chosen: list[Place]) -> None:
    """Raise ``UndecidedError`` if another place, as harmless as the best, has more nodes: it has
    fewer GPUs, so only the user can choose.
    """
    rivals = [
        place
        for place in chosen
        if (place.way, place.ends_later) == (best.way, best.ends_later)
        and place.nodes > best.nodes
        and place.partition.name != best.partition.name
    ]
    if rivals:
        names = dict.fromkeys(place.partition.name for place in (best, *rivals))
        raise UndecidedError(
            "--partition",
            f"{best.words} has the most GPUs, {rivals[0].words} has more nodes",
            tuple(names)[:_MAX_CHOICES],
        )


def account_of(view: SiteView, place: Place, account: str) -> str:
    """Return the account that a job there names; empty where Slurm's default is right. Raises
    ``UndecidedError`` if several would do.
    """
    if account or not place.accounts:
        return account
    if view.default_account in place.accounts:
        return view.default_account
    if len(place.accounts) == 1:
        return place.accounts[0]
    names = ", ".join(place.accounts[:_MAX_CHOICES])
    question = f"several of your accounts may use {place.words}: {names}"
    raise UndecidedError("--account", question, place.accounts[:_MAX_CHOICES])


def _is_named(place: Place, partition: str, qos: str, account: str) -> bool:
    if partition and place.partition.name != partition:
        return False
    if qos and place.qos != qos:
        return False
    return not account or not place.accounts or account in place.accounts


def _no_such_place(every: list[Place], partition: str, qos: str, account: str) -> str:
    """Return the message for names that allow no place."""
    given = {"--partition": partition, "--qos": qos, "--account": account}
    options = " ".join(f"{option} {name}" for option, name in given.items() if name)
    if not every:
        return "your jobs may run in no partition that is UP; ask the administrators for access"
    names = dict.fromkeys(place.name for place in every)
    shown = ", ".join(tuple(names)[:_MAX_CHOICES])
    return f"{options}: your jobs cannot run there; expected a partition (and QOS) such as {shown}"
