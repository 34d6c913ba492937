"""Holders of several nodes under a pilot on a real Slurm."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import started
from support.live_machine import Machine, assert_contiguous, eventually, machine
from support.never_preempts import MainJobs, held, never, pilot_text
from support.slurm_lab import Lab
from support.slurm_versions import SlurmVersion

NODES = 4
SOON_S = 30.0
"""A main job that nobody makes way for waits for half an hour."""


def holders(lab: Lab) -> dict[str, list[str]]:
    """The nodes of each holder that runs."""
    lines = lab.run("squeue", "-h", "-t", "R", "-n", "bftrainer-holder", "-o", "%i %N").splitlines()
    return {
        job: lab.run("scontrol", "show", "hostnames", nodes).split()
        for job, nodes in map(str.split, lines)
    }


@pytest.mark.slow
@pytest.mark.every_slurm
def test_holders_of_several_nodes_under_a_pilot(beside_sharing: Machine, lab: Lab) -> None:
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
    # A node that is drained leaves with its job, serves main jobs as soon as it is resumed, and the
    # other nodes come back.
    several = max(holders(lab).values(), key=len)
    assert len(several) > 1
    drained = several[-1]
    lab.run("scontrol", "update", f"NodeName={drained}", "State=DRAIN", "Reason=test")
    eventually(lambda: not any(drained in of_job for of_job in holders(lab).values()), 30)
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
    eventually(lambda: "RUNNING" in lab.run("squeue", "-h", "-j", everything, "-o", "%T"), 15)
    assert_contiguous(beside.steps("a"))
    beside.assert_in_order()


@pytest.fixture
def capped(
    slurm_version: SlurmVersion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Machine, Lab]]:
    """A pilot whose holders have all nodes at once, where Slurm preempts nothing."""
    for lab in started(never(NODES), slurm_version):
        lab.enter(monkeypatch.setenv)
        of_pilot = machine(tmp_path, [], pilot_text(NODES))
        yield of_pilot, lab
        of_pilot.close()
        lab.tidy_up()


@pytest.mark.slow
@pytest.mark.every_slurm
def test_a_main_job_gets_one_node_of_a_holder_and_a_second_job_holds_the_rest(
    capped: tuple[Machine, Lab], tmp_path: Path
) -> None:
    on, lab = capped
    pilot = on.pilot()
    on.submit("a", 1_000_000, 0.05, NODES)
    jobs = MainJobs(lab, tmp_path)
    for by in ("sbatch", "srun", "salloc"):
        eventually(lambda: held(lab) == NODES == len(on.of_trainer("a")), 90)
        # Held one by one after main jobs have run there; a pilot holds them together at first.
        if by == "sbatch":
            assert [len(nodes) for nodes in holders(lab).values()] == [NODES]
        main = jobs.run(by, 1, seconds=SOON_S)
        print(f"{by}: {main:.2f} s")
    on.trains_on("a", seconds=60)
    rows = on.rows("nodes", "--all")
    first = [row for row in rows if str(row["fragment"]).split("#")[1].partition(".")[2]]
    assert len(first) >= NODES
    on.end(pilot)
    assert_contiguous(on.steps("a"))
