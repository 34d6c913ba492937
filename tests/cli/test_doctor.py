"""doctor examines the real installation; what is missing is blocked at import, in a process of its own."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from patience import PATIENCE

from bftrainer.allocation.gurobi import find_license
from bftrainer.cli.doctor.command import doctor
from bftrainer.system.installed import Installed, installed_folder

ROOT = Path(__file__).parents[2]

# Refuses packages as if they were not installed: argv is the comma-separated list, then doctor's own arguments.
# Through the real command line, so that a broken installation is told and not tripped over.
WITHOUT = """
import sys

class Blocker:
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker(sys.argv[1].split(",")))
from bftrainer.cli.main import run
sys.exit(run(["doctor", *sys.argv[2:]]))
"""


def doctor_without(*packages: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit status and the checks by name."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, ",".join(packages), "--json"],
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
        check=False,
    )
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert report["ok"] is (done.returncode == 0)
    return done.returncode, {check["name"]: check for check in report["checks"]}


def test_all_that_is_required_works_here() -> None:
    result = CliRunner().invoke(doctor)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    for name in ("python", "bftrainer", "numpy", "rich", "jinja2", "matplotlib", "exact", "highs"):
        assert any(line.split()[:2] == ["OK", name] for line in lines), f"{name} in\n{result.output}"
    assert f"highspy {importlib.metadata.version('highspy')}, works" in result.output


def test_json_tells_the_same() -> None:
    result = CliRunner().invoke(doctor, ["--json"])
    report = json.loads(result.output)
    assert report["ok"] is True
    highs = next(check for check in report["checks"] if check["name"] == "highs")
    assert highs == {
        "name": "highs",
        "state": "OK",
        "detail": f"highspy {importlib.metadata.version('highspy')}, works; needs no license",
        "remedy": "",
        "required": True,
    }


def test_gurobis_license_and_its_limits_are_told() -> None:
    pytest.importorskip("gurobipy")
    found = find_license()
    if not found.restricted:
        pytest.skip("a full license has no limits to tell")
    result = CliRunner().invoke(doctor)
    line = next(line for line in result.output.splitlines() if " gurobi " in line)
    assert "restricted, non-production" in line
    assert f"expires {found.expires}" in line
    assert "2,000 variables and rows" in line


def test_without_gurobi_all_is_well() -> None:
    status, checks = doctor_without("gurobipy")
    assert status == 0
    assert checks["gurobi"]["state"] == "MISSING"
    assert checks["gurobi"]["remedy"] == "pip install 'bftrainer[gurobi]'"
    assert checks["highs"]["state"] == "OK"


def test_without_highs_it_fails_and_says_what_to_install() -> None:
    status, checks = doctor_without("highspy")
    assert status == 1
    assert checks["highs"]["state"] == "MISSING"
    assert checks["highs"]["remedy"] == "pip install --upgrade highspy"
    assert checks["exact"]["state"] == "OK"


def test_without_numpy_no_solver_works_and_doctor_still_does() -> None:
    status, checks = doctor_without("numpy")
    assert status == 1
    assert (checks["numpy"]["state"], checks["numpy"]["remedy"]) == ("MISSING", "pip install numpy")
    assert [checks[name]["state"] for name in ("exact", "highs", "gurobi")] == ["BROKEN"] * 3
    assert "numpy" in checks["exact"]["detail"]
    assert checks["python"]["state"] == "OK"


def test_lines_name_the_remedy_below() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "gurobipy,matplotlib"],
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    broken = next(i for i, line in enumerate(lines) if " matplotlib " in line)
    assert lines[broken].startswith("MISSING  ")
    assert lines[broken + 1].strip() == "-> pip install matplotlib"
    assert any(line.startswith("MISSING (optional)  gurobi") for line in lines)


def test_jobscripts_of_a_checkout_are_the_checkouts() -> None:
    folder = installed_folder(Installed.JOBSCRIPT)
    assert folder is not None
    assert (folder / "replay.slurm").is_file()
