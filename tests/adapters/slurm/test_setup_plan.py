"""``bftrainer site-setup``: its text, carried out at twenty public sites, lets the pilot's own checks
pass there.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest
from support.public_sites import SITES, PublicSite, config, partition, qos
from support.recorded_slurm import recorded
from support.unseen_sites import UNSEEN

from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.errors import UserError
from bftrainer_clusters.slurm.associations import Accounting
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import Qos, limit_s, parse_partitions
from bftrainer_clusters.slurm.setup_plan import plan_setup, plan_text, recommendations
from bftrainer_clusters.slurm.site_checks import checks_of_holding
from bftrainer_clusters.slurm.site_choice import SiteView
from bftrainer_clusters.slurm.site_facts import SiteSetup

EVERY_SITE = {**SITES, **UNSEEN}


def view(site: PublicSite) -> SiteView:
    return SiteView(site.facts, "me")


def carried_out(text: str, site: PublicSite) -> tuple[SiteSetup, SlurmSettings]:
    """The site after an administrator has done what the text says, and a user's keys."""
    config_text, lines = site.config, list(site.partitions)
    catalog = {each.name: each for each in site.qos}
    removed = [line[1:] for line in text.splitlines() if line.startswith("-")]
    for line in removed:
        if line.startswith("PartitionName="):
            name, *settings = line.split()
            old = next(each for each in lines if each.startswith(f"{name} "))
            assert all(f" {setting} " in f"{old} " for setting in settings), (line, old)
        else:
            key, _, value = line.partition("=")
            assert f"{key} = {value}\n" in config_text
    for line in (line[1:] for line in text.splitlines() if line.startswith("+")):
        if line.startswith("PartitionName="):
            lines = with_settings(lines, line)
        else:
            key, _, value = line.partition("=")
            config_text = re.sub(rf"^{key} = .*\n", "", config_text, flags=re.MULTILINE)
            config_text += f"{key} = {value}\n"
    for line in text.splitlines():
        if line.startswith("sacctmgr -i "):
            obey(shlex.split(line)[2:], catalog)
    keys = dict(re.findall(r'^(partition|qos|account) = "(.*)"$', text, re.MULTILINE))
    partitions = parse_partitions("\n".join(lines) + "\n")
    return SiteSetup(config_text, partitions, Accounting(catalog or None)), SlurmSettings(**keys)


def with_settings(lines: list[str], change: str) -> list[str]:
    name, *settings = change.split()
    if not any(line.startswith(f"{name} ") for line in lines):
        lines = [*lines, partition(name.removeprefix("PartitionName="), "(null)")]
    changed = []
    for line in lines:
        if line.startswith(f"{name} "):
            for setting in settings:
                key, _, value = setting.partition("=")
                line, count = re.subn(rf" {key}=\S+", f" {key}={value}", line)
                assert count == 1, (key, line)
        changed.append(line)
    return changed


def obey(words: list[str], catalog: dict[str, Qos]) -> None:
    match words:
        case ["add", "qos", name]:
            assert name not in catalog
            catalog[name] = qos(name)
        case ["modify", "qos", names, "set", *settings]:
            for name in names.split(","):
                for setting in settings:
                    catalog[name] = with_setting(catalog[name], setting)
        case ["add", "account", "pilots"] | ["add", "user", "USER", "account=pilots"]:
            pass
        case ["modify", "user", "USER", "where", "account=pilots", "set", _]:
            pass
        case _:
            raise AssertionError(words)


def with_setting(own: Qos, setting: str) -> Qos:
    match re.split(r"\+?=", setting):
        case ["Preempt", name]:
            return replace(own, preempts=own.preempts | {name})
        case ["UsageFactor", "0"]:
            return replace(own, usage_factor=0.0)
        case ["PreemptExemptTime", text]:
            return replace(own, exempt_s=limit_s(text))
        case ["PreemptMode", "cancel"]:
            return replace(own, preempt_mode="CANCEL")
        case ["Priority", "0"]:
            return own
    raise AssertionError(setting)


@pytest.mark.parametrize("name", EVERY_SITE)
def test_carried_out_the_text_lets_main_jobs_preempt_holders(name: str) -> None:
    site = EVERY_SITE[name]
    text = plan_text(plan_setup(view(site)), view(site))
    facts, settings = carried_out(text, site)
    checks = checks_of_holding(settings, facts, "me")
    broken = [check for check in checks if check.state is CheckStatus.BROKEN]
    assert not broken, (text, broken)
    again = plan_setup(SiteView(facts, "me"), settings.partition, settings.qos)
    assert again.is_empty, "there is nothing left to change"


