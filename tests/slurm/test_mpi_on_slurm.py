"""The MPI program of the recipe on a real Slurm: ``mpiexec`` inside a holder, its daemons inside the
others.
"""

from __future__ import annotations

import json

import pytest
from support.live_machine import Machine, eventually
from support.mpi import LOOPBACK, heat, left_of_mpi, need_mpi, plate, size_now, uninterrupted
from support.slurm_lab import Lab

from bftrainer.wires.paths import TrainerDirectory

STEPS = 3000


@pytest.mark.slow
def test_an_mpi_program_follows_the_idle_nodes(beside: Machine, lab: Lab) -> None:
    need_mpi()

    def main_job(nodes: int) -> str:
        return lab.submit("sleep 600", "-p", "main", f"-N{nodes}", "-t", "10")

    def trains_at(size: int) -> None:
        progress = TrainerDirectory.of(beside.state, "heat").progress
        eventually(lambda: size_now(progress) == size == len(beside.of_trainer("heat")), 60)

    main_job(4)
    job = main_job(2)
    eventually(lambda: lab.run("squeue", "-h", "-o", "%T").split() == ["RUNNING"] * 2)
    words = ", ".join(f"{name} = {json.dumps(value)}" for name, value in LOOPBACK.items())
    (beside.work / "heat.toml").write_text(
        f'name = "heat"\ncommand = {json.dumps(heat(STEPS, pace_s=0.03))}\n'
        'launcher = "restart"\nslots = 1\nmax_nodes = 4\nsamples_per_s = 100\n'
        "scale_up_s = 0.2\nscale_down_s = 0.1\nstop_s = 30\n"
        f"env = {{ {words} }}\n"
    )
    beside.bftrainer("submit", "heat.toml")
    pilot = beside.pilot()
    eventually(beside.state_is_there)
    trains_at(2)
    lab.run("scancel", job)
    trains_at(4)
    main_job(1)
    trains_at(3)
    main_job(2)
    trains_at(1)
    eventually(lambda: beside.status("heat") == "done", 120)
    result = plate(beside.work / "heat-result.npz")
    assert result == uninterrupted(beside.work / "alone", STEPS)
    assert not left_of_mpi(beside.work)
    beside.end(pilot)
    beside.assert_in_order()
