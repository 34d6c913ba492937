"""Nodes with GPUs, MIG slices and shards; reservations of every kind; partitions with Exclusive=NODE, USER and TOPO."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from clusters_under_test import RealSlurm
from conftest import started
from impact import Impact
from promises import promise
from slurm_gpus import A100, MIG, SHARD, Gpus
from slurm_lab import Lab, Settings, wait_until
from slurm_versions import SlurmVersion

from bftrainer.domain.cluster import Fragment, FragmentPhase, NodeRequest
from bftrainer_adapters.slurm.hold import SlurmHolder
from bftrainer_adapters.slurm.setup import parse_partitions, partitions_argv

pytestmark = pytest.mark.slow


def held(holder: SlurmHolder, *requests: NodeRequest) -> list[Fragment]:
    """These nodes, with running payloads."""
    holder.poll()
    found = holder.acquire(requests)
    assert found.refusals == ()
    wait_until(lambda: {f.phase for f in holder.poll()} == {FragmentPhase.READY}, "the holders to be ready")
    return list(holder.poll())


ALL_FOUR: tuple[dict[str, object], ...] = (
    {},
    {"gres": "gpu:a100:4"},
    *({"options": (f"--{option}",)} for option in ("gpus-per-node=4", "gpus=4", "gpus-per-task=4", "gres=gpu:4")),
)


@pytest.mark.root  # makes device files
@pytest.mark.parametrize(
    ("gpus", "ways", "seen"),
    [(A100, ALL_FOUR, "0,1,2,3"), (MIG, ({},), "0,1,2"), (MIG, ({"gres": MIG.gres},), "0,1,2"), (SHARD, ({},), "0,1")],
    ids=["a100", "mig", "mig by type", "shard"],
)
def test_a_holder_has_all_gpus_of_its_node_and_its_workers_see_them(
    gpus: Gpus, ways: tuple[dict[str, object], ...], seen: str, slurm_version: SlurmVersion, tmp_path: Path
) -> None:
    if gpus is MIG and ways == ({},) and slurm_version.release < (24, 11):
        pytest.skip("22.05.8's srun refuses a step that asks for as many GPUs of any type as the job has of two")
    for lab in started(Settings(nodes=1, gpus=gpus), slurm_version):
        for number, settings in enumerate(ways):
            cluster = RealSlurm(lab, tmp_path)
            (node,) = cluster.scheduler.observe().nodes
            holder = cluster.holder(f"p{number}", **settings)
            (fragment,) = held(holder, NodeRequest(node.name, gpus=node.gpu_count))
            gres = [f"--gres={settings['gres']}"] if "gres" in settings else []
            argv = ["srun", f"--jobid={fragment.id}", "--overlap", "-w", node.name, "-N1", "-n1", "--mem=0", *gres]
            shown = subprocess.run(
                [*argv, "--cpu-bind=none", "--export=ALL", "bash", "-c", "echo $CUDA_VISIBLE_DEVICES"],
                env=lab.environ(), capture_output=True, text=True, check=True, timeout=60,
            )  # fmt: skip
            assert shown.stdout.strip() == seen, settings
            holder.release(frozenset({fragment.name}))
            wait_until(lambda holder=holder: not holder.poll(), "the holder to end")
            lab.wait_idle()


def reserve(lab: Lab, name: str, start: str, node: str, flags: str) -> None:
    lab.run(
        "scontrol", "create", "reservation", f"ReservationName={name}", f"StartTime={start}", "Duration=60", "Users=root",
        f"Nodes={node}", f"Flags={flags}",
    )  # fmt: skip


EXCLUSIVE = {
    "ExclusiveUser=YES": ((22, 5), (25, 11)),
    "Exclusive=NODE": ((26, 5), (99, 1)),
    "Exclusive=USER": ((26, 5), (99, 1)),
}


@pytest.mark.parametrize("words", EXCLUSIVE)
def test_partitions_in_which_jobs_share_no_node_or_user(
    words: str, slurm_version: SlurmVersion, tmp_path: Path
) -> None:
    first, last = EXCLUSIVE[words]
    if not first <= slurm_version.release <= last:
        pytest.skip(f"{slurm_version.number} has no {words}")
    for lab in started(Settings(nodes=4, exclusive=words), slurm_version):
        impact = Impact(lab, tmp_path)
        for size in (2, 1):
            start = impact.start_on_held(size, "has setsid children")
            print(f"{words}, {size} nodes: {start.took_s:.2f} s")
            assert len(start.nodes) == size
            promise((start.left, start.late) == (0, ()), f"nobody of ours is left on the nodes of a main job: {start}")


BLOCKS = "BlockName=b1 Nodes=node[01-02]\nBlockSizes=2\n"


@pytest.mark.parametrize(
    ("words", "first", "last"), [("ExclusiveTopo=YES", (24, 11), (25, 11)), ("Exclusive=TOPO", (26, 5), (99, 1))]
)
def test_a_partition_whose_jobs_get_whole_blocks_is_known_as_such(
    words: str, first: tuple[int, int], last: tuple[int, int], slurm_version: SlurmVersion
) -> None:
    """Slurm does not preempt on the other nodes of a block, whoever runs there: doctor refuses such a site."""
    if not first <= slurm_version.release <= last:
        pytest.skip(f"{slurm_version.number} has no {words}")
    more = "TopologyPlugin=topology/block"
    for lab in started(Settings(nodes=2, exclusive=words, more=more, topology=BLOCKS), slurm_version):
        found = parse_partitions(lab.run(*partitions_argv()))
        assert {name: partition.whole_blocks for name, partition in found.items()} == {"main": True, "scavenge": False}