@pytest.mark.parametrize("name", EVERY_SITE)
def test_the_order_of_the_main_partitions_stays(name: str) -> None:
    site = EVERY_SITE[name]
    text = plan_text(plan_setup(view(site)), view(site))
    facts, settings = carried_out(text, site)
    tiers = {name: each.tier for name, each in site.facts.partitions.items()}
    later = {name: facts.partitions[name].tier for name in tiers}
    tiers.pop(settings.partition, None)
    for one in tiers:
        for other in tiers:
            assert (tiers[one] < tiers[other]) == (later[one] < later[other])


def test_new_preemption_leaves_main_jobs_alone() -> None:
    """Where PreemptMode of the cluster becomes CANCEL, it would count for all partitions."""
    lines = [partition("long", "n[1-8]", 1, Default="YES"), partition("express", "n[1-8]", 5)]
    site = PublicSite(config(), lines, SlurmSettings(partition="x"))
    text = plan_text(plan_setup(view(site)), view(site))
    facts, _ = carried_out(text, site)
    assert {facts.partitions[name].preempt_mode for name in ("long", "express")} == {"OFF"}
    # scontrol shows a partition that says nothing with the mode of the cluster, which becomes CANCEL.
    assert "+PartitionName=long PriorityTier=2 PreemptMode=OFF" in text
    assert "+PartitionName=express PriorityTier=6 PreemptMode=OFF" in text
    assert "restart slurmctld" in text
    assert "+PartitionName=scavenger Nodes=n[1-8] PriorityTier=1 PreemptMode=CANCEL" in text


def test_a_preemptible_partition_is_kept() -> None:
    """Only what stands in its way changes."""
    lines = [
        partition("main", "n[1-8]", 20, Default="YES"),
        partition("idle", "n[1-8]", 10, "REQUEUE"),
        partition("apart", "m[1-2]", 1),
    ]
    site = PublicSite(
        config("partition_prio", "CANCEL", "00:10:00"), lines, SlurmSettings(partition="x")
    )
    text = plan_text(plan_setup(view(site)), view(site))
    changes = [line for line in text.splitlines() if line.startswith(("+", "-"))]
    assert changes == ["-PreemptExemptTime=00:10:00", "+PreemptExemptTime=00:00:00"]
    assert 'partition = "idle"' in text
    debug = replace(site, partitions=[*lines, partition("debug", "n[1-8]", 10)])
    facts, settings = carried_out(plan_text(plan_setup(view(debug)), view(debug)), debug)
    tiers = {name: each.tier for name, each in facts.partitions.items()}
    assert (settings.partition, tiers["idle"]) == ("idle", 1)
    assert tiers["debug"] < tiers["main"]


def test_a_site_that_is_ready_gets_no_difference() -> None:
    site = SITES["a secondary partition below the owners'"]
    text = plan_text(plan_setup(view(site)), view(site))
    assert "there is nothing to change" in text
    assert 'partition = "secondary"' in text
    assert not any(line.startswith(("+", "-", "sacctmgr")) for line in text.splitlines())


def test_names_that_are_main_jobs_own_are_refused() -> None:
    by_qos = SITES["an exempt time of ten minutes"]
    with pytest.raises(UserError, match="--qos normal: jobs that name no QOS have it"):
        plan_setup(view(by_qos), qos="normal")
    none = SITES["one partition without preemption"]
    with pytest.raises(UserError, match="--partition general: it is the default"):
        plan_setup(view(none), "general")
    with pytest.raises(UserError, match="--qos x: partitions decide"):
        plan_setup(view(none), qos="x")
    with pytest.raises(UserError, match="--partition y: there is none; expected one of gpu"):
        plan_setup(view(by_qos), "y")


def test_words_for_a_shell_are_quoted() -> None:
    odd = [qos("a b;c"), qos("normal")]
    site = PublicSite(
        config("qos", "CANCEL"), [partition("p", "n1")], SlurmSettings(partition="p"), qos=odd
    )
    assert "'a b;c,normal'" in plan_text(plan_setup(view(site)), view(site))


def test_recommendations_are_the_remedies_of_doctor() -> None:
    defaults = SiteSetup(recorded("site-defaults.config.txt"), {})
    advice = recommendations(SiteView(defaults, "me"))
    assert "configure any Epilog, such as Epilog=/bin/true" in advice
    assert not recommendations(
        SiteView(SiteSetup(recorded("site-recommended.config.txt"), {}), "me")
    )
