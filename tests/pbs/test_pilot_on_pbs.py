"""A whole pilot as a job of the stand-in PBS, by the shipped job script: bursts of main jobs, the
successor, and a pilot on another host than its predecessor.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.live_machine import Machine, assert_contiguous, eventually, machine
from support.pbs_lab import OVER, PbsLab

from bftrainer.system.processes import send, with_variable
from bftrainer.system.users import own_name

SCRIPT = Path(__file__).parents[2] / "jobscripts" / "pilot.pbs"
POOL = ("node01", "node02", "node03", "node04")
FIRST_HOST, OTHER_HOST = "node05", "node06"
CONFIG = f"""
[decisions]
solver = "exact"
[learning]
measure = false
[nodes]
holder = "pbs"
exclude = ["{FIRST_HOST}", "{OTHER_HOST}"]
min_window_s = 0
flap_back_off_s = 0.5
[times]
poll_s = 1
file_poll_s = 0.05
shutdown_s = 25
hand_over_s = 3000
lease_s = 120
[workers]
allow_root = true
[pbs]
queue = "preempt"
main_queues = ["main"]
timeout_s = 30
start_within_s = 60
python = "{sys.executable}"
"""


@dataclass
class Site:
    """The stand-in with four nodes for the pool and two for pilots, and a state directory."""

    lab: PbsLab
    on: Machine

    def start_pilot(self, host: str, walltime: str = "1:00:00") -> str:
        """By its job script, on one of the pilots' nodes; the job's id."""
        for node in (FIRST_HOST, OTHER_HOST):
            states = [] if node == host else ["offline"]
            self.lab.edit(lambda state, n=node, s=states: state["nodes"][n].update(states=s))
        variables = f"BFTRAINER_STATE={self.on.state},BFTRAINER_VENV={sys.prefix}"
        argv = ("qsub", "-q", "service", "-l", f"walltime={walltime}", "-v", variables)
        return self.lab.run(*argv, str(SCRIPT)).strip().partition(".")[0]

    def holders(self) -> dict[str, str]:
        """Job ids of holders that run, by node."""
        jobs = self.lab.state()["jobs"].values()
        return {
            j["nodes"][0]: j["id"]
            for j in jobs
            if j["queue"] == "preempt" and j["nodes"] and j["state"] == "R"
        }

    def after(self, job: str) -> dict[str, Any]:
        """The job that waits for this one's end; empty if there is none."""
        found = [j for j in self.lab.state()["jobs"].values() if j["after"] == job]
        assert len(found) <= 1
        return found[0] if found else {}

    def is_over(self, job: str) -> bool:
        return self.lab.job(job)["state"] in OVER

    def goes_on(self, steps: int = 20) -> None:
        count = len(self.on.steps("a"))
        eventually(lambda: len(self.on.steps("a")) > count + steps, 60)

    def kill_with_its_node(self, job: str) -> None:
        """The node of a pilot's job goes down: script, pilot, drivers and prefixes of workers."""
        holders = self.holders().values()
        spared = {
            p for id_ in holders for p in with_variable("PBS_JOBID", f"{id_}.{self.lab.server}")
        }
        for _ in range(3):
            for process in self.on.processes():
                if process not in spared:
                    send(process, signal.SIGKILL)
        eventually(lambda: self.is_over(job), 40)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    lab = PbsLab(tmp_path / "pbs", nodes=6)
    lab.edit(lambda state: state["queues"].update(service={"Priority": 100}))
    hosts = {"main": POOL, "preempt": POOL, "service": [FIRST_HOST, OTHER_HOST]}
    lab.change(queue_hosts=hosts)
    on = machine(tmp_path, [], CONFIG)
    home = tmp_path / "home"
    home.mkdir()
    # A login shell runs a job script, and finds PBS's commands by the profile.
    (home / ".bash_profile").write_text(f"export PATH={lab.bin}:$PATH\n")
    here = {**lab.env, "HOME": str(home), "BFTRAINER_RESTART_S": "0.1"}
    on.enter(monkeypatch, here)
    yield Site(lab, on)
    lab.stop()
    on.close()


