"""A pilot on the stand-in PBS that makes way for main jobs itself: a burst gets its nodes by one
qdel.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_machine import Machine, machine
from support.pbs_lab import PbsLab, wait_until

CONFIG = f"""
[decisions]
solver = "exact"
gather_s = 0
[learning]
measure = false
[nodes]
holder = "pbs"
give_way = "yield"
min_window_s = 0
confirm_s = 0
settled_s = 0
flap_back_off_s = 0.5
[times]
poll_s = 5
file_poll_s = 0.05
shutdown_s = 35
lease_s = 120
[workers]
allow_root = true
[pbs]
queue = "preempt"
timeout_s = 30
start_within_s = 60
python = "{sys.executable}"
"""


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[PbsLab, Machine]]:
    """A site whose main jobs do not preempt, and a state directory."""
    lab = PbsLab(tmp_path / "pbs", nodes=4)
    lab.edit(lambda state: state["queues"]["main"].update(Priority=100))
    lab.enter(monkeypatch.setenv)
    made = machine(tmp_path, [], CONFIG)
    yield lab, made
    lab.stop()
    made.close()


def held(lab: PbsLab) -> list[str]:
    jobs = lab.state()["jobs"].values()
    return sorted(j["id"] for j in jobs if j["queue"] == "preempt" and j["state"] == "R")


@pytest.mark.slow
def test_four_waiting_jobs_get_four_nodes_by_one_qdel(on: tuple[PbsLab, Machine]) -> None:
    lab, machine_ = on
    pilot = machine_.pilot()
    machine_.submit("a", 1_000_000, 0.05, 4)
    # Payloads that are not ready yet would be canceled by a command of their own.
    wait_until(
        lambda: len(held(lab)) == 4 and len(machine_.of_trainer("a")) == 4, "four nodes in use", 60
    )
    holders, before, began_s = held(lab), len(lab.calls("qdel")), time.time()
    # Four jobs at the same moment: their queue is started when all have been submitted.
    lab.edit(lambda state: state["queues"]["main"].update(started=False))
    main_jobs = [lab.main_job(seconds=2) for _ in range(4)]
    lab.edit(lambda state: state["queues"]["main"].update(started=True))
    wait_until(lambda: all(map(lab.started_s, main_jobs)), "the main jobs to start", 60)
    delays = sorted((lab.started_s(job) or 0.0) - began_s for job in main_jobs)
    print(f"delays of main jobs: {', '.join(f'{delay_s:.1f} s' for delay_s in delays)}")
    commands = [sorted(words[1:]) for words in lab.calls("qdel")[before:]]
    assert sorted(max(commands, key=len)) == holders
    wait_until(lambda: len(held(lab)) == 4, "all nodes to be held again", 60)
    machine_.end(pilot)
