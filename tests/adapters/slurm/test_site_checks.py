"""The checks without which a pilot holds no node: fourteen sites, one fault at a time, and what the
user accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.public_sites import SITES, PublicSite, config, partition, qos
from support.recorded_slurm import recorded

from bftrainer.cluster.model import GiveWay, HoldingPermit
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import CommandError
from bftrainer_clusters.slurm import jobs
from bftrainer_clusters.slurm.associations import Accounting, Association
from bftrainer_clusters.slurm.checks import judge
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import parse_partitions
from bftrainer_clusters.slurm.site_checks import (
    WayChoice,
    accepted_names,
    checks_of_holding,
    permit_of,
)
from bftrainer_clusters.slurm.site_facts import SiteSetup, jobs_argv, unused

SETTINGS = SlurmSettings(partition="scavenge")
BROKEN = CheckStatus.BROKEN


def broken(
    site: PublicSite,
    settings: SlurmSettings | None = None,
    may_hold: Callable[[str], bool] = lambda node: True,
) -> dict[str, Check]:
    checks = checks_of_holding(settings or site.settings, site.facts, "me", may_hold)
    return {check.name: check for check in checks if check.state is BROKEN}


def by_partition(*partitions: str, settings: SlurmSettings = SETTINGS) -> PublicSite:
    return PublicSite(config("partition_prio", "CANCEL"), [*partitions], settings)


@pytest.mark.parametrize("name", SITES)
def test_a_public_site_is_refused_exactly_where_main_jobs_would_wait(name: str) -> None:
    site = SITES[name]
    found = broken(site)
    assert bool(found) == bool(site.name), found
    permit = permit_of(found.values(), site.facts)
    assert permit.releases == bool(permit.refusal) == bool(site.name)
    if site.name:
        assert site.words in found[site.name].detail
        assert site.words in permit.refusal
        assert "\n" not in permit.refusal


@pytest.mark.parametrize("name", SITES)
def test_doctor_prints_the_checks_that_the_pilot_obeys(name: str) -> None:
    site = SITES[name]
    text = recorded("site-recommended.config.txt")
    for line in site.config.splitlines():
        key = line.split(" = ")[0]
        text = "".join(
            f"{line}\n" if old.startswith(f"{key} ") else f"{old}\n" for old in text.splitlines()
        )
    facts = replace(site.facts, config_text=text)
    of_pilot = checks_of_holding(site.settings, facts, "me")
    assert set(of_pilot) <= set(judge(site.settings, facts, "me"))


MAIN = partition("main", "n[1-8]", 10, Default="YES")
SCAVENGE = partition("scavenge", "n[1-8]", 1, "CANCEL")
DEBUG = partition("debug", "n[7-8]", 1)


def test_partitions_that_count_and_partitions_that_do_not() -> None:
    assert not broken(by_partition(MAIN, SCAVENGE))
    found = broken(by_partition(MAIN, SCAVENGE, DEBUG))
    assert "jobs of debug wait for holders, those of main do not" in found["preemption"].detail
    for stopped in ("State=DOWN", "State=INACTIVE"):
        assert not broken(by_partition(MAIN, SCAVENGE, DEBUG.replace("State=UP", stopped)))
    assert not broken(by_partition(MAIN, SCAVENGE, DEBUG.replace("RootOnly=NO", "RootOnly=YES")))
    assert broken(by_partition(MAIN, SCAVENGE, DEBUG.replace("State=UP", "State=DRAIN"))), (
        "its queue goes on"
    )


def test_nodes_that_the_pilot_excludes_do_not_count() -> None:
    """It is the remedy that the check names."""
    site = by_partition(MAIN, SCAVENGE, DEBUG)
    assert not broken(site, may_hold=lambda node: node not in ("n7", "n8"))
    assert broken(site, may_hold=lambda node: node != "n7")


def test_a_partition_that_is_the_main_queues_own() -> None:
    """Its jobs count as pilots', so their plans would end no window; and nothing preempts holders
    for them.
    """
    urgent = partition("urgent", "n[1-8]", 20)
    everybodys = SlurmSettings(partition="main")
    found = broken(
        by_partition(
            urgent, MAIN.replace("PreemptMode=OFF", "PreemptMode=CANCEL"), settings=everybodys
        )
    )
    assert "jobs that name no partition run there" in found["preemption"].detail
    half = by_partition(partition("main", "n[1-4]", 10, Default="YES"), SCAVENGE)
    assert "n5, n6, n7, n8 in no partition above scavenge" in broken(half)["preemption"].detail
    assert not broken(half, may_hold=lambda node: node in ("n1", "n2"))


def test_a_partition_that_is_set_up_like_the_default_one() -> None:
    """Another one preempts its jobs, and it is a queue for main jobs all the same: nothing sets it
    apart from the default partition, whose nodes are others.
    """
    default = partition("cpu", "n[9-16]", 10, "CANCEL", Default="YES")
    urgent = partition("urgent", "n[1-16]", 20)
    alike = partition("gpu", "n[1-8]", 10, "CANCEL")
    gpu = SlurmSettings(partition="gpu")
    found = broken(by_partition(default, urgent, alike, settings=gpu))
    assert "partition gpu has the PriorityTier and PreemptMode of the default" in (
        found["preemption"].detail
    )
    for other in (
        partition("gpu", "n[1-8]", 1, "CANCEL"),
        partition("gpu", "n[1-8]", 10, "REQUEUE"),
    ):
        assert not broken(by_partition(default, urgent, other, settings=gpu)), "set apart"
    assert not broken(by_partition(urgent, alike, settings=gpu)), "no partition is the default"


def test_without_slurm_partition_holders_run_in_the_default_partition() -> None:
    """sbatch chooses it, and a QOS preempts nothing where partitions decide."""
    only_qos = SlurmSettings(qos="scavenger")
    found = broken(by_partition(MAIN, SCAVENGE, settings=only_qos))
    assert "partition main has PreemptMode OFF" in found["preemption"].detail
    none = broken(
        by_partition(MAIN.replace("Default=YES", "Default=NO"), SCAVENGE, settings=only_qos)
    )
    assert "no partition is the default" in none["partition"].detail


def by_qos(
    *others: str, name: str = "scavenger", unused_qos: frozenset[str] = frozenset()
) -> dict[str, Check]:
    site = PublicSite(
        config("qos", "CANCEL"),
        [partition("main", "n[1-8]", mode="CANCEL", Default="YES")],
        SlurmSettings(qos=name),
        qos=[
            qos("normal", "scavenger"),
            qos("high", "scavenger,normal"),
            qos("scavenger"),
            *map(qos, others),
        ],
    )
    facts = replace(site.facts, unused_qos=unused_qos)
    return {
        check.name: check
        for check in checks_of_holding(site.settings, facts, "me")
        if check.state is BROKEN
    }


def test_every_qos_that_can_use_the_nodes_must_preempt() -> None:
    assert not by_qos()
    found = by_qos("long", "other")
    assert (
        "jobs of QOS long, other wait for holders, those of high, normal do not"
        in found["qos"].detail
    )
    assert "long,other set Preempt+=scavenger" in found["qos"].remedy
    assert not by_qos("long", unused_qos=frozenset({"long"}))


def test_the_qos_of_jobs_that_name_none_is_no_holders() -> None:
    """``high`` preempts it, and its own jobs would wait."""
    assert "jobs that name no QOS get normal" in by_qos(name="normal")["qos"].detail


def test_a_qos_as_preemptible_as_the_holders_does_not_count_unless_jobs_get_it_by_default() -> None:
    low = [qos("scavenger"), qos("scavenger-s")]
    site = PublicSite(
        config("qos", "CANCEL"),
        [partition("main", "n[1-8]", mode="CANCEL", Default="YES")],
        SlurmSettings(qos="scavenger"),
        qos=[qos("normal", "scavenger,scavenger-s"), *low],
    )
    assert not broken(site)
    top = Association("root", "", default_qos="scavenger-s")
    facts = replace(site.facts, accounting=replace(site.facts.accounting, associations=(top,)))
    checks = {check.name: check for check in checks_of_holding(site.settings, facts, "me")}
    assert "jobs of QOS scavenger-s wait" in checks["qos"].detail


def test_a_partition_admits_only_some_qoses() -> None:
    lines = [
        partition("main", "n[1-8]", mode="CANCEL", Default="YES"),
        partition("far", "m[1-8]", mode="CANCEL"),
    ]
    site = PublicSite(
        config("qos", "CANCEL"),
        lines,
        SlurmSettings(qos="scavenger"),
        qos=[qos("normal", "scavenger"), qos("long"), qos("scavenger")],
    )
    assert "long" in broken(site)["qos"].detail
    allowed = [lines[0].replace("AllowQos=ALL", "AllowQos=normal,scavenger"), lines[1]]
    assert not broken(replace(site, partitions=allowed))
    denied = [lines[0].replace("AllowQos=ALL", "DenyQos=long"), lines[1]]
    assert not broken(replace(site, partitions=denied))


@pytest.mark.parametrize(
    ("main", "ours", "is_broken"),
    [
        ("FORCE:4", "FORCE:2", True),
        ("FORCE:2", "EXCLUSIVE", False),
        ("NO", "FORCE:2", False),
        ("FORCE:1", "FORCE:1", False),
    ],
)
def test_oversubscribe_force_puts_main_jobs_beside_the_training(
    main: str, ours: str, is_broken: bool
) -> None:
    """As seen with 22.05.8: only where both partitions force."""
    lines = [
        MAIN.replace("OverSubscribe=NO", f"OverSubscribe={main}"),
        SCAVENGE.replace("=NO Over", f"={ours} Over"),
    ]
    assert ("oversubscribe" in broken(by_partition(*lines))) == is_broken


def test_oversubscribe_force_in_a_partition_that_holders_and_main_jobs_share() -> None:
    site = SITES["an exempt time of ten minutes"]
    forced = replace(
        site, partitions=[site.partitions[0].replace("OverSubscribe=NO", "OverSubscribe=FORCE:2")]
    )
    assert "jobs of gpu run on the cores" in broken(forced)["oversubscribe"].detail


@pytest.mark.parametrize(
    ("cluster", "own", "of_partition", "expected"),
    [
        ("00:10:00", None, None, 600.0),
        ("00:10:00", 0.0, None, 0.0),
        ("00:00:00", 60.0, None, 60.0),
        ("00:00:00", 0.0, 60.0, 60.0),
        ("00:00:00", 60.0, 0.0, 60.0),
        ("00:00:02", None, None, 0.0),
        ("00:10:00", float("inf"), None, 600.0),
        ("-1", None, None, 0.0),
    ],
)
def test_whose_exempt_time_counts(
    cluster: str, own: float | None, of_partition: float | None, expected: float
) -> None:
    """Those of QOSes come before the cluster's, and also where partitions decide about
    preemption.
    """
    site = PublicSite(
        config("partition_prio", "CANCEL", cluster),
        [MAIN, SCAVENGE.replace("QoS=N/A", "QoS=partq")],
        SETTINGS,
        qos=[qos("normal", exempt=own), qos("partq", exempt=of_partition)],
    )
    found = broken(site)
    assert ("exempt time" in found) == bool(expected)
    if expected:
        assert f"PreemptExemptTime {expected:g} s" in found["exempt time"].detail


EXEMPT = PublicSite(
    config("partition_prio", "CANCEL", "00:10:00"), [MAIN, SCAVENGE, DEBUG], SETTINGS
)


def test_what_the_user_accepts_is_a_warning_of_that_check_only() -> None:
    accepting = SlurmSettings(partition="scavenge", accept=("exempt time",))
    checks = checks_of_holding(accepting, EXEMPT.facts, "me")
    states = {check.name: check.state for check in checks}
    assert (states["exempt time"], states["preemption"]) == (CheckStatus.WARNING, BROKEN)
    permit = permit_of(checks, EXEMPT.facts)
    assert permit.refusal.startswith("preemption: PriorityTier 1: jobs of debug wait")
    assert "exempt" not in permit.refusal
    (remark,) = permit.remarks
    assert remark.startswith("exempt time: accepted by slurm.accept: PreemptExemptTime 600 s")
    both = SlurmSettings(partition="scavenge", accept=("exempt time", "preemption"))
    checks = checks_of_holding(both, EXEMPT.facts, "me")
    assert not permit_of(checks, EXEMPT.facts).refusal
    assert accepted_names(checks) == ("exempt time", "preemption")


def test_an_acceptance_of_what_is_not_broken_changes_nothing() -> None:
    accepting = SlurmSettings(partition="scavenge", accept=("topology", "exempt time"))
    checks = checks_of_holding(accepting, by_partition(MAIN, SCAVENGE).facts, "me")
    assert permit_of(checks, by_partition(MAIN, SCAVENGE).facts).remarks == ()
    assert accepted_names(checks) == ()


@pytest.mark.parametrize("name", ["force", "partition", "privacy", "limits", "exempt-time", "all"])
def test_only_a_check_that_can_be_accepted_may_be_named(name: str) -> None:
    with pytest.raises(ValueError, match="accept"):
        SlurmSettings.model_validate({"partition": "scavenge", "accept": [name]})


def test_a_holder_shows_in_squeue_what_its_user_has_accepted() -> None:
    own = jobs.comment("p", "ann")
    words = own + jobs.accepts(["exempt time", "qos"]) + "; wants 3; hosts node[1-2]"
    assert "failed checks accepted by the user: exempt time, qos)" in words
    assert jobs.parse_holder(f"7|RUNNING|n1|N/A|None|{words}", own) is not None
    assert jobs.parse_holder(f"7|RUNNING|n1|N/A|None|{words}", jobs.comment("p", "eve")) is None
    assert jobs.accepts([]) == ""


def test_parts_have_a_partition_of_their_own_which_is_checked_as_well() -> None:
    parts = partition("parts", "n[1-8]", 0, "CANCEL")
    settings = SlurmSettings(partition="scavenge", parts_partition="parts")

    def found(*lines: str) -> dict[str, Check]:
        facts = by_partition(*lines).facts
        checks = checks_of_holding(settings, facts, "me", by_gpu=True)
        return {check.name: check for check in checks if check.state is BROKEN}

    assert not found(MAIN, SCAVENGE, parts), "each is the pilot's own to the other"
    assert (
        "parts has PreemptMode OFF"
        in found(MAIN, SCAVENGE, parts.replace("=CANCEL", "=OFF"))["preemption"].detail
    )


def test_hidden_nodes_and_an_accounting_that_is_silent() -> None:
    site = by_partition(MAIN, SCAVENGE)
    hidden = replace(site, config=config("partition_prio", "CANCEL", private="nodes"))
    assert "hides other users' nodes from me" in broken(hidden)["privacy"].detail
    silent = replace(site.facts, accounting=Accounting(silence="sacctmgr: no response"))
    checks = checks_of_holding(SETTINGS, silent, "me")
    permit = permit_of(checks, silent)
    assert "sacctmgr: no response" in permit.refusal
    assert not permit.releases, "it is unknown, and no failure"
    by_qos_too = SlurmSettings(partition="scavenge", qos="scavenger", accept=("accounting",))
    assert permit_of(checks_of_holding(by_qos_too, silent, "me"), silent).refusal == ""


def of_sacct(*answers: str) -> tuple[list[list[str]], Callable[[list[str]], str]]:
    asked: list[list[str]] = []

    def ask(argv: list[str]) -> str:
        asked.append(argv)
        if not answers[len(asked) - 1]:
            raise CommandError(argv, "no response")
        return answers[len(asked) - 1].strip() and answers[len(asked) - 1]

    return asked, ask


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("normal|eve\n", "\n", "\n"), {"long", "other"}),
        (("normal|eve\nlong|eve\n", "\n", "\n"), {"other"}),
        (("normal|eve\n", "other|eve\n", "long|bob\n"), set()),
        (("\n", "\n", "\n"), set()),  # slurmdbd may hide the jobs of others
        (("normal|me\n", "normal|me\n", "\n"), set()),
        (("normal|me\n", "normal|eve\n", "\n"), {"long", "other"}),
        (("normal|eve\n", "", ""), set()),
    ],
)
def test_qoses_that_no_job_has_used_for_a_week(
    answers: tuple[str, ...], expected: set[str]
) -> None:
    asked, ask = of_sacct(*answers)
    assert unused(frozenset({"long", "other"}), "me", ask) == expected
    assert asked[0] == jobs_argv("now-1hours", frozenset())


def test_the_recorded_sites_of_the_documentation_pass() -> None:
    text = recorded("site-recommended.config.txt")
    facts = SiteSetup(text, parse_partitions(recorded("site-recommended.partitions.txt")))
    assert permit_of(checks_of_holding(SETTINGS, facts, "me"), facts).refusal == ""


ALL_WAYS = frozenset(GiveWay)
NEVER = PublicSite(config("none", "OFF"), [MAIN], SlurmSettings(partition="main"))


def choice(give_way: str, hides_jobs: bool = False, **more: object) -> WayChoice:
    return WayChoice(give_way, hides_jobs=hides_jobs, **({"keeps": ALL_WAYS} | more))  # type: ignore[arg-type]


def way(site: PublicSite, chosen: WayChoice) -> HoldingPermit:
    return permit_of(checks_of_holding(site.settings, site.facts, "me"), site.facts, chosen)


def test_where_slurm_ends_holders_the_site_does() -> None:
    fit = by_partition(MAIN, SCAVENGE)
    assert way(fit, choice("auto")) == HoldingPermit()
    assert way(fit, choice("auto", hides_jobs=True)) == HoldingPermit()
    assert way(fit, choice("yield")).give_way is GiveWay.YIELD
    assert way(fit, choice("blind")).give_way is GiveWay.BLIND


@pytest.mark.parametrize("site", [NEVER, EXEMPT])
def test_where_it_does_not_the_pilot_yields(site: PublicSite) -> None:
    permit = way(site, choice("auto"))
    assert (permit.give_way, permit.refusal, permit.releases) == (GiveWay.YIELD, "", False)
    assert permit.why.startswith(("preemption: ", "exempt time: "))
    assert way(site, choice("auto", hides_jobs=True)).give_way is GiveWay.BLIND
    assert way(site, choice("blind")).give_way is GiveWay.BLIND
    assert way(site, choice("site")).refusal


@pytest.mark.parametrize("give_way", ["auto", "yield", "blind"])
def test_what_a_yield_does_not_cure_is_refused(give_way: str) -> None:
    forced = MAIN.replace("OverSubscribe=NO", "OverSubscribe=FORCE:2")
    assert forced != MAIN
    for site in (
        PublicSite(config("none", "OFF"), [forced], SlurmSettings(partition="main")),
        PublicSite(config("none", "OFF"), [MAIN], SlurmSettings(partition="nosuch")),
        PublicSite(config("none", "OFF"), [MAIN], SlurmSettings(partition="main", qos="nosuch")),
    ):
        permit = way(site, choice(give_way, qos=site.settings.qos))
        assert (permit.give_way, bool(permit.refusal)) == (GiveWay.SITE, True), site
    of_gpus = way(NEVER, choice(give_way, keeps=frozenset({GiveWay.SITE})))
    assert (of_gpus.give_way, bool(of_gpus.refusal)) == (GiveWay.SITE, True)


def test_a_hidden_queue_cannot_be_watched() -> None:
    permit = way(NEVER, choice("yield", hides_jobs=True))
    assert "needs the queue, which PrivateData hides" in permit.refusal
    assert 'set nodes.give_way = "blind"' in permit.refusal


def test_accounting_that_is_silent_is_unknown_unless_the_user_has_chosen_to_yield() -> None:
    facts = replace(NEVER.facts, accounting=Accounting(silence="sacctmgr: no response"))
    checks = checks_of_holding(NEVER.settings, facts, "me")
    assert "no response" in permit_of(checks, facts, choice("auto")).refusal
    assert permit_of(checks, facts, choice("yield")).give_way is GiveWay.YIELD


def test_doctor_names_the_way_and_fails_nothing_that_the_pilot_cures() -> None:
    text = recorded("site-recommended.config.txt").replace(
        "PreemptType             = preempt/partition_prio",
        "PreemptType             = preempt/none",
    )
    facts = replace(NEVER.facts, config_text=text)
    shown = judge(NEVER.settings, facts, "me", give_way="auto")
    lines = {check.name: check for check in shown}
    assert lines["preemption"].state is CheckStatus.WARNING
    assert lines["preemption"].detail.endswith("the pilot releases nodes for main jobs itself")
    assert lines["give way"].detail.startswith("yield: ")
    assert "give way" not in {check.name for check in judge(NEVER.settings, facts, "me")}
