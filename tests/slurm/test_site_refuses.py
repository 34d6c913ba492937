"""A real Slurm whose main jobs would wait for holders: the pilot holds nothing and says why, unless
its user accepts that.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import started
from support.live_machine import Machine, eventually, machine
from support.pilot_config import pilot_config
from support.slurm_lab import Lab, Settings
from support.slurm_versions import SlurmVersion

EXEMPT = "PreemptExemptTime=00:10:00"
SITE = {"give_way": "site", "holder": "slurm"}
ACCEPTING = pilot_config(nodes=SITE, slurm={"accept": ["exempt time"]})


@pytest.fixture(scope="module")
def exempt_lab(slurm_version: SlurmVersion) -> Iterator[Lab]:
    yield from started(Settings(nodes=2, more=EXEMPT), slurm_version)


@pytest.fixture
def on(exempt_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    exempt_lab.enter(monkeypatch.setenv)
    it = machine(tmp_path, [], pilot_config(nodes=SITE))
    yield it
    it.close()
    exempt_lab.tidy_up()


def events(on: Machine) -> list[dict[str, object]]:
    return on.rows("events", "-n", 1000) if on.state_is_there() else []


def told(on: Machine, kind: str) -> list[str]:
    return [str(row["text"]) for row in events(on) if row["kind"] == kind]


def holders(lab: Lab) -> list[str]:
    return lab.run("squeue", "-h", "-t", "R", "-n", "bftrainer-holder", "-o", "%N %k").splitlines()


def is_decided(on: Machine) -> bool:
    """Whether the trainer has been in a decision: idle nodes were there, and none was requested."""
    return bool(told(on, "decision"))


def test_nothing_is_held_main_jobs_start_at_once_and_events_say_why(
    exempt_lab: Lab, on: Machine
) -> None:
    pilot = on.pilot()
    eventually(lambda: told(on, "refused"))
    (why,) = told(on, "refused")
    assert why.startswith("no node is held: exempt time: PreemptExemptTime 600 s")
    assert "remedy: PreemptExemptTime=0" in why
    on.submit("a", 100_000)
    eventually(lambda: is_decided(on))
    started_on = exempt_lab.run("srun", "-p", "main", "-N2", "hostname")
    assert len(started_on.split()) == 2
    assert holders(exempt_lab) == []
    assert exempt_lab.run("squeue", "-h", "-a", "-t", "all", "-n", "bftrainer-holder") == "", (
        "none was submitted"
    )
    assert "latest refusal: no node is held: exempt time" in on.bftrainer(
        "explain", "a"
    ).stdout.replace("\n", " ")
    on.end(pilot)


def test_what_the_user_accepts_is_held_and_the_administrator_sees_it(
    exempt_lab: Lab, on: Machine
) -> None:
    (on.state / "bftrainer.toml").write_text(ACCEPTING)
    pilot = on.pilot()
    on.submit("a", 100_000)
    eventually(lambda: len(holders(exempt_lab)) == 2)
    assert all(
        "(failed checks accepted by the user: exempt time)" in line for line in holders(exempt_lab)
    )
    assert told(on, "refused") == []
    (accepted,) = told(on, "accepted")
    assert accepted.startswith("exempt time: accepted by slurm.accept: PreemptExemptTime 600 s")
    doctor = on.bftrainer("doctor", check=False).stdout
    assert re.search(r"WARNING +exempt time", doctor), doctor
    # These holders are known by their comments, and released when the user accepts it no longer.
    (on.state / "bftrainer.toml").write_text(pilot_config(nodes=SITE))
    pilot.send_signal(signal.SIGHUP)
    eventually(lambda: told(on, "refused"))
    eventually(lambda: holders(exempt_lab) == [])
    on.end(pilot)


def test_a_site_that_changes_while_nodes_are_held(lab: Lab, beside: Machine) -> None:
    """An administrator lowers the main partition; the pilot hears of it at a reload, as it would
    within the hour.
    """
    pilot = beside.pilot()
    beside.submit("a", 100_000)
    eventually(lambda: len(holders(lab)) == 2)
    lab.run("scontrol", "update", "PartitionName=main", "PriorityTier=1")
    try:
        pilot.send_signal(signal.SIGHUP)
        eventually(lambda: told(beside, "refused"))
        assert "no partition with its nodes is above scavenge" in told(beside, "refused")[0]
        eventually(lambda: holders(lab) == [])
    finally:
        lab.run("scontrol", "update", "PartitionName=main", "PriorityTier=10")
    pilot.send_signal(signal.SIGHUP)
    eventually(lambda: told(beside, "allowed"))
    eventually(lambda: len(holders(lab)) == 2)
    beside.end(pilot)