@pytest.mark.slow
def test_a_pilot_hands_over_before_its_walltime_and_a_burst_gets_its_nodes(site: Site) -> None:
    lab, on = site.lab, site.on
    on.submit("a", 10**6, 0.05, 4)
    first = site.start_pilot(FIRST_HOST, walltime="0:02:00")
    eventually(lambda: lab.job(first)["leader"], 60)
    # Of the holders that start now, PBS would notice the ends a minute later without a second qdel.
    lab.change(obit_s=60.0)
    eventually(lambda: len(site.holders()) == 4 and len(on.of_trainer("a")) == 4, 60)
    lab.change(obit_s=1.0)
    assert lab.job(first)["nodes"] == [FIRST_HOST]
    holders = site.holders()
    assert {lab.job(id_)["owner"] for id_ in holders.values()} == {f"{own_name()}@{FIRST_HOST}"}
    site.goes_on()

    # Three main jobs at once, which PBS serves one after the other, and one for the rest.
    mains = [lab.main_job(seconds=2) for _ in range(3)]
    eventually(lambda: all(map(lab.started_s, mains)), 60)
    assert not [line for line in lab.state()["log"] if line.startswith("orphans")]
    deleted = {id_ for words in lab.calls("qdel") for id_ in words[1:]}
    preempted = {line.split()[1] for line in lab.state()["log"] if line.startswith("preempt")}
    assert len(preempted) == 3
    assert preempted <= deleted
    site.goes_on()

    # The successor was submitted with the options of the job, and waits for its end.
    successor = site.after(first)
    assert (successor["queue"], successor["name"]) == ("service", "bftrainer-pilot")
    assert successor["state"] == "H"
    assert successor["owner"] == f"{own_name()}@{FIRST_HOST}"
    incarnation = on.steps("a")[-1][0]
    ran_s = time.time() - lab.job(first)["started_s"]
    lab.edit(lambda state: state["jobs"][first].update(limit_s=ran_s + 45.0))
    eventually(lambda: site.is_over(first), 90)
    assert lab.job(first)["exit"] == 0, "it ended by itself, before its walltime"
    eventually(lambda: on.steps("a")[-1][0] > incarnation, 60)
    steps = on.steps("a")
    again = next(index for index, step in enumerate(steps) if step[0] > incarnation)
    assert steps[again][1] == steps[again - 1][1] + 1, "a planned stop loses nothing"
    said = on.said()
    assert f"successor job {successor['id']} submitted" in said

    (on.work / "a.enough").touch()
    eventually(lambda: on.status("a") == "done", 60)
    lab.run("qdel", successor["id"], PBS_STANDIN_HOST=FIRST_HOST)
    eventually(lambda: site.is_over(successor["id"]), 60)
    assert not [j for j in lab.state()["jobs"].values() if j["state"] not in OVER], "no successor"
    assert_contiguous(on.steps("a"))
    on.assert_in_order()


@pytest.mark.nightly
def test_a_pilot_on_another_host_leaves_its_predecessors_holders_to_their_leases(
    site: Site,
) -> None:
    """PBS takes a user on one host for another owner than on another host, without flatuid."""
    lab, on = site.lab, site.on
    on.submit("a", 10**6, 0.05, 4)
    first = site.start_pilot(FIRST_HOST)
    eventually(lambda: len(site.holders()) == 4, 60)
    site.goes_on()
    held = site.holders()
    site.kill_with_its_node(first)
    second = site.start_pilot(OTHER_HOST)
    site.goes_on()
    assert site.holders() == held
    (on.work / "a.enough").touch()
    eventually(lambda: on.status("a") == "done", 60)
    eventually(lambda: not site.holders(), 60)
    assert "PBS does not let this host end holders that were submitted on another one" in on.said()
    refused = [words for words in lab.calls("qdel") if set(words[1:]) & set(held.values())]
    assert len(refused) <= len(held), "none is tried again"
    lab.run("qdel", second)
    eventually(lambda: site.is_over(second), 60)
    assert_contiguous(on.steps("a"))
    on.assert_in_order()
