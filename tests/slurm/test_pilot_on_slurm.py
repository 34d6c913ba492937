"""The pilot on a real Slurm: a trainer grows onto idle nodes, makes way for main jobs at once, grows again, is done."""

from __future__ import annotations

import os
import signal

import pytest
from live_machine import Machine, assert_contiguous, eventually
from slurm_lab import Lab


@pytest.mark.slow
@pytest.mark.every_slurm
def test_a_trainer_on_nodes_that_nobody_wants(beside: Machine, lab: Lab) -> None:
    beside.submit("a", 100_000, 0.05, 4)
    pilot = beside.pilot()
    eventually(beside.state_is_there)
    eventually(lambda: len([r for r in beside.rows("nodes") if r["trainer"] == "a"]) == 4, 40)
    eventually(lambda: len(beside.steps("a")) > 20, 30)
    main = lab.submit("sleep 600", "-p", "main", "-N8", "-t", "10")
    eventually(lambda: "RUNNING" in lab.run("squeue", "-h", "-j", main, "-o", "%T"), 10)
    eventually(lambda: beside.status("a") == "waiting", 20)
    lab.run("scancel", main)
    eventually(lambda: len([r for r in beside.rows("nodes") if r["trainer"] == "a"]) == 4, 60)
    count = len(beside.steps("a"))
    eventually(lambda: len(beside.steps("a")) > count + 20, 30)
    os.kill(pilot.pid, signal.SIGKILL)
    pilot.wait()
    again = beside.pilot()
    # Drivers train on without a pilot: that they do does not say that this one is there.
    eventually(lambda: f"started with pid {again.pid}" in str(beside.rows("events")), 30)
    count = len(beside.steps("a"))
    eventually(lambda: len(beside.steps("a")) > count + 20, 30)
    again.send_signal(signal.SIGTERM)
    assert again.wait(120) == 0
    assert_contiguous(beside.steps("a"))
    assert "0 differ" in beside.bftrainer_replay()
    assert all(row["released_s"] is not None for row in beside.rows("nodes", "--all"))
    eventually(lambda: not beside.processes(), 20)
    eventually(lambda: lab.run("squeue", "-h", "-p", "scavenge").strip() == "", 20)
