"""The whole story on a live OAR: submit, train on idle nodes, main jobs that take them, an OAR that
is silent, and nothing lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_machine import Machine, assert_contiguous, eventually, machine
from support.oar_lab import Lab
from support.oar_pilot import CONFIG

pytestmark = [pytest.mark.root, pytest.mark.nightly]
LONG_S = 180.0
"""OAR's own decisions take up to 23 s."""


@pytest.fixture
def on(oar_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setenv("PATH", oar_lab.env["PATH"])
    with machine(tmp_path, [], CONFIG) as it:
        yield it
    oar_lab.tidy_up()


def used(on: Machine, *trainers: str) -> int:
    return sum(row["trainer"] in trainers for row in on.rows("nodes"))


def is_running(lab: Lab, job: str) -> bool:
    return lab.query(f"SELECT state FROM jobs WHERE job_id = {job}") == "Running"


def test_two_trainers_main_jobs_and_a_silence(oar_lab: Lab, on: Machine) -> None:
    on.submit("a", 10**6, 0.1, 4)
    on.submit("b", 10**6, 0.1, 4)
    pilot = on.pilot()
    eventually(on.state_is_there, 60)
    eventually(lambda: used(on, "a") == used(on, "b") == 4, LONG_S)

    # Main jobs take six nodes; the trainings go on on the others, and come back.
    mains = [
        oar_lab.oarsub("-l", f"/network_address={n},walltime=0:5:0", "exec sleep 20")
        for n in (2, 4)
    ]
    for job in mains:
        eventually(lambda job=job: is_running(oar_lab, job), LONG_S)
    eventually(lambda: used(on, "a", "b") == 2, LONG_S)
    for name in ("a", "b"):
        on.trains_on(name, 5, LONG_S)
    eventually(lambda: used(on, "a", "b") == 8, LONG_S)

    # While OAR is silent, trainings go on where they are.
    with oar_lab.silent():
        on.trains_on("a", 50)
        on.trains_on("b", 50)
        assert used(on, "a", "b") == 8
    for name in ("a", "b"):
        on.trains_on(name)
        (on.work / f"{name}.enough").touch()
    eventually(lambda: on.status("a") == on.status("b") == "done", LONG_S)
    on.end(pilot)
    for name in ("a", "b"):
        assert_contiguous(on.steps(name))
    on.assert_in_order()
    assert "besteffort" not in oar_lab.run("oarstat"), "no holder is left"
