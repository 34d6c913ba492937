"""GPUs of shared nodes, as ``scontrol -d`` shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.recorded_slurm import recorded

from bftrainer.cluster.model import Availability, Idle, NodeRequest, NodeView
from bftrainer.errors import SchedulerError
from bftrainer_clusters.holding.holder_fragment import HolderFragment
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.jobs import submit_argv
from bftrainer_clusters.slurm.states import idle_gpus
from bftrainer_clusters.slurm.text import parse_nodes

A100 = "gpu:a100:8"


def nodes(name: str, version: str, *changes: tuple[str, str]) -> dict[str, NodeView]:
    text = recorded(f"{name}.nodes.txt", version)
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return {node.name: node for node in parse_nodes(text)}


@pytest.mark.parametrize("version", ["22.05.8", "26.05.5"])
def test_recorded_parts(version: str) -> None:
    """Main jobs of 1 GPU, of none and of 3, and a holder of 3."""
    found = nodes("parts", version)
    assert {name: node.idle for name, node in found.items()} == {
        "node01": Idle(7, 14, 56_000, 64_000),
        "node02": Idle(8, 12, 60_000, 64_000),
        "node03": Idle(5, 10, 52_000, 64_000),
        "node04": Idle(5, 14, 56_000, 64_000),
    }
    assert {node.availability for node in found.values()} == {Availability.SHARED}
    spared = nodes("parts", version, ("AllocMem=8000 ", "AllocMem=8000 MemSpecLimit=6000 "))
    assert spared["node01"].idle == Idle(7, 14, 50_000, 64_000)


@pytest.mark.parametrize(
    ("before", "after", "availability", "is_planned"),
    [
        (
            "State=MIXED",
            "State=MIXED+PLANNED",
            Availability.SHARED,
            True,
        ),  # 26.05's words for a planned node with jobs
        ("State=MIXED", "State=MIXED+DRAIN", Availability.BUSY, False),
        ("State=MIXED", "State=MIXED+COMPLETING", Availability.BUSY, False),
        ("State=MIXED", "State=ALLOCATED", Availability.BUSY, False),
        ("GresUsed=gpu:a100:1(IDX:0)", "GresUsed=gpu:a100:8(IDX:0-7)", Availability.BUSY, False),
        ("GresDrain=N/A", "GresDrain=gpu:a100:8", Availability.BUSY, False),
    ],
)
def test_a_part_is_only_where_a_job_could_start(
    before: str, after: str, availability: Availability, is_planned: bool
) -> None:
    node = nodes("parts", "26.05.5", (before, after))["node01"]
    assert (node.availability, node.is_planned) == (availability, is_planned)


def test_recorded_shards_are_left_alone() -> None:
    """A GPU with shards in use counts as not used."""
    found = nodes("part-shards", "22.05.8")
    assert [(node.idle, node.availability) for node in found.values()] == [
        (None, Availability.BUSY),
        (None, Availability.FREE),
    ]


@pytest.mark.parametrize(
    ("gres", "used", "expected"),
    [
        (A100, "gpu:a100:0(IDX:N/A)", 8),
        (A100, "gpu:a100:5(IDX:0,2-4,7)", 3),
        (A100, "gpu:a100:8(IDX:0-7)", 0),
        (f"{A100}(S:0-1),nvme:1", "gpu:a100:2(IDX:0-1),nvme:1", 6),
        ("gpu:2", "gpu:1(IDX:1)", 1),
        ("gpu:2", "gpu:(null):1(IDX:1)", 1),
        (A100, "gpu:a100:3", None),  # no File= in gres.conf
        (A100, "gpu:a100:3(IDX:N/A)", None),
        (f"{A100},shard:a100:32", "gpu:a100:0(IDX:N/A),shard:a100:2(IDX:0-1)", None),
        (f"{A100},shard:a100:32", "gpu:a100:0(IDX:N/A),shard:a100:5(1/4,4/4,0/4,0/4)", None),
        (f"{A100},mps:800", "gpu:a100:0(IDX:N/A),mps:0", None),
        ("gpu:a100_1g.5gb:2", "gpu:a100_1g.5gb:1(IDX:0)", None),
        ("gpu:a100:4,gpu:v100:4", "gpu:a100:0(IDX:N/A),gpu:v100:0(IDX:N/A)", None),
        ("nvme:1", "nvme:0", None),
    ],
)
def test_which_gpus_are_idle(gres: str, used: str, expected: int | None) -> None:
    assert idle_gpus(gres, used, "N/A") == expected


@pytest.mark.parametrize(
    "used", ["", "gpu:a100:9(IDX:0-8)", "gpu:a100:2(IDX:0)", "gpu:a100:many", "nvme:1"]
)
def test_words_that_are_not_understood_are_no_idle_gpu(used: str) -> None:
    with pytest.raises(SchedulerError, match="GresUsed"):
        idle_gpus(A100, used, "N/A")


def test_a_holder_of_a_part_bounds_its_cores_and_memory() -> None:
    settings = SlurmSettings(partition="scavenge", parts_partition="parts")

    def argv(request: NodeRequest) -> str:
        return " ".join(submit_argv(settings, request, "c", ["script"], Path("log")))

    part, whole = (
        argv(NodeRequest("n1", gpus=3, cpus=6, mib=24_000)),
        argv(NodeRequest("n1", gpus=8)),
    )
    assert "-p parts --gres=gpu:3 -N1 -n1 -w n1 -c 6 --mem=24000 -t" in part
    assert "--exclusive" not in part
    assert "-p scavenge --gres=gpu:8 -N1 -n1 -w n1 --exclusive --mem=0 -t" in whole


@pytest.mark.parametrize(
    ("mark", "gpus", "is_part"),
    [
        ("1700000000.123456", (), False),
        ("1700000000.123456 gpus=0,1,2,3", (0, 1, 2, 3), False),
        ("1700000000.123456 gpus=1,2,5 cores=6", (1, 2, 5), True),
        ("1700000000.123456 gpus=GPU-uuid", (), False),
    ],
)
def test_a_payload_names_its_gpus(mark: str, gpus: tuple[int, ...], is_part: bool) -> None:
    fragment = HolderFragment.adopted("n1#7", 0.0).with_gpus(mark).fragment
    assert (fragment.gpus, fragment.is_part) == (gpus, is_part)
