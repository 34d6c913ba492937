"""The partition, QOS and way that ``bftrainer init`` chooses: fourteen public sites that the rules
were written for, and six that they were not.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.public_sites import SITES, PublicSite, config, partition, qos
from support.unseen_sites import UNSEEN

from bftrainer.errors import UndecidedError, UserError
from bftrainer_clusters.slurm.associations import Association
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.site_choice import SiteView, Way, choose, ranked_places

EXPECTED = {
    "a QOS that guarantees two hours": (Way.YIELD, ("cpu", "gpu"), "preempt"),
    "a checkpoint QOS on the nodes of the labs": (Way.SITE, ("ckpt-all",), "lab-ckpt"),
    "a partition below three others": (Way.SITE, ("preempted",), ""),
    "a second partition on contributed nodes": (Way.SITE, ("genoacpu-b",), ""),
    "two preemptible QOSes in a partition of their own": (Way.SITE, ("preempt",), "pre-n"),
    "a QOS called scavenger where partitions decide": (Way.YIELD, ("b200",), ""),
    "one QOS that preempts, and four that do not": (Way.YIELD, ("batch",), "batch"),
    "an exempt time of ten minutes": (Way.YIELD, ("gpu",), "scavenger"),
    "preemption by QOS, and one QOS for all": (Way.YIELD, ("course",), "normal"),
    "two partitions without preemption": (Way.YIELD, ("standard",), ""),
    "one partition without preemption": (Way.YIELD, ("general",), ""),
    "a secondary partition below the owners'": (Way.SITE, ("secondary",), ""),
    "a site that never ends a job, and hides the others'": (Way.BLIND, ("all",), ""),
    "partitions by the size of jobs, and PreemptMode=OFF": (Way.YIELD, ("ct",), ""),
    "a preemptable partition below ten others": (Way.SITE, ("preemptable",), ""),
    "two scavenger partitions, of CPUs and of GPUs": (Way.SITE, ("gpu_scav", "scavenger"), ""),
    "partitions by processor, without preemption": (Way.YIELD, ("gpu", "intel", "short"), ""),
    "an interactive partition above the queue of everybody": (Way.YIELD, ("batch",), ""),
    "the template of a cloud": (Way.YIELD, ("debug",), ""),
    "a preemptable QOS in the accounts of facilities": (
        Way.SITE,
        ("ampere", "milano"),
        "preemptable",
    ),
}
"""Way, partition, QOS. Several partitions: the user is asked, and these are right answers."""
ASKED = {
    "two scavenger partitions, of CPUs and of GPUs",
    "partitions by processor, without preemption",
    "a preemptable QOS in the accounts of facilities",
}
"""Where partitions are better in different respects: one has the GPUs, another more nodes."""


USERS = {
    "a QOS that guarantees two hours": [
        Association("m1", "me", qos=frozenset({"regular", "debug", "preempt"}))
    ]
}
"""Where not every user may use every QOS: `overrun` is for accounts without hours."""


def view(site: PublicSite, *associations: Association, default: str = "") -> SiteView:
    return SiteView(site.facts, "me", associations, default)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_choice_at_twenty_public_sites(name: str) -> None:
    site = {**SITES, **UNSEEN}[name]
    way, partitions, qos_name = EXPECTED[name]
    chosen = ""
    if name in ASKED:
        with pytest.raises(UndecidedError, match="decide with --partition") as question:
            choose(view(site, *USERS.get(name, ())))
        assert set(partitions) <= set(question.value.choices)
        chosen = partitions[0]
    choice = choose(view(site, *USERS.get(name, ())), chosen)
    assert choice.place.way is way, choice.place.why
    assert choice.place.partition.name in partitions
    assert choice.place.qos == qos_name
    assert choice.place.why


def test_the_table_has_all_sites() -> None:
    assert set(EXPECTED) == {*SITES, *UNSEEN}
    assert len(EXPECTED) == 20


def test_a_pilots_own_accounts_decide_what_it_may_use() -> None:
    site = UNSEEN["a preemptable QOS in the accounts of facilities"]
    both = frozenset({"normal", "preemptable"})
    lcls, cryo = Association("lcls:default", "me", qos=both), Association("cryo", "me", qos=both)
    none = Association("fpd:g4sim", "me", qos=frozenset({"normal"}))
    choice = choose(view(site, none, lcls, default="fpd:g4sim"), "ampere")
    assert (choice.place.qos, choice.account) == ("preemptable", "lcls:default")
    with pytest.raises(UndecidedError, match=r"lcls:default, cryo; decide with --account"):
        choose(view(site, lcls, cryo, none, default="fpd:g4sim"), "ampere")
    assert choose(view(site, lcls, cryo, default="cryo"), "ampere").account == "cryo"
    assert choose(view(site, lcls, cryo), "ampere", account="cryo").account == "cryo"
    without = choose(view(site, none), "ampere").place
    assert (without.way, without.qos) == (Way.YIELD, "normal")


def test_a_partition_of_others_is_no_place() -> None:
    site = UNSEEN["a preemptable partition below ten others"]
    me = Association("chem", "me", default_qos="normal")
    assert "lab" not in {place.partition.name for place in ranked_places(view(site, me))}
    lab = Association("lab", "me", default_qos="normal")
    assert "lab" in {place.partition.name for place in ranked_places(view(site, lab))}
    with pytest.raises(UserError, match="--partition lab: your jobs cannot run there; expected"):
        choose(view(site, me), "lab")
    of_groups = replace(
        site, partitions=[p.replace("Groups=ALL", "Groups=hpc") for p in site.partitions]
    )
    with pytest.raises(UserError, match="no partition that is UP"):
        choose(replace(view(of_groups), groups=frozenset({"students"})))


def test_nodes_that_other_main_jobs_can_use_are_left_alone() -> None:
    """Two nodes of a debug partition do not make a hundred others useless."""
    lines = [
        partition("main", "n[001-100]", 10, Default="YES"),
        partition("scavenger", "n[001-100]", 1, "CANCEL"),
        partition("debug", "n[099-100]", 1),
    ]
    site = PublicSite(config("partition_prio", "CANCEL"), lines, SlurmSettings(partition="x"))
    place = choose(view(site)).place
    assert (place.way, place.partition.name, place.nodes) == (Way.SITE, "scavenger", 98)
    assert place.exclude == {"n099", "n100"}
    many = replace(site, partitions=[*lines[:2], partition("debug", "n[041-100]", 1)])
    assert choose(view(many)).place.way is Way.YIELD, "most nodes would be left alone"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (partition("all", "n[1-4]", MaxTime="00:00:30"), "may run for a minute"),
        (partition("all", "n[1-4]") + " MinNodes=2", "has 2 nodes at least"),
        (partition("all", "(null)"), "it has no nodes"),
        (partition("all", "n[1-4]", OverSubscribe="FORCE:4"), "run on the cores"),
    ],
)
def test_a_place_where_no_node_can_be_held(line: str, why: str) -> None:
    site = PublicSite(config(), [line], SlurmSettings(partition="all"))
    with pytest.raises(UserError, match=f"no node can be held in partition all.*{why}"):
        choose(view(site))


def test_a_qos_of_less_use_is_second() -> None:
    lines = [partition("gpu", "n[1-4]", mode="CANCEL")]
    kinds = [qos("normal", "cheap,dear"), qos("cheap", factor=0.0), qos("dear", wall="7-00:00:00")]
    site = PublicSite(config("qos", "CANCEL"), lines, SlurmSettings(qos="x"), qos=kinds)
    assert choose(view(site)).place.qos == "cheap"
    assert choose(view(site), qos="dear").place.qos == "dear"
