"""Limits of a site on the pilot's jobs: which words mean one, and what a pilot may hold beside
them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import check_table
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.slurm.jobs import is_limit, waits_its_turn
from bftrainer_clusters.slurm.site import SITE


@pytest.mark.parametrize(
    "reason",
    [
        "QOSMaxJobsPerUserLimit",
        "QOSGrpNodeLimit",
        "QOSGrpGRES",
        "AssocGrpGRES",
        "AssocMaxJobsLimit",
        "MaxNodePerAccount",
        "AssocGrpBillingMinutes",
        "QOSMinNode",
        "QOSMaxWallDurationPerJobLimit",
        "PartitionTimeLimit",
        "PartitionMinNodes",
        "MaxGRESRunMinsPerUser",
        "QOSNotAllowed",
        "PartitionDown",
        "Licenses",
        "InvalidAccount",
        "sbatch: error: AssocMaxSubmitJobLimit; sbatch: error: Batch job submission failed: "
        "Job violates accounting/QOS "
        "policy (job submit limit, user's size and/or time limits)",
        "sbatch: error: Batch job submission failed: Invalid qos specification",
    ],
)
def test_words_about_the_pilots_jobs(reason: str) -> None:
    assert is_limit(reason)
    assert is_limit(f"not running within 5 s ({reason})")


@pytest.mark.parametrize(
    "reason",
    [
        "None",
        "Priority",
        "Resources",
        "ReqNodeNotAvail, UnavailableNodes:node03",
        "MaxMemPerLimit",
        "BeginTime",
        "sbatch: error: Batch job submission failed: Requested node configuration is not available",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
    ],
)
def test_words_about_a_node_or_nobody(reason: str) -> None:
    assert not is_limit(reason)


def test_which_holders_wait_for_their_turn() -> None:
    """The last but one is what 22.05.8 says in a lower partition of the nodes that a main job waits
    for.
    """
    higher = (
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
        "partitions"
    )
    turn = [
        "",
        "None",
        "Priority",
        "Resources",
        higher,
        "ReqNodeNotAvail, May be reserved for other job",
    ]
    assert all(map(waits_its_turn, turn))
    assert not any(
        map(
            waits_its_turn,
            ["QOSMaxJobsPerUserLimit", "PartitionTimeLimit", "ReqNodeNotAvail", "BeginTime"],
        )
    )


def test_with_a_qos_the_partition_may_be_the_main_queues(tmp_path: Path) -> None:
    """Its pending jobs end windows: they are no scavengers."""
    for table, shared in (
        ({"partition": "scavenge"}, False),
        ({"partition": "main", "qos": "scavenger"}, True),
    ):
        config = check_table({"nodes": {"holder": "slurm"}, "slurm": table}, PilotConfig, "test")
        ours = SITE.build(config, tmp_path, SystemClock()).ours
        assert (ours.partitions, ours.shares_partitions) == (
            frozenset({table["partition"]}),
            shared,
        )
