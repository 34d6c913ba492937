"""Doctor on a pilot that holds GPUs of shared nodes: a recorded site that is fit for it, with one
thing wrong at a time.
"""

from __future__ import annotations

import pytest
from support.recorded_slurm import VERSIONS, recorded

from bftrainer.cluster.model import Availability, Device, Idle, NodeView
from bftrainer.decide.domain.checks import Check
from bftrainer_clusters.slurm.checks import judge
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import parse_partitions
from bftrainer_clusters.slurm.shared_nodes import left_alone
from bftrainer_clusters.slurm.site_facts import SiteSetup

CGROUPS = (
    "\nConstrainCores          = yes\nConstrainRAMSpace       = yes\nConstrainDevices    "
    "    = yes\n"
)
FIT = (
    ("TaskPlugin              = task/none", "TaskPlugin              = task/affinity,task/cgroup"),
    ("TaskPlugin              = (null)", "TaskPlugin              = task/affinity,task/cgroup"),
    ("= CR_CORE", "= CR_CORE_MEMORY"),
    ("OverSubscribe=EXCLUSIVE", "OverSubscribe=NO"),
    ("/bin/true", "(null)"),
    (",preempt_youngest_first", ""),
)


PARTS = SlurmSettings(partition="scavenge", parts_partition="parts")


def found(
    version: str, *changes: tuple[str, str], settings: SlurmSettings = PARTS
) -> dict[str, Check]:
    config, partitions = (
        recorded("site-recommended.config.txt", version) + CGROUPS,
        recorded("site-recommended.partitions.txt"),
    )
    for old, new in (*FIT, *changes):
        config, partitions = config.replace(old, new), partitions.replace(old, new)
    line = next(
        line for line in partitions.splitlines() if line.startswith("PartitionName=scavenge")
    )
    partitions += (
        line.replace("=scavenge", "=parts").replace("PriorityTier=1", "PriorityTier=0") + "\n"
    )
    for old, new in changes:
        partitions = partitions.replace(old, new)
    checks = judge(settings, SiteSetup(config, parse_partitions(partitions)), "me", by_gpu=True)
    return {check.name: check for check in checks}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_site_that_is_fit_for_parts(version: str) -> None:
    checks = found(version)
    assert [
        checks[name].state.name for name in ("limits", "parts first", "memory", "shared nodes")
    ] == ["OK"] * 4
    assert "beside jobs" not in checks


def test_a_pilot_by_node_hears_nothing_of_it() -> None:
    config, partitions = (
        recorded("site-recommended.config.txt"),
        recorded("site-recommended.partitions.txt"),
    )
    checks = judge(
        SlurmSettings(partition="scavenge"), SiteSetup(config, parse_partitions(partitions)), "me"
    )
    assert not {"limits", "memory", "shared nodes"} & {check.name for check in checks}


@pytest.mark.parametrize(
    ("name", "state", "words", "old", "new"),
    [
        (
            "limits",
            "BROKEN",
            "TaskPlugin=task/cgroup",
            "task/affinity,task/cgroup",
            "task/affinity",
        ),
        ("limits", "BROKEN", "ConstrainCores=yes", "ConstrainCores          = yes", ""),
        (
            "limits",
            "BROKEN",
            "ConstrainRAMSpace=yes",
            "ConstrainRAMSpace       = yes",
            "ConstrainRAMSpace       = no",
        ),
        (
            "limits",
            "BROKEN",
            "ConstrainDevices=yes",
            "ConstrainDevices        = yes",
            "ConstrainDevices        = no",
        ),
        ("memory", "BROKEN", "CR_Core_Memory", "CR_CORE_MEMORY", "CR_CORE"),
        (
            "shared nodes",
            "WARNING",
            "main (OverSubscribe=EXCLUSIVE)",
            "PriorityTier=10 RootOnly=NO ReqResv=NO OverSubscribe=NO",
            "PriorityTier=10 RootOnly=NO ReqResv=NO OverSubscribe=EXCLUSIVE",
        ),
        (
            "shared nodes",
            "BROKEN",
            "holders of parts",
            "PriorityTier=0 RootOnly=NO ReqResv=NO OverSubscribe=NO",
            "PriorityTier=0 RootOnly=NO ReqResv=NO OverSubscribe=NO Exclusive=NODE",
        ),
        (
            "parts first",
            "BROKEN",
            "youngest",
            "bf_interval=1",
            "preempt_youngest_first,bf_interval=1",
        ),
        ("parts first", "BROKEN", "lower PriorityTier", "PriorityTier=0", "PriorityTier=1"),
        (
            "parts first",
            "BROKEN",
            "partition parts must be",
            "PartitionName=parts",
            "PartitionName=other",
        ),
        ("shared nodes", "WARNING", "ExclusiveUser=YES", "ExclusiveUser=NO", "ExclusiveUser=YES"),
        ("shared nodes", "WARNING", "select/linear", "select/cons_tres", "select/linear"),
        ("shared nodes", "OK", "LLN", "LLN=NO", "LLN=YES"),
        (
            "beside jobs",
            "WARNING",
            "Epilog run",
            "Epilog                  = (null)",
            "Epilog                  = /site/epilog",
        ),
    ],
)
def test_one_thing_at_a_time(name: str, state: str, words: str, old: str, new: str) -> None:
    check = found("22.05.8", (old, new))[name]
    assert check.state.name == state
    assert words in check.detail + check.remedy


def test_without_a_partition_for_parts_only_idle_nodes_are_held() -> None:
    check = found("22.05.8", settings=SlurmSettings(partition="scavenge"))["parts first"]
    assert (check.state.name, check.detail.partition(":")[0]) == (
        "WARNING",
        "only idle nodes are held",
    )


def test_nodes_that_are_left_alone() -> None:
    def node(name: str, idle: Idle | None) -> NodeView:
        return NodeView(name, Availability.FREE, ("main",), (Device("a100", 8),), 16, idle=idle)

    assert not [*left_alone([node("n1", Idle(8, 16, 1)), NodeView("cpu", Availability.FREE)])]
    (check,) = left_alone([node("n2", None), node("n1", None)])
    assert check.detail.startswith("left alone: n1 and 1 more")
