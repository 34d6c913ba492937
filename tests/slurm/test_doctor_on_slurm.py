"""``bftrainer doctor --state`` on a real Slurm, as it should be and with planted faults. It only
reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import started
from support.clusters_under_test import RealSlurm
from support.command_line import bftrainer
from support.pilot_config import pilot_config
from support.slurm_accounting import limit
from support.slurm_lab import DEFAULTS, Lab
from support.slurm_versions import SlurmVersion

from bftrainer_clusters.slurm.checks import trial_of

CONFIG = pilot_config()
SITE = {"holder": "slurm", "give_way": "site"}
ENDED_BY_SLURM = pilot_config(nodes=SITE)
BY_QOS = pilot_config(
    nodes=SITE, slurm={"partition": None, "qos": "scavenger", "account": "pilots"}
)


@pytest.fixture(scope="module")
def plain_lab(slurm_version: SlurmVersion) -> Iterator[Lab]:
    yield from started(DEFAULTS, slurm_version)


def doctor(
    lab: Lab, path: Path, config: str = CONFIG, *arguments: str
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit status and checks by name; torch is left out, since importing it takes seconds."""
    state, stub = path / "state", path / "stub"
    path.chmod(0o700)
    for folder in (state, stub):
        folder.mkdir(mode=0o700, exist_ok=True)
    (state / "bftrainer.toml").write_text(config)
    (stub / "torch.py").write_text("raise ModuleNotFoundError('left out')")
    words = arguments or ("--state", str(state))
    done = bftrainer("doctor", "--json", *words, env={**lab.env, "PYTHONPATH": str(stub)})
    report = json.loads(done.out)
    assert report["ok"] is (done.status == 0), done
    for check in report["checks"]:
        assert check["state"] == "OK" or check["remedy"], f"no remedy: {check}"
    return done.status, {check["name"]: check for check in report["checks"]}


def warned(checks: dict[str, dict[str, Any]]) -> set[str]:
    """Warnings, but for those of this machine: root, one loopback interface, a file system of one
    host.
    """
    return {name for name, check in checks.items() if check["state"] == "WARNING"} - {
        "user",
        "interface",
        "files",
    }


@pytest.mark.every_slurm("installed", "sid")
def test_both_settings(
    lab: Lab, plain_lab: Lab, slurm_version: SlurmVersion, tmp_path: Path
) -> None:
    status, checks = doctor(lab, tmp_path)
    assert status == 0, checks
    if trial_of(slurm_version.release) is None:  # of a Debian release that has moved on
        assert f"{slurm_version.number} has not been tried" in checks.pop("version")["detail"]
    else:
        assert checks["version"]["detail"].startswith(f"{slurm_version.number} (")
    assert warned(checks) == {"tracking"}
    assert checks["look"]["detail"].startswith("8 nodes, 8 idle, 0 jobs pending")
    assert "sbatch would accept a holder on node" in checks["holder"]["detail"]
    status, checks = doctor(plain_lab, tmp_path)
    assert status == 0, checks
    assert warned(checks) - {"version"} == {
        "tracking",
        "kill wait",
        "user signal",
        "epilog",
        "scheduler",
    }
    assert plain_lab.run("squeue", "-h", "-t", "all") == "", "it only asked"


def test_the_configuration_that_advise_writes(lab: Lab, tmp_path: Path) -> None:
    """With the partition of the page that it names; the lab's own partitions are main ones here."""
    (tmp_path / "log.csv").write_text(
        "time,joined,left\n2021-01-01T00:00:00,a b,\n2021-01-01T08:00:00,,b\n"
    )
    bftrainer("advise", tmp_path / "log.csv", "--jobs", 1, "--out", tmp_path / "advice")
    config = (tmp_path / "advice" / "bftrainer.toml").read_text()
    page = (Path(__file__).parents[2] / "docs" / "site-setup.md").read_text()
    (line,) = re.findall("^PartitionName=scavenger .*", page, re.MULTILINE)
    lab.run("scontrol", "update", "PartitionName=scavenge", "PriorityTier=5")
    lab.run("scontrol", "create", *line.split())
    status, checks = doctor(lab, tmp_path, config + "[workers]\nallow_root = true\n")
    lab.run("scontrol", "delete", "PartitionName=scavenger")
    lab.run("scontrol", "update", "PartitionName=scavenge", "PriorityTier=1")
    assert (status, warned(checks)) == (0, {"tracking"}), checks
    assert checks["config"]["detail"] == "bftrainer.toml: holder slurm, policy bftrainer"


