"""Two clusters under one slurmdbd: a pilot beside the first one holds nodes of the second one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import need_accounting, started
from support.command_line import bftrainer
from support.live_machine import Machine, eventually, machine
from support.pilot_config import pilot_config
from support.slurm_accounting import with_user
from support.slurm_lab import Lab, Settings, sibling_of
from support.slurm_versions import SlurmVersion

ON_B = pilot_config(nodes={"flap_back_off_s": 1}, slurm={"cluster": "b"})
SETTINGS = Settings(nodes=2, accounting="associations", cluster="a", prefix="alpha")


@pytest.fixture(scope="module")
def clusters(slurm_version: SlurmVersion) -> Iterator[tuple[Lab, Lab]]:
    """``a``, whose slurm.conf this host has, and ``b``."""
    need_accounting(slurm_version)
    for lab in started(SETTINGS, slurm_version):
        lab.root.chmod(0o711)
        with sibling_of(lab) as sibling:
            with_user(sibling)
            yield lab, sibling


@pytest.fixture
def beside_a(
    clusters: tuple[Lab, Lab], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Machine, Lab, Lab]]:
    lab, sibling = clusters
    lab.enter(monkeypatch.setenv)
    pilot = machine(tmp_path, [], ON_B)
    yield pilot, lab, sibling
    pilot.close()
    lab.tidy_up()
    sibling.tidy_up()


@pytest.mark.every_slurm
def test_a_pilot_holds_nodes_of_the_cluster_of_its_settings(
    beside_a: tuple[Machine, Lab, Lab],
) -> None:
    pilot, lab, sibling = beside_a
    pilot.submit("t", 20_000, 0.05, 2)
    pilot.pilot()
    eventually(pilot.state_is_there)
    eventually(lambda: len(pilot.of_trainer("t")) == 2, 60)
    eventually(lambda: pilot.steps("t"), 60)
    assert lab.run("squeue", "-h") == ""
    assert sorted(
        sibling.run("squeue", "-h", "-t", "R", "-n", "bftrainer-holder", "-o", "%N").split()
    ) == [
        "beta01",
        "beta02",
    ]
    main = sibling.submit("sleep 600", "-p", "main", "-N1", "-w", "beta01")
    eventually(lambda: sibling.run("squeue", "-h", "-j", main, "-o", "%T").strip() == "RUNNING", 60)
    eventually(lambda: len(pilot.of_trainer("t")) == 1, 60)
    pilot.close()
    eventually(lambda: sibling.run("squeue", "-h", "-o", "%A").split() == [main], 60)


def test_doctor_names_the_cluster(beside_a: tuple[Machine, Lab, Lab]) -> None:
    pilot, lab, _ = beside_a

    def lines(config: str, **variables: str) -> str:
        (pilot.state / "bftrainer.toml").write_text(config)
        done = bftrainer("doctor", "--state", str(pilot.state), env={**lab.env, **variables})
        return re.sub(r"\s+", " ", done.out)

    found = lines(ON_B)
    assert "b (slurm.cluster)" in found
    assert re.search(r"sbatch would accept a holder on beta0\d", found), found
    assert "a (this host's slurm.conf)" in lines(ON_B.replace('cluster = "b"\n', ""))
    assert "but SLURM_CLUSTERS=a; unset one of them" in lines(ON_B, SLURM_CLUSTERS="a")
    assert "No cluster 'nosuch' known by database" in lines(ON_B.replace('"b"', '"nosuch"'))
