"""Slurm's power saving: idle nodes that are left are powered down; a holder powers one up where that is configured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters_under_test import RealSlurm
from conftest import started
from live_machine import machine
from pilot_config import pilot_config
from slurm_lab import Lab, Settings, wait_until
from slurm_versions import SlurmVersion

from bftrainer.config.pilot import NodesConfig
from bftrainer.core.windows import PilotJobs
from bftrainer.domain.cluster import Availability, FragmentPhase, NodeRequest
from bftrainer.live.nodes.selection import asleep, offered

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
def test_nodes_that_are_left_are_powered_down_and_a_holder_powers_one_up(saving: Lab, tmp_path: Path) -> None:
    it = machine(tmp_path, [], PILOT)
    try:
        it.submit("a", 100_000, 0.1, 4)
        pilot = it.pilot()
        wait_until(lambda: states(saving).count("allocated") == 4 - LEFT, "two holders")
        wait_until(lambda: powered_down(saving) == LEFT, "power saving", 60)
        assert states(saving).count("allocated") == 4 - LEFT, "the others are held"
        it.end(pilot)
    finally:
        it.close()
    cluster = RealSlurm(saving, tmp_path)
    seen = cluster.scheduler.observe()
    down = sorted(node.name for node in seen.nodes if node.availability is Availability.ASLEEP)
    assert down
    assert set(down) <= asleep(seen, NodesConfig())
    assert set(down).isdisjoint(offered(seen, PilotJobs(), NodesConfig()))
    assert set(down) <= set(offered(seen, PilotJobs(), NodesConfig(wake=True)))
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
def test_a_cloud_node_is_held_only_where_that_is_configured(slurm_version: SlurmVersion, tmp_path: Path) -> None:
    # 22.05.8 shows them while they are powered down only with PrivateData=cloud.
    private_data = "cloud" if slurm_version.release < (24, 11) else ""
    for lab in started(Settings(nodes=1, cloud=1, more=CLOUD, private_data=private_data), slurm_version):
        cluster = RealSlurm(lab, tmp_path)

        def who(wake: bool, cloud: bool, cluster: RealSlurm = cluster) -> set[str]:
            return set(offered(cluster.scheduler.observe(), PilotJobs(), NodesConfig(wake=wake, cloud=cloud)))

        (node,) = lab.cloud_names
        assert [who(wake, cloud) for wake, cloud in ((False, False), (True, False), (False, True))] == [{"node01"}] * 3
        assert who(wake=True, cloud=True) == {"node01", node}
        holder = cluster.holder()
        holder.poll()
        assert holder.acquire((NodeRequest(node),)).fragments
        wait_until(
            lambda lab=lab: "POWERING_UP" in lab.run("scontrol", "-o", "show", "node", lab.cloud_names[0]), "power"
        )
        lab.start_node(node, "-b")
        wait_until(lambda holder=holder: holder.poll()[0].phase is FragmentPhase.READY, "the holder", 60)
        holder.release(frozenset({holder.poll()[0].name}))
        wait_until(lambda holder=holder: not holder.poll(), "the holder to end")
        wait_until(lambda who=who, node=node: node in who(wake=False, cloud=True), "the node to be idle")
        assert node not in who(wake=True, cloud=False)