FAULTS = [
    ("PreemptMode=OFF", "PreemptMode=CANCEL", "preemption", "nothing ends a holder"),
    (
        "PriorityTier=20",
        "PriorityTier=1",
        "preemption",
        "no partition with its nodes is above scavenge",
    ),
    ("State=DOWN", "State=UP", "partition", "partition scavenge is DOWN"),
]


def test_planted_faults(plain_lab: Lab, tmp_path: Path) -> None:
    for planted, mended, name, words in FAULTS:
        plain_lab.run("scontrol", "update", "PartitionName=scavenge", planted)
        status, checks = doctor(plain_lab, tmp_path, ENDED_BY_SLURM)
        of_auto = doctor(plain_lab, tmp_path)
        plain_lab.run("scontrol", "update", "PartitionName=scavenge", mended)
        assert status == 1, planted
        assert of_auto[0] == (name == "partition"), "else the pilot yields"
        assert ("give way" in of_auto[1]) == (name != "partition")
        assert checks[name]["state"] == "BROKEN"
        assert words in checks[name]["detail"]
    assert doctor(plain_lab, tmp_path)[0] == 0


def test_a_slurm_that_does_not_answer_or_answers_strangely(plain_lab: Lab, tmp_path: Path) -> None:
    fakes = plain_lab.root / "bin"
    for program, script, name, words in (
        (
            "scontrol",
            "echo 'Unable to contact slurm controller' >&2; exit 1",
            "slurm",
            "Unable to contact",
        ),
        ("scontrol", "exit 0", "slurm", "printed nothing"),
        ("scontrol", "sleep 1000", "slurm", "no response within 3 s"),
        ("squeue", "echo garbage", "look", "squeue's header is 'garbage"),
    ):
        plain_lab.put_fake(program, f"#!/bin/sh\n{script}\n")
        status, checks = doctor(plain_lab, tmp_path, CONFIG + "timeout_s = 3.0\n")
        (fakes / program).unlink()
        assert (status, checks[name]["state"]) == (1, "BROKEN")
        assert words in checks[name]["detail"]


def test_without_a_state_directory_nothing_of_the_site_is_required(
    plain_lab: Lab, tmp_path: Path
) -> None:
    plain_lab.put_fake("sdiag", "#!/bin/sh\nexit 1\n")
    status, checks = doctor(plain_lab, tmp_path, CONFIG, "--keep", str(tmp_path))
    (plain_lab.root / "bin" / "sdiag").unlink()
    assert status == 0
    assert checks["look"]["state"] == "BROKEN"
    assert checks["epilog"]["state"] == "WARNING"
    assert "partition" not in checks


def test_doctor_reads_the_qos(by_qos: RealSlurm, tmp_path: Path) -> None:
    status, checks = doctor(by_qos.lab, tmp_path, BY_QOS)
    assert status == 0, checks
    assert "normal preempts scavenger" in checks["qos"]["detail"]
    limit(by_qos.lab, "MaxSubmitJobsPerUser=2 GraceTime=45 PreemptExemptTime=60 MaxWall=30")
    status, checks = doctor(by_qos.lab, tmp_path, BY_QOS)
    assert status == 1
    assert "GraceTime 45 s" in checks["kill wait"]["detail"]
    assert "QOS scavenger has PreemptExemptTime" in checks["exempt time"]["detail"]
    assert "MaxWall 1800 s" in checks["max wall"]["detail"]
    assert "at most 2 nodes are held" in checks["limits"]["detail"]
