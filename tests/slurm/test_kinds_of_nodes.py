"""Nodes with GPUs, MIG slices and shards; reservations of every kind; partitions with
Exclusive=NODE, USER and TOPO.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import started
from support.clusters_under_test import RealSlurm
from support.impact import Impact
from support.live_machine import machine
from support.pilot_config import pilot_config
from support.promises import promise
from support.slurm_gpus import A100, MIG, SHARD, Gpus
from support.slurm_lab import Lab, Settings, wait_until
from support.slurm_versions import SlurmVersion

from bftrainer.cluster.model import Availability, Fragment, FragmentPhase, NodeRequest
from bftrainer.cluster.selection import asleep_nodes, offered_windows
from bftrainer.cluster.windows import PilotJobs
from bftrainer.config.pilot import NodesConfig
from bftrainer_clusters.slurm.hold import SlurmHolder
from bftrainer_clusters.slurm.setup import parse_partitions, partitions_argv

pytestmark = pytest.mark.slow


def held(holder: SlurmHolder, *requests: NodeRequest) -> list[Fragment]:
    """These nodes, with running payloads."""
    holder.poll()
    found = holder.acquire(requests)
    assert found.refusals == ()
    wait_until(
        lambda: {f.phase for f in holder.poll()} == {FragmentPhase.READY}, "the holders to be ready"
    )
    return list(holder.poll())


ALL_FOUR: tuple[dict[str, object], ...] = (
    {},
    {"gres": "gpu:a100:4"},
    *(
        {"options": (f"--{option}",)}
        for option in ("gpus-per-node=4", "gpus=4", "gpus-per-task=4", "gres=gpu:4")
    ),
)


@pytest.mark.root  # makes device files
@pytest.mark.parametrize(
    ("gpus", "ways", "seen"),
    [
        (A100, ALL_FOUR, "0,1,2,3"),
        (MIG, ({},), "0,1,2"),
        (MIG, ({"gres": MIG.gres},), "0,1,2"),
        (SHARD, ({},), "0,1"),
    ],
    ids=["a100", "mig", "mig by type", "shard"],
)
def test_a_holder_has_all_gpus_of_its_node_and_its_workers_see_them(
    gpus: Gpus,
    ways: tuple[dict[str, object], ...],
    seen: str,
    slurm_version: SlurmVersion,
    tmp_path: Path,
) -> None:
    if gpus is MIG and ways == ({},) and slurm_version.release < (24, 11):
        pytest.skip(
            "22.05.8's srun refuses a step that asks for as many GPUs of any type as the job "
            "has of two"
        )
    for lab in started(Settings(nodes=1, gpus=gpus), slurm_version):
        for number, settings in enumerate(ways):
            cluster = RealSlurm(lab, tmp_path)
            (node,) = cluster.scheduler.observe().nodes
            holder = cluster.holder(f"p{number}", **settings)
            (fragment,) = held(holder, NodeRequest(node.name, gpus=node.gpu_count))
            gres = [f"--gres={settings['gres']}"] if "gres" in settings else []
            argv = [
                "srun",
                f"--jobid={fragment.id}",
                "--overlap",
                "-w",
                node.name,
                "-N1",
                "-n1",
                "--mem=0",
                *gres,
            ]
            shown = subprocess.run(
                [
                    *argv,
                    "--cpu-bind=none",
                    "--export=ALL",
                    "bash",
                    "-c",
                    "echo $CUDA_VISIBLE_DEVICES",
                ],
                env=lab.environ(),
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            )
            assert shown.stdout.strip() == seen, settings
            holder.release(frozenset({fragment.name}))
            wait_until(lambda holder=holder: not holder.poll(), "the holder to end")
            lab.wait_idle()


def reserve(lab: Lab, name: str, start: str, node: str, flags: str) -> None:
    lab.run(
        "scontrol",
        "create",
        "reservation",
        f"ReservationName={name}",
        f"StartTime={start}",
        "Duration=60",
        "Users=root",
        f"Nodes={node}",
        f"Flags={flags}",
    )


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
            promise(
                (start.left, start.late) == (0, ()),
                f"nobody of ours is left on the nodes of a main job: {start}",
            )


BLOCKS = "BlockName=b1 Nodes=node[01-02]\nBlockSizes=2\n"


@pytest.mark.parametrize(
    ("words", "first", "last"),
    [("ExclusiveTopo=YES", (24, 11), (25, 11)), ("Exclusive=TOPO", (26, 5), (99, 1))],
)
def test_a_partition_whose_jobs_get_whole_blocks_is_known_as_such(
    words: str, first: tuple[int, int], last: tuple[int, int], slurm_version: SlurmVersion
) -> None:
    """Slurm does not preempt on the other nodes of a block, whoever runs there: doctor refuses such
    a site.
    """
    if not first <= slurm_version.release <= last:
        pytest.skip(f"{slurm_version.number} has no {words}")
    more = "TopologyPlugin=topology/block"
    for lab in started(
        Settings(nodes=2, exclusive=words, more=more, topology=BLOCKS), slurm_version
    ):
        found = parse_partitions(lab.run(*partitions_argv()))
        assert {name: partition.whole_blocks for name, partition in found.items()} == {
            "main": True,
            "scavenge": False,
        }


# --- Slurm's power saving: idle nodes that are left are powered down; a holder powers one up where
# that is configured

POWER = "SuspendProgram=/bin/true\nResumeProgram=/bin/true\nSuspendTime=10\nSuspendTimeout=4\nResumeTimeout=60\n"
LEFT = 2
PILOT = pilot_config(nodes={"leave_for_power_saving": LEFT})
CLOUD = POWER.replace("SuspendTime=10", "SuspendTime=600")


@pytest.fixture
def saving(slurm_version: SlurmVersion, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    for lab in started(Settings(nodes=4, more=POWER), slurm_version):
        lab.enter(monkeypatch.setenv)
        yield lab


def states(lab: Lab) -> list[str]:
    return lab.run("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split()


def powered_down(lab: Lab) -> int:
    return sum("powered_down" in state or state.endswith("~") for state in states(lab))


@pytest.mark.slow
def test_nodes_that_are_left_are_powered_down_and_a_holder_powers_one_up(
    saving: Lab, tmp_path: Path
) -> None:
    with machine(tmp_path, [], PILOT) as it:
        it.submit("a", 100_000, 0.1, 4)
        pilot = it.pilot()
        wait_until(lambda: states(saving).count("allocated") == 4 - LEFT, "two holders")
        wait_until(lambda: powered_down(saving) == LEFT, "power saving", 60)
        assert states(saving).count("allocated") == 4 - LEFT, "the others are held"
        it.end(pilot)
    cluster = RealSlurm(saving, tmp_path)
    seen = cluster.scheduler.observe()
    down = sorted(node.name for node in seen.nodes if node.availability is Availability.ASLEEP)
    assert down
    assert set(down) <= asleep_nodes(seen, NodesConfig())
    assert set(down).isdisjoint(offered_windows(seen, PilotJobs(), NodesConfig()))
    assert set(down) <= set(offered_windows(seen, PilotJobs(), NodesConfig(wake=True)))
    holder = cluster.holder()
    holder.poll()
    assert holder.acquire((NodeRequest(down[0]),)).fragments

    def is_powering_up() -> bool:
        return "POWERING_UP" in saving.run("scontrol", "-o", "show", "node", down[0])

    wait_until(is_powering_up, "the node to be powered up")
    saving.stop_daemon(f"slurmd {down[0]}")  # as a ResumeProgram does: the node boots
    saving.start_node(down[0], "-b")
    wait_until(lambda: holder.poll()[0].phase is FragmentPhase.READY, "the holder", 60)


@pytest.mark.slow
def test_a_cloud_node_is_held_only_where_that_is_configured(
    slurm_version: SlurmVersion, tmp_path: Path
) -> None:
    # 22.05.8 shows them while they are powered down only with PrivateData=cloud.
    private_data = "cloud" if slurm_version.release < (24, 11) else ""
    for lab in started(
        Settings(nodes=1, cloud=1, more=CLOUD, private_data=private_data), slurm_version
    ):
        cluster = RealSlurm(lab, tmp_path)

        def who(wake: bool, cloud: bool, cluster: RealSlurm = cluster) -> set[str]:
            return set(
                offered_windows(
                    cluster.scheduler.observe(), PilotJobs(), NodesConfig(wake=wake, cloud=cloud)
                )
            )

        (node,) = lab.cloud_names
        assert [
            who(wake, cloud) for wake, cloud in ((False, False), (True, False), (False, True))
        ] == [{"node01"}] * 3
        assert who(wake=True, cloud=True) == {"node01", node}
        holder = cluster.holder()
        holder.poll()
        assert holder.acquire((NodeRequest(node),)).fragments
        wait_until(
            lambda lab=lab: (
                "POWERING_UP" in lab.run("scontrol", "-o", "show", "node", lab.cloud_names[0])
            ),
            "power",
        )
        lab.start_node(node, "-b")
        wait_until(
            lambda holder=holder: holder.poll()[0].phase is FragmentPhase.READY, "the holder", 60
        )
        holder.release(frozenset({holder.poll()[0].name}))
        wait_until(lambda holder=holder: not holder.poll(), "the holder to end")
        wait_until(
            lambda who=who, node=node: node in who(wake=False, cloud=True), "the node to be idle"
        )
        assert node not in who(wake=True, cloud=False)
