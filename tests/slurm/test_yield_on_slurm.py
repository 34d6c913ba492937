"""A real Slurm that preempts nothing, with its own intervals, and a pilot of an ordinary user that
holds all nodes: main jobs start all the same. Longer measurements: yield_delays.py.
"""

from __future__ import annotations

import os
import re
import signal
import sys
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
LEASE_S = 8.0


@pytest.fixture(scope="module")
def never_lab(slurm_version: SlurmVersion) -> Iterator[Lab]:
    yield from started(never(NODES), slurm_version)


@pytest.fixture
def on(never_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    never_lab.enter(monkeypatch.setenv)
    text = pilot_text().replace("timeout_s = 15.0", "timeout_s = 2.0")
    it = machine(tmp_path, [], text.replace("[times]", f"[times]\nlease_s = {LEASE_S}"))
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


def test_a_pilot_that_is_stopped_loses_its_nodes_with_their_leases(
    never_lab: Lab, on: Machine, tmp_path: Path
) -> None:
    pilot = on.pilot()
    on.submit("a", 1_000_000, 0.05, NODES)
    holds_all(never_lab)
    pilot.send_signal(signal.SIGSTOP)
    try:
        MainJobs(never_lab, tmp_path).run("sbatch", NODES, seconds=2 * LEASE_S + SOON_S)
    finally:
        pilot.send_signal(signal.SIGCONT)
    on.end(pilot)


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
