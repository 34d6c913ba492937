"""doctor examines the real installation; what is missing is blocked at import, in a process of its
own.
"""

from __future__ import annotations

import importlib.metadata
import json
from typing import Any

import pytest
from click.testing import CliRunner
from support.ran import python

from bftrainer.console.cli.doctor.command import doctor
from bftrainer.decide.allocation.gurobi import find_license
from bftrainer.system.installed import Installed, installed_folder

# Refuses packages as if they were not installed: argv is the comma-separated list, then doctor's
# own arguments. Through the real command line, so that a broken installation is told and not
# tripped over.
WITHOUT = """
import sys

class Blocker:
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker(sys.argv[1].split(",")))
from bftrainer.console.cli.main import run
sys.exit(run(["doctor", *sys.argv[2:]]))
"""


def doctor_without(*packages: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit status and the checks by name."""
    done = python("-c", WITHOUT, ",".join(packages), "--json")
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert report["ok"] is (done.returncode == 0)
    return done.returncode, {check["name"]: check for check in report["checks"]}


def test_all_that_is_required_works_here() -> None:
    result = CliRunner().invoke(doctor)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    for name in ("python", "bftrainer", "numpy", "rich", "jinja2", "matplotlib", "exact", "highs"):
        assert any(line.split()[:2] == ["OK", name] for line in lines), (
            f"{name} in\n{result.output}"
        )
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


@pytest.mark.parametrize(
    ("package", "check", "remedy", "solvers"),
    [
        (
            "gurobipy",
            "gurobi",
            "pip install 'bftrainer[gurobi]'",
            ["OK", "OK", "MISSING"],
        ),  # it is not required
        ("highspy", "highs", "pip install --upgrade highspy", ["OK", "MISSING", "OK"]),
        ("numpy", "numpy", "pip install numpy", ["BROKEN"] * 3),
    ],
)
def test_what_is_missing_is_told_with_what_to_install(
    package: str, check: str, remedy: str, solvers: list[str]
) -> None:
    status, checks = doctor_without(package)
    assert (status, checks[check]["state"], checks[check]["remedy"]) == (
        package != "gurobipy",
        "MISSING",
        remedy,
    )
    assert [checks[name]["state"] for name in ("exact", "highs", "gurobi")] == solvers
    assert checks["python"]["state"] == "OK"


def test_lines_name_the_remedy_below() -> None:
    done = python("-c", WITHOUT, "gurobipy,matplotlib")
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
