"""A real Slurm that preempts nothing, with its own intervals, and a pilot of an ordinary user that
holds all nodes: main jobs start all the same. Longer measurements: yield_delays.py.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import started
from support.live_machine import Machine, eventually, machine
from support.never_preempts import MainJobs, held, never, pilot_text
from support.slurm_lab import Lab, wait_until
from support.slurm_user import LabUser, lab_user, missing_user, python_of_users
from support.slurm_versions import SlurmVersion

NODES = 4
SOON_S = 30.0
"""A main job that nobody makes way for waits for half an hour."""


@pytest.fixture(scope="module")
def never_lab(slurm_version: SlurmVersion) -> Iterator[Lab]:
    yield from started(never(NODES), slurm_version)


@pytest.fixture
def on(never_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    never_lab.enter(monkeypatch.setenv)
    it = machine(tmp_path, [], pilot_text())
    yield it
    it.close()
    never_lab.tidy_up()


@pytest.fixture
def on_short(never_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A pilot whose holders last for two minutes, so that a plan of three is a far one."""
    never_lab.enter(monkeypatch.setenv)
    it = machine(tmp_path, [], pilot_text(worst_wait_s=WORST_WAIT_S))
    yield it
    it.close()
    never_lab.tidy_up()


def holds_all(lab: Lab) -> None:
    wait_until(lambda: held(lab) == NODES, "all nodes to be held", 60)


def test_main_jobs_get_as_many_held_nodes_as_they_need(
    never_lab: Lab, on: Machine, tmp_path: Path
) -> None:
    pilot = on.pilot()
    on.submit("a", 1_000_000)
    on.bftrainer("doctor", check=False)
    jobs = MainJobs(never_lab, tmp_path)
    on.submit("b", 1_000_000, 0.05, NODES)
    holds_all(never_lab)
    for by, nodes in (("sbatch", 1), ("srun", 2), ("sbatch", NODES)):
        before = len([row for row in on.rows("nodes", "--all") if row["released_s"] is not None])
        jobs.run(by, nodes, seconds=SOON_S)
        after = [row for row in on.rows("nodes", "--all") if row["released_s"] is not None]
        assert len(after) <= before + nodes, "no more nodes than it needs"
        holds_all(never_lab)
    limits = never_lab.run("squeue", "-h", "-t", "R", "-n", "bftrainer-holder", "-o", "%l %y")
    assert {line.split()[0] for line in limits.splitlines()} <= {"29:00", "30:00", "9:00", "10:00"}
    rows = on.rows("events", "-n", 1000)
    assert any(row["kind"] == "give way" and str(row["text"]).startswith("yield") for row in rows)
    words = re.compile(
        r"job \d+: \d nodes?(, .*)?: \d nodes? released 0\.0 s after the job was seen"
    )
    yields = [str(row["text"]) for row in rows if row["kind"] == "yield"]
    eventually(lambda: len([t for t in on.rows("events", "-n", 1000) if t["kind"] == "yield"]) == 3)
    assert all(words.match(text) for text in yields), yields
    explained = on.bftrainer("explain", "b").stdout.replace("\n", " ")
    assert "yield: the pilot releases nodes when main jobs" in explained
    on.end(pilot)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_pilot_that_is_dead_loses_its_nodes_with_their_leases(
    never_lab: Lab, on: Machine, tmp_path: Path, number: signal.Signals
) -> None:
    """times.lease_s is a minute, which is for sites that end holders themselves."""
    pilot = on.pilot()
    on.submit("a", 1_000_000, 0.05, NODES)
    holds_all(never_lab)
    began_s = time.time()
    pilot.send_signal(number)
    try:
        delay_s = MainJobs(never_lab, tmp_path).run("sbatch", NODES, seconds=SOON_S * 2)
    finally:
        pilot.send_signal(signal.SIGCONT)
    print(f"{number.name}: a main job of all nodes waited {delay_s:.1f} s")
    assert time.time() - began_s < 45.0, "and not for the lease of a minute"
    if number is signal.SIGSTOP:
        on.end(pilot)


