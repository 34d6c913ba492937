"""The checks without which a pilot on Slurm holds no node. doctor prints them, the pilot obeys
them. Pure.

Limits that count main jobs are not among them: the pilot makes room for such jobs
(:mod:`.limit_waits`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bftrainer.cluster.model import Hidden, HoldingPermit
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.preempt import holders
from bftrainer_clusters.slurm.qos_limits import exempt_time
from bftrainer_clusters.slurm.site_facts import MayHold, SiteSetup, holder_kinds
from bftrainer_clusters.slurm.text import parse_hidden

ACCEPTED = "accepted by slurm.accept"


def checks_of_holding(
    settings: SlurmSettings,
    facts: SiteSetup,
    user: str,
    may_hold: MayHold = lambda node: True,
    by_gpu: bool = False,
) -> tuple[Check, ...]:
    """Those of all holders that the pilot may submit; what ``slurm.accept`` names is a warning."""
    checks = [*hidden_nodes(facts.config_text, user), *accounting(facts)]
    for kind in holder_kinds(settings, by_gpu):
        of_kind = holders(
            kind, facts.config, facts.partitions, facts.accounting, facts.unused_qos, may_hold
        )
        found = [*of_kind, *exempt_time(facts.config, facts.holders(kind))]
        is_first = kind is settings
        checks += [check for check in found if is_first or check.state is CheckStatus.BROKEN]
    return tuple(_accepted(check) if check.name in settings.accept else check for check in checks)


def hidden_nodes(config_text: str, user: str) -> Iterator[Check]:
    """PrivateData=nodes: nothing is known of the cluster."""
    if Hidden.NODES in parse_hidden(config_text, user):
        yield Check.broken(
            "privacy",
            f"PrivateData hides other users' nodes from {user}",
            "have an operator run the pilot (sacctmgr modify user ... AdminLevel=Operator)",
        )


def accounting(facts: SiteSetup) -> Iterator[Check]:
    """Whether sacctmgr answers, where there is accounting: a QOS may protect holders from
    preemption.
    """
    if facts.accounting.silence:
        yield Check.broken(
            "accounting",
            "sacctmgr does not answer, so it is unknown what QOSes protect from preemption: "
            f"{facts.accounting.silence}",
            "start slurmdbd, or run the pilot where sacctmgr reaches it",
        )


def permit_of(checks: Iterable[Check], facts: SiteSetup) -> HoldingPermit:
    """What the pilot makes of these checks. Holders that run stay while it is only unknown what
    accounting has.
    """
    against = [check for check in checks if _is_broken(check)]
    unknown = ("accounting", "qos") if facts.accounting.silence else ()
    words = "; ".join(f"{check.name}: {check.detail} (remedy: {check.remedy})" for check in against)
    return HoldingPermit(
        words, any(check.name not in unknown for check in against), accepted_words(checks)
    )


def accepted_words(checks: Iterable[Check]) -> tuple[str, ...]:
    """What holders are submitted in spite of."""
    return tuple(f"{check.name}: {check.detail}" for check in checks if _is_accepted(check))


def accepted_names(checks: Iterable[Check]) -> tuple[str, ...]:
    """The names of these checks, which holders show in squeue."""
    return tuple(sorted({check.name for check in checks if _is_accepted(check)}))


def _accepted(check: Check) -> Check:
    if not _is_broken(check):
        return check
    return replace(check, state=CheckStatus.WARNING, detail=f"{ACCEPTED}: {check.detail}")


def _is_accepted(check: Check) -> bool:
    return check.state is CheckStatus.WARNING and check.detail.startswith(ACCEPTED)


def _is_broken(check: Check) -> bool:
    return check.state is CheckStatus.BROKEN
