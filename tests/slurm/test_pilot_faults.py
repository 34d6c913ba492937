"""Faults of docs/faults.md that are Slurm's, one after the other, under one pilot with one trainer."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from live_machine import Machine, assert_contiguous, eventually, machine
from slurm_lab import BAD_ANSWERS, Lab

from bftrainer.registry import Registry
from bftrainer.store import open_store

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
timeout_s = 2
back_off_s = 1
"""


@pytest.fixture
def on(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    it = machine(tmp_path, [], CONFIG)
    yield it
    it.close()
    lab.tidy_up()


def held(on: Machine) -> dict[str, str]:
    """Fragments that the trainer has, and their nodes."""
    return {str(r["fragment"]): str(r["node"]) for r in on.rows("nodes") if r["trainer"] == "a"}


def trains_on(on: Machine, steps: int = 20) -> None:
    count = len(on.steps("a"))
    eventually(lambda: len(on.steps("a")) >= count + steps, 40)


def noted(on: Machine, kind: str) -> int:
    with closing(open_store(on.state)) as store:
        return sum(note.kind == kind for note in Registry(store).notes(1000))


@pytest.mark.slow
def test_one_fault_after_the_other(on: Machine, lab: Lab) -> None:
    on.submit("a", 20_000, 0.05, 3)
    pilot = on.pilot()
    eventually(on.state_is_there)
    eventually(lambda: len(held(on)) == 3, 60)
    trains_on(on, 5)

    before = held(on)
    lab.stop_daemon("slurmctld")
    eventually(lambda: noted(on, "poll failed") > 0, 30)
    trains_on(on, 40)
    lab.start_controller()
    eventually(lambda: noted(on, "poll") > 0, 60)
    assert held(on) == before, "unknown is neither idle nor busy"

    answers = noted(on, "poll")
    for script in BAD_ANSWERS.values():
        fails = noted(on, "poll failed")
        lab.put_fake("squeue", f"#!/bin/sh\n{script}\n")
        eventually(lambda: noted(on, "poll failed") > fails, 30)  # noqa: B023
        trains_on(on, 5)
    (lab.root / "bin" / "squeue").unlink()
    eventually(lambda: noted(on, "poll") > answers, 40)
    assert held(on) == before

    lost = min(before)
    lab.run("scancel", lost.rpartition("#")[2])
    eventually(lambda: lost not in held(on), 30)
    eventually(lambda: len(held(on)) == 3, 60)
    trains_on(on)

    now = held(on)
    node = now[min(now)]
    lab.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    eventually(lambda: node not in held(on).values(), 30)
    eventually(lambda: len(held(on)) == 3, 60)
    trains_on(on)
    time.sleep(2)
    assert node not in held(on).values(), "a node that is down is not taken"

    pilot.send_signal(signal.SIGTERM)
    assert pilot.wait(120) == 0, (on.work / "pilot.log").read_text()
    assert_contiguous(on.steps("a"))
    assert "0 differ" in on.bftrainer_replay()
    assert all(row["released_s"] is not None for row in on.rows("nodes", "--all"))
    eventually(lambda: not on.processes(), 20)
    eventually(lambda: lab.run("squeue", "-h", "-p", "scavenge").strip() == "", 20)
