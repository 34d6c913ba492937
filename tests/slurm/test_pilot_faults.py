"""Faults of docs/faults.md that are Slurm's, one after the other, under one pilot with one
trainer.
"""

from __future__ import annotations

import signal
import time
from contextlib import closing

import pytest
from support.live_machine import Machine, assert_contiguous, eventually
from support.slurm_lab import BAD_ANSWERS, Lab

from bftrainer.fragment_names import id_of
from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.persistence.store import open_store

OUTAGE_S = 8.0
STANDSTILL_S = 16.0
"""As long as a silent pilot's lease lasts, too."""


def trains_for(on: Machine, seconds: float) -> None:
    """Time passes, and steps are made until its end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        on.trains_on("a", 5)
        time.sleep(1)


def noted(on: Machine, kind: str) -> int:
    with closing(open_store(on.state)) as store:
        return sum(note.kind == kind for note in Registry(store).notes(1000))


@pytest.mark.slow
def test_one_fault_after_the_other(beside: Machine, lab: Lab) -> None:
    config = beside.state / "bftrainer.toml"
    lease = config.read_text().replace("[times]\n", f"[times]\nlease_s = {STANDSTILL_S}\n")
    config.write_text(f"{lease}timeout_s = 2\nback_off_s = 1\n")
    beside.submit("a", 20_000, 0.05, 3)
    pilot = beside.pilot()
    eventually(beside.state_is_there)
    eventually(lambda: len(beside.of_trainer("a")) == 3, 60)
    beside.trains_on("a", 5)

    before = beside.of_trainer("a")
    with lab.silent():
        trains_for(beside, OUTAGE_S)
        assert noted(beside, "poll failed") > 0
    eventually(lambda: noted(beside, "poll") > 0, 60)
    assert beside.of_trainer("a") == before, "unknown is neither idle nor busy"

    answers = noted(beside, "poll")
    for script in BAD_ANSWERS.values():
        fails = noted(beside, "poll failed")
        lab.put_fake("squeue", f"#!/bin/sh\n{script}\n")
        eventually(lambda: noted(beside, "poll failed") > fails, 30)  # noqa: B023
        beside.trains_on("a", 5)
    (lab.root / "bin" / "squeue").unlink()
    eventually(lambda: noted(beside, "poll") > answers, 40)
    assert beside.of_trainer("a") == before

    # The pilot stands still, and a main job takes one of the nodes: payload and driver do without
    # the pilot.
    taken = min(before)
    pilot.send_signal(signal.SIGSTOP)
    stopped_s = time.monotonic()
    main = lab.submit("sleep 600", "-p", "main", "-N1", "-w", before[taken])
    eventually(lambda: "RUNNING" in lab.run("squeue", "-h", "-j", main, "-o", "%T"), 10)
    trains_for(beside, stopped_s + STANDSTILL_S - time.monotonic())
    pilot.send_signal(signal.SIGCONT)
    eventually(lambda: taken not in beside.of_trainer("a") and len(beside.of_trainer("a")) == 3, 60)
    assert before.keys() - {taken} < beside.of_trainer("a").keys(), "nobody else has left for that"
    beside.trains_on("a")
    lab.run("scancel", main)

    before = beside.of_trainer("a")
    lost = min(before)
    lab.run("scancel", id_of(lost))
    eventually(lambda: lost not in beside.of_trainer("a"), 30)
    eventually(lambda: len(beside.of_trainer("a")) == 3, 60)
    beside.trains_on("a")

    now = beside.of_trainer("a")
    node = now[min(now)]
    lab.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    eventually(lambda: node not in beside.of_trainer("a").values(), 30)
    eventually(lambda: len(beside.of_trainer("a")) == 3, 60)
    beside.trains_on("a")
    time.sleep(2)
    assert node not in beside.of_trainer("a").values(), "a node that is down is not taken"

    beside.end(pilot)
    assert_contiguous(beside.steps("a"))
    beside.assert_in_order()
    eventually(lambda: lab.run("squeue", "-h", "-p", "scavenge").strip() == "", 20)
