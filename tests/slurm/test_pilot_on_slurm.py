"""The pilot on a real Slurm: a trainer grows onto idle nodes, makes way for main jobs at once, grows again, is done."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_machine import Machine, assert_contiguous, eventually, machine
from slurm_lab import Lab

CONFIG = """
[decisions]
solver = "exact"
[nodes]
holder = "slurm"
flap_back_off_s = 1
[times]
poll_s = 1
shutdown_s = 90
[workers]
allow_root = true
[slurm]
partition = "scavenge"
"""


@pytest.fixture
def on(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    it = machine(tmp_path, [], CONFIG)
    yield it
    it.close()
    lab.tidy_up()


@pytest.mark.slow
def test_a_trainer_on_nodes_that_nobody_wants(on: Machine, lab: Lab) -> None:
    on.submit("a", 100_000, 0.05, 4)
    pilot = on.pilot()
    eventually(on.state_is_there)
    eventually(lambda: len([r for r in on.rows("nodes") if r["trainer"] == "a"]) == 4, 40)
    eventually(lambda: len(on.steps("a")) > 20, 30)
    main = lab.submit("sleep 600", "-p", "main", "-N8", "-t", "10")
    eventually(lambda: "RUNNING" in lab.run("squeue", "-h", "-j", main, "-o", "%T"), 10)
    eventually(lambda: on.status("a") == "waiting", 20)
    lab.run("scancel", main)
    eventually(lambda: len([r for r in on.rows("nodes") if r["trainer"] == "a"]) == 4, 60)
    count = len(on.steps("a"))
    eventually(lambda: len(on.steps("a")) > count + 20, 30)
    os.kill(pilot.pid, signal.SIGKILL)
    pilot.wait()
    again = on.pilot()
    # Drivers train on without a pilot: that they do does not say that this one is there.
    eventually(lambda: f"begins with pid {again.pid}" in str(on.rows("events")), 30)
    count = len(on.steps("a"))
    eventually(lambda: len(on.steps("a")) > count + 20, 30)
    again.send_signal(signal.SIGTERM)
    assert again.wait(120) == 0
    assert_contiguous(on.steps("a"))
    assert "0 differ" in on.bftrainer_replay()
    assert all(row["released_s"] is not None for row in on.rows("nodes", "--all"))
    eventually(lambda: not on.processes(), 20)
    eventually(lambda: lab.run("squeue", "-h", "-p", "scavenge").strip() == "", 20)
