"""Slurm's power saving: idle nodes that a pilot leaves are powered down, and are offered only where that is configured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters_under_test import RealSlurm
from conftest import started
from live_machine import machine
from slurm_lab import Lab, Settings, wait_until
from slurm_versions import SlurmVersion

from bftrainer.config.pilot import NodesConfig
from bftrainer.core.windows import PilotJobs
from bftrainer.domain.cluster import Availability
from bftrainer.live.nodes.selection import asleep, offered

POWER = "SuspendProgram=/bin/true\nResumeProgram=/bin/true\nSuspendTime=10\nSuspendTimeout=4\nResumeTimeout=60\n"
LEFT = 2
PILOT = f"""
[decisions]
solver = "exact"
[nodes]
holder = "slurm"
leave_for_power_saving = {LEFT}
[times]
poll_s = 1
shutdown_s = 90
[workers]
allow_root = true
[slurm]
partition = "scavenge"
"""


@pytest.fixture
def saving(slurm_version: SlurmVersion, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    for lab in started(Settings(nodes=4, more=POWER), slurm_version):
        for name, value in lab.env.items():
            monkeypatch.setenv(name, value)
        yield lab


def states(lab: Lab) -> list[str]:
    return lab.run("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split()


def powered_down(lab: Lab) -> int:
    return sum("powered_down" in state or state.endswith("~") for state in states(lab))


@pytest.mark.slow
def test_nodes_that_are_left_are_powered_down(saving: Lab, tmp_path: Path) -> None:
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
