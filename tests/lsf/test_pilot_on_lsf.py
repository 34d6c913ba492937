"""The whole story on the stand-in LSF: nodes idle, held, trained on, wanted back, and everything
that can die on the way.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.live_machine import Machine, assert_contiguous, eventually, machine
from support.lsf_lab import FINISHED, Lab, locked

from bftrainer.system.processes import ProcessId, send, with_variable
from bftrainer_clusters.on_node.payload import read

SCRIPT = Path(__file__).parents[2] / "jobscripts" / "pilot.lsf"
POOL = ("node01", "node02", "node03", "node04")
SERVICE = "node05"
CONFIG = f"""
[decisions]
solver = "exact"
[nodes]
holder = "lsf"
min_window_s = 0
flap_back_off_s = 0.5
[times]
poll_s = 1
file_poll_s = 0.05
shutdown_s = 35
lease_s = 120
[workers]
allow_root = true
[lsf]
queue = "idle"
slots_per_node = 4
hosts = {list(POOL)}
timeout_s = 30
python = "{sys.executable}"
"""


@dataclass
class Site:
    """The stand-in with four nodes for the pool and one for pilots, and a state directory."""

    lab: Lab
    on: Machine

    def start_pilot(self, *options: str) -> str:
        """By its job script; the job's id."""
        return self.lab.bsub("-m", SERVICE, *options, stdin=SCRIPT.read_text())

    def pilot_process(self, job: str) -> ProcessId | None:
        """The pilot itself, not the script around it."""
        for process in self.lab.processes_of(job):
            if b"bftrainer\0pilot" in read(process.pid, "cmdline"):
                return process
        return None

    def holders(self) -> dict[str, str]:
        """Job ids of holders that run, by node."""
        with locked(self.lab.root) as state:
            jobs = [
                job
                for job in state["jobs"].values()
                if job["queue"] == "idle" and job["stat"] == "RUN"
            ]
        return {job["hosts"][0]: job["id"] for job in jobs}

    def used(self, *trainers: str) -> int:
        """Nodes that these trainers have."""
        return sum(row["trainer"] in trainers for row in self.on.rows("nodes"))

    def steps(self) -> int:
        return sum(len(self.on.steps(name)) for name in ("a", "b"))

    def goes_on(self) -> None:
        count = self.steps()
        eventually(lambda: self.steps() > count + 20)

    def goes_on_as_another_incarnation(self, name: str, before: int) -> None:
        """After a planned stop of the one before, which loses nothing."""
        eventually(lambda: self.on.steps(name)[-1][0] > before, 40)
        steps = self.on.steps(name)
        first = next(index for index, step in enumerate(steps) if step[0] > before)
        assert steps[first][1] == steps[first - 1][1] + 1

    def after(self, job: str) -> str:
        """The job that waits for this one's end, if there is one; from now on it has no run
        limit.
        """
        with locked(self.lab.root) as state:
            found = [other for other in state["jobs"].values() if other["after"] == job]
            for other in found:
                other["limit_s"] = None
        assert len(found) <= 1
        return found[0]["id"] if found else ""

    def kill_job_with_its_tree(self, job: str) -> None:
        """What a cluster with cgroups does when the pilot's node reboots: script, pilot, drivers,
        worker prefixes.
        """
        with locked(self.lab.root) as state:
            state["jobs"][job]["kill"] = "TERM_OWNER"
        spared = {
            p for holder in self.holders().values() for p in with_variable("LSB_JOBID", holder)
        }
        for _ in range(3):
            for process in self.on.processes():
                if process not in spared:
                    send(process, signal.SIGKILL)
        eventually(lambda: self.lab.job(job)["stat"] in FINISHED)

    def nothing_is_left(self) -> None:
        eventually(lambda: not self.on.processes(), 20)
        with locked(self.lab.root) as state:
            assert {job["stat"] for job in state["jobs"].values()} <= set(FINISHED)
        assert all(row["released_s"] is not None for row in self.on.rows("nodes", "--all"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    lab = Lab(tmp_path / "lsf", nodes=5)
    # A job that is told to end leaves at the first signal, however long that takes it here.
    lab.edit(lambda state: state["params"].update(JOB_TERMINATE_INTERVAL="60"))
    lab.program("bftrainer", f'exec {sys.executable} -m bftrainer "$@"')
    on = machine(tmp_path, [], CONFIG)
    here = {**lab.env, "BFTRAINER_STATE": str(on.state), "BFTRAINER_RESTART_S": "0.1"}
    on.enter(monkeypatch, here)
    yield Site(lab, on)
    lab.stop()
    on.close()


@pytest.mark.slow
def test_two_trainers_preemptions_and_recovery(site: Site) -> None:
    lab, on = site.lab, site.on
    first = site.start_pilot()
    on.submit("a", 10**6)
    on.submit("b", 10**6)
    eventually(on.state_is_there)
    eventually(lambda: site.used("a") == site.used("b") == 2, 40)
    assert sorted(site.holders()) == sorted(POOL), "the pilot's own node is none of the pool's"
    site.goes_on()

    # Main jobs take two nodes: nothing of ours is there when they begin, and the rest trains on.
    wanted = [site.holders()[node] for node in POOL[:2]]
    main = lab.main_job(*POOL[:2], seconds=3, holders=wanted)
    eventually(lambda: lab.started_s(main))
    assert lab.left(main) == []
    eventually(lambda: not any(lab.processes_of(job) for job in wanted))
    for job in map(lab.job, wanted):
        assert (job["why"], job["signals"]) == ("TERM_PREEMPT", ["SIGINT"]), (
            "it leaves at the first signal"
        )
    site.goes_on()
    eventually(lambda: site.used("a", "b") == 4, 40)

    # kill -9 of the pilot while LSF is down: drivers train on, and the next finds its holders when
    # LSF is back.
    held = site.holders()
    killed = site.pilot_process(first)
    lab.fault("*", "down-at-once")
    eventually(lambda: any("LSF is down. Please wait ..." in str(row) for row in on.rows("events")))
    assert killed is not None
    send(killed, signal.SIGKILL)
    eventually(lambda: site.pilot_process(first) not in (killed, None))
    site.goes_on()
    assert lab.job(first)["stat"] == "RUN"
    lab.heal()
    eventually(lambda: site.used("a", "b") == 4, 40)
    assert site.holders() == held

    # The pilot's job is gone with everything in it: the next one ends what is left on its nodes,
    # and goes on.
    site.kill_job_with_its_tree(first)
    second = site.start_pilot()
    site.goes_on()
    assert site.holders() == held
    for name in ("a", "b"):
        (on.work / f"{name}.enough").touch()
    eventually(lambda: on.status("a") == on.status("b") == "done", 40)
    lab.run("bkill", second)
    eventually(lambda: lab.job(second)["stat"] in FINISHED, 40)
    for name in ("a", "b"):
        assert_contiguous(on.steps(name))
    assert "0 differ" in on.bftrainer_replay()
    site.nothing_is_left()


@pytest.mark.slow
def test_a_pilot_hands_over_before_its_run_limit(site: Site) -> None:
    """35 s to let go and 10 to spare, of the 65 that the first has once its trainer runs; it looks
    every 30 s. The second has no limit that bjobs tells, and is told.
    """
    lab, on = site.lab, site.on
    on.submit("a", 10**6)
    first = site.start_pilot("-W", "10")
    eventually(lambda: len(on.steps("a")) > 5, 60)
    now_s = time.time()
    lab.edit(
        lambda state: state["jobs"][first].update(
            limit_s=now_s + 65 - state["jobs"][first]["started_s"]
        )
    )
    eventually(lambda: site.after(first), 40)
    second, incarnation = site.after(first), on.steps("a")[-1][0]
    assert (lab.job(second)["name"], lab.job(second)["queue"]) == ("bftrainer-pilot", "normal")
    eventually(lambda: lab.job(first)["stat"] == "DONE", 60)
    site.goes_on_as_another_incarnation("a", incarnation)
    assert any(f"successor job {second} submitted" in str(row) for row in on.rows("events"))
    incarnation = on.steps("a")[-1][0]
    os.killpg(lab.job(second)["pgid"], signal.SIGUSR2)  # what LSF sends at the run limit
    eventually(lambda: lab.job(second)["stat"] == "DONE", 40)
    third = site.after(second)
    site.goes_on_as_another_incarnation("a", incarnation)
    lab.run("bkill", third)
    eventually(lambda: lab.job(third)["stat"] in FINISHED, 40)
    assert_contiguous(on.steps("a"))
    assert not site.after(third), "an end is an end"
    site.nothing_is_left()