PLAN_S = 180.0
WORST_WAIT_S = 120.0


@pytest.mark.nightly
def test_the_first_job_starts_as_planned_and_no_later_job_before_it(
    never_lab: Lab, on_short: Machine, tmp_path: Path
) -> None:
    """A running job has half of the nodes, and holders the idle ones. Slurm plans the first job,
    which needs all nodes, for the running one's time limit. A job behind it would fit on half of
    the nodes for longer than that.
    """
    pilot = on_short.pilot()
    on_short.submit("a", 1_000_000, 0.05, NODES)
    half, minutes = NODES // 2, round(PLAN_S / 60)
    running = never_lab.submit(f"sleep {PLAN_S - 20:g}", f"-N{half}", "-t", str(minutes))
    wait_until(lambda: shown(never_lab, running, "%T") == "RUNNING", "the running job", 60)
    wait_until(lambda: held(never_lab) == NODES - half, "the other nodes to be held", 60)
    first = never_lab.submit(_stamp(tmp_path / "first"), f"-N{NODES}", "-t", "1")
    later = never_lab.submit(_stamp(tmp_path / "later"), f"-N{half}", "-t", "5", "--nice=1000")
    wait_until(lambda: shown(never_lab, first, "%S") != "N/A", "a plan for the first job", 90)
    print(
        f"planned: {shown(never_lab, first, '%S')}, the later job {shown(never_lab, later, '%S')}"
    )
    wait_until(
        lambda: shown(never_lab, running, "%T") == "COMPLETED",
        "the running job to end",
        PLAN_S + 60,
    )
    ended_s = time.time()
    wait_until(lambda: (tmp_path / "first").exists(), "the first job to start", 60, 0.05)
    late_s = float((tmp_path / "first").read_text()) - ended_s
    print(f"the first job started {late_s:.1f} s after the nodes were there")
    assert not (tmp_path / "later").exists(), f"job {later} slipped in before job {first}"
    assert late_s < SOON_S, "and not at a holder's time limit"
    on_short.end(pilot)


def shown(lab: Lab, job: str, field: str) -> str:
    """A field of a job in squeue, also of one that is over."""
    rows = lab.run("squeue", "-h", "-t", "all", "-o", f"%A|{field}").splitlines()
    return dict(row.split("|") for row in rows).get(job, "")


def _stamp(path: Path) -> str:
    return f"date +%s.%N > {path}.new; mv {path}.new {path}; sleep 1"


@pytest.fixture
def hidden(slurm_version: SlurmVersion) -> Iterator[LabUser]:
    """An ordinary user of a cluster that hides jobs."""
    python, variables = python_of_users()
    if reason := missing_user() or ("" if python else f"{sys.executable} is not for other users"):
        pytest.skip(reason)
    for lab in started(never(NODES, "jobs"), slurm_version):
        with lab_user(lab) as user:
            yield replace(user, variables=variables)


@pytest.mark.root
def test_where_the_queue_is_hidden_main_jobs_start_as_well(hidden: LabUser, tmp_path: Path) -> None:
    lab = hidden.lab
    state = hidden.folder("state")
    text = pilot_text()
    hidden.run("sh", "-c", 'printf %s "$1" > "$2"', "sh", text, str(state / "bftrainer.toml"))
    argv = (python_of_users()[0], "-m", "bftrainer")
    where = ("--state", str(state))
    process = hidden.spawn(*argv, "pilot", *where, out=lab.root / "pilot.out")
    try:
        words = ["--name", "a", "--max-nodes", "64", "--samples-per-s", "10"]
        program = ("sleep", "100000")
        hidden.run(*argv, "submit", *words, "--cwd", str(hidden.home), *where, "--", *program)
        holds_all(lab)
        jobs = MainJobs(lab, tmp_path)
        for nodes in (1, NODES):
            jobs.run("sbatch", nodes, seconds=SOON_S)

        def events() -> str:
            return hidden.run(*argv, "events", *where, "--json").stdout

        assert "blind: the pilot releases nodes" in events()
        wait_until(lambda: "a main job has started" in events(), "the event", every_s=0.5)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(90)
