"""Holders of several nodes under a pilot on a real Slurm."""

from __future__ import annotations

import os
import signal

import pytest
from support.live_machine import Machine, assert_contiguous, eventually
from support.slurm_lab import Lab

from bftrainer_clusters.slurm.several_nodes import SHRINKS_SINCE


def holders(lab: Lab) -> dict[str, list[str]]:
    """The nodes of each holder that runs."""
    lines = lab.run("squeue", "-h", "-t", "R", "-n", "bftrainer-holder", "-o", "%i %N").splitlines()
    return {
        job: lab.run("scontrol", "show", "hostnames", nodes).split()
        for job, nodes in map(str.split, lines)
    }


@pytest.mark.slow
@pytest.mark.every_slurm("sid")
def test_holders_of_several_nodes_under_a_pilot(beside_sharing: Machine, lab: Lab) -> None:
    if lab.version.release < SHRINKS_SINCE:
        pytest.skip("a job of this Slurm cannot give back nodes")
    beside, nodes = beside_sharing, lab.settings.nodes

    def trains_on_so_many(count: int) -> None:
        eventually(
            lambda: sum(map(len, holders(lab).values())) == len(beside.of_trainer("a")) == count, 60
        )

    beside.submit("a", 100_000, 0.05, nodes)
    pilot = beside.pilot()
    eventually(beside.state_is_there)
    trains_on_so_many(nodes)
    assert max(map(len, holders(lab).values())) == 4
    beside.trains_on("a", seconds=60)
    # A main job takes one node in training: its job's other nodes come back.
    taken = next(node for of_job in holders(lab).values() if len(of_job) == 4 for node in of_job)
    main = lab.submit("sleep 600", "-p", "main", "-N1", "-w", taken, "-t", "10")
    eventually(lambda: "RUNNING" in lab.run("squeue", "-h", "-j", main, "-o", "%T"), 10)
    trains_on_so_many(nodes - 1)
    beside.trains_on("a", seconds=60)
    # A node that is drained is given back alone, and serves main jobs as soon as it is resumed.
    several = max(holders(lab).values(), key=len)
    assert len(several) > 1
    drained, jobs = several[-1], set(holders(lab))
    lab.run("scontrol", "update", f"NodeName={drained}", "State=DRAIN", "Reason=test")
    eventually(lambda: not any(drained in of_job for of_job in holders(lab).values()), 30)
    assert set(holders(lab)) == jobs
    trains_on_so_many(nodes - 2)
    lab.run("scontrol", "update", f"NodeName={drained}", "State=RESUME")
    there = lab.submit("sleep 600", "-p", "main", "-N1", "-w", drained, "-t", "10")
    eventually(lambda: "RUNNING" in lab.run("squeue", "-h", "-j", there, "-o", "%T"), 15)
    beside.trains_on("a", seconds=60)
    # A successor keeps the same jobs.
    lab.run("scancel", main, there)
    trains_on_so_many(nodes)
    jobs = set(holders(lab))
    os.kill(pilot.pid, signal.SIGKILL)
    pilot.wait()
    again = beside.pilot()
    eventually(lambda: f"started with pid {again.pid}" in str(beside.rows("events")), 30)
    beside.trains_on("a", seconds=60)
    assert set(holders(lab)) == jobs
    beside.end(again)
    eventually(lambda: lab.run("squeue", "-h", "-p", "scavenge").strip() == "", 20)
    everything = lab.submit("sleep 600", "-p", "main", f"-N{nodes}", "-t", "10")
    eventually(lambda: "RUNNING" in lab.run("squeue", "-h", "-j", everything, "-o", "%T"), 45)
    assert_contiguous(beside.steps("a"))
    beside.assert_in_order()
