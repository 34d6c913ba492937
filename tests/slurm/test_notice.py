"""``workers.notice_s``: workers on a node that a main job preempts save before they are killed."""

from __future__ import annotations

import pytest
from support.live_machine import Machine, eventually
from support.slurm_lab import Lab

ROUNDS = 3
"""The script saves at every tenth step: without the notice it is in one of 1,000 cases that no step
is made twice.
"""


@pytest.mark.slow
@pytest.mark.every_slurm
def test_no_step_is_made_twice_when_nodes_are_preempted(beside: Machine, lab: Lab) -> None:
    config = beside.state / "bftrainer.toml"
    config.write_text(config.read_text().replace("[workers]\n", "[workers]\nnotice_s = 20\n"))
    beside.submit("a", 20_000, 0.05, 2)
    pilot = beside.pilot()
    eventually(beside.state_is_there)
    for _ in range(ROUNDS):
        before = beside.of_trainer("a")
        beside.trains_on("a", seconds=60)
        taken = {*(beside.of_trainer("a") or before).values()}
        main = lab.submit("sleep 600", "-p", "main", f"-N{len(taken)}", "-w", ",".join(taken))
        eventually(lambda: "RUNNING" in lab.run("squeue", "-h", "-j", main, "-o", "%T"), 20)  # noqa: B023
        lab.run("scancel", main)
    beside.trains_on("a", seconds=60)
    beside.end(pilot)
    steps = beside.steps("a")
    assert [step for _, step in steps] == list(range(1, len(steps) + 1))
    assert len({incarnation for incarnation, _ in steps}) > ROUNDS
