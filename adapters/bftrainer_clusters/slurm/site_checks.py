"""The checks without which a pilot on Slurm holds no node. doctor prints them, the pilot obeys
them. Pure.

Limits that count main jobs are not among them: the pilot makes room for such jobs
(:mod:`.limit_waits`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bftrainer.cluster.model import GiveWay, Hidden, HoldingPermit
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.preempt import holders
from bftrainer_clusters.slurm.qos_limits import exempt_time
from bftrainer_clusters.slurm.site_facts import MayHold, SiteSetup, holder_kinds
from bftrainer_clusters.slurm.text import hides_jobs, parse_hidden

ACCEPTED = "accepted by slurm.accept"
YIELDED = "the pilot releases nodes for main jobs itself"
_CURED = frozenset({"preemption", "exempt time"})
"""Checks that do not matter where the pilot itself ends holders: Slurm does not, or not at once. In
the others main jobs run beside holders, or need nodes whose number the pilot cannot tell.
"""


@dataclass(frozen=True, slots=True)
class WayChoice:
    """What decides who frees nodes for main jobs: ``give_way`` is nodes.give_way, ``keeps`` the
    modes that this pilot can keep. ``hides_jobs``: the site hides the queue from the pilot. ``qos``
    is that of the holders.
    """

    give_way: str = "site"
    keeps: frozenset[GiveWay] = frozenset({GiveWay.SITE})
    hides_jobs: bool = False
    qos: str = ""

    def cures(self, check: Check, facts: SiteSetup) -> bool:
        """Return whether a failed check does not matter for a pilot that releases nodes itself."""
        if check.name == "qos":
            return not self.qos or self.qos in (facts.accounting.qos or {})
        is_chosen = self.give_way in ("yield", "blind")
        return check.name in _CURED or (check.name == "accounting" and is_chosen)

    def way(self, broken: Sequence[Check], facts: SiteSetup) -> GiveWay:
        """Return who frees nodes for main jobs, by the failed checks. SITE may also mean that no
        node can be held.
        """
        own = GiveWay.BLIND if self.hides_jobs else GiveWay.YIELD
        if self.give_way == "site" or (self.give_way == "auto" and not broken):
            return GiveWay.SITE
        if self.give_way == "yield" and self.hides_jobs:
            return GiveWay.SITE
        if self.give_way != "auto":
            own = GiveWay(self.give_way)
        is_kept = own in self.keeps and all(self.cures(check, facts) for check in broken)
        return own if is_kept else GiveWay.SITE

    def refusals(self, broken: Sequence[Check], facts: SiteSetup) -> Iterator[Check]:
        """Yield the checks that keep a pilot from holding nodes in the configured mode
        (``nodes.give_way``).
        """
        if self.give_way in ("site", "auto"):
            yield from broken
            return
        yield from (check for check in broken if not self.cures(check, facts))
        if GiveWay(self.give_way) not in self.keeps:
            yield Check.broken(
                "give way",
                f'nodes.give_way = "{self.give_way}" needs nodes.unit = "node" and '
                'slurm.backend = "commands"',
                'set nodes.give_way = "auto"',
            )
        if self.give_way == "yield" and self.hides_jobs:
            yield Check.broken(
                "give way",
                'nodes.give_way = "yield" needs the queue, which PrivateData hides',
                'set nodes.give_way = "blind", or have an operator run the pilot',
            )


def kept_ways(settings: SlurmSettings, by_gpu: bool) -> frozenset[GiveWay]:
    """Return the modes that a pilot with these settings can keep. With single GPUs, or nodes read
    by pyslurm, nobody tells what a waiting job needs, so only the site can free nodes.
    """
    if by_gpu or settings.backend != "commands":
        return frozenset({GiveWay.SITE})
    return frozenset(GiveWay)


def way_choice(
    settings: SlurmSettings, facts: SiteSetup, user: str, give_way: str, by_gpu: bool
) -> WayChoice:
    """Return what decides who frees nodes for main jobs, for a pilot of this user."""
    hides = hides_jobs(facts.config_text, user)
    return WayChoice(give_way, kept_ways(settings, by_gpu), hides, settings.qos)


def checks_of_holding(
    settings: SlurmSettings,
    facts: SiteSetup,
    user: str,
    may_hold: MayHold = lambda node: True,
    by_gpu: bool = False,
) -> tuple[Check, ...]:
    """Return the checks of all kinds of holders that the pilot may submit; a failed one that
    ``slurm.accept`` names is only a warning.
    """
    checks = [*hidden_nodes(facts.config_text, user), *accounting(facts)]
    for kind in holder_kinds(settings, by_gpu):
        of_kind = holders(
            kind, facts.config, facts.partitions, facts.accounting, facts.unused_qos, may_hold
        )
        kind_checks = [*of_kind, *exempt_time(facts.config, facts.holders(kind))]
        is_first = kind is settings
        checks += [check for check in kind_checks if is_first or check.state is CheckStatus.BROKEN]
    return tuple(
        _as_accepted(check) if check.name in settings.accept else check for check in checks
    )


def hidden_nodes(config_text: str, user: str) -> Iterator[Check]:
    """Yield a failed check if PrivateData hides nodes: nothing is known of the cluster then."""
    if Hidden.NODES in parse_hidden(config_text, user):
        yield Check.broken(
            "privacy",
            f"PrivateData hides other users' nodes from {user}",
            "have an operator run the pilot (sacctmgr modify user ... AdminLevel=Operator)",
        )


def accounting(facts: SiteSetup) -> Iterator[Check]:
    """Yield a failed check if there is accounting and sacctmgr does not answer: a QOS may protect
    holders from preemption.
    """
    if facts.accounting.silence:
        yield Check.broken(
            "accounting",
            "sacctmgr does not answer, so it is unknown what QOSes protect from preemption: "
            f"{facts.accounting.silence}",
            "start slurmdbd, or run the pilot where sacctmgr reaches it",
        )


def permit_of(
    checks: Iterable[Check], facts: SiteSetup, choice: WayChoice | None = None
) -> HoldingPermit:
    """Return what these checks allow a pilot. While only accounting is unknown, running holders
    stay.
    """
    choice, checks = choice or WayChoice(), tuple(checks)
    broken = [check for check in checks if _is_broken(check)]
    way = choice.way(broken, facts)
    against = list(choice.refusals(broken, facts))
    if way is not GiveWay.SITE:
        why = "; ".join(f"{check.name}: {check.detail}" for check in broken)
        return HoldingPermit(remarks=accepted_words(checks), give_way=way, why=why)
    unknown = ("accounting", "qos") if facts.accounting.silence else ()
    words = "; ".join(f"{check.name}: {check.detail} (remedy: {check.remedy})" for check in against)
    return HoldingPermit(
        words, any(check.name not in unknown for check in against), accepted_words(checks)
    )


def for_doctor(checks: Iterable[Check], facts: SiteSetup, choice: WayChoice) -> Iterator[Check]:
    """Yield these checks as a pilot obeys them: where it makes way itself, failed ones are
    warnings, and a line says so.
    """
    checks = tuple(checks)
    way = permit_of(checks, facts, choice).give_way
    if way is GiveWay.SITE:
        broken = [check for check in checks if _is_broken(check)]
        yield from checks
        yield from (check for check in choice.refusals(broken, facts) if check not in checks)
        return
    for check in checks:
        if _is_broken(check):
            detail = f"{check.detail}: {YIELDED}"
            yield replace(check, state=CheckStatus.WARNING, detail=detail)
        else:
            yield check
    yield Check.ok("give way", f"{way.value}: {YIELDED}")


def accepted_words(checks: Iterable[Check]) -> tuple[str, ...]:
    """Return the failed checks in spite of which holders are submitted, for messages."""
    return tuple(f"{check.name}: {check.detail}" for check in checks if _is_accepted(check))


def accepted_names(checks: Iterable[Check]) -> tuple[str, ...]:
    """Return the names of the failed checks that the user has accepted; holders show them in
    squeue.
    """
    return tuple(sorted({check.name for check in checks if _is_accepted(check)}))


def _as_accepted(check: Check) -> Check:
    if not _is_broken(check):
        return check
    return replace(check, state=CheckStatus.WARNING, detail=f"{ACCEPTED}: {check.detail}")


def _is_accepted(check: Check) -> bool:
    return check.state is CheckStatus.WARNING and check.detail.startswith(ACCEPTED)


def _is_broken(check: Check) -> bool:
    return check.state is CheckStatus.BROKEN
