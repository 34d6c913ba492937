"""Workflows and files that a code host reads. Hosts are not here: what they would run is checked
against the Makefile and pyproject.toml.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()


def project_table() -> dict[str, Any]:
    import tomllib

    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


PROJECT = project_table()


def jobs_of(workflow: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return jobs


def steps_of(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in jobs_of(workflow).values() for step in job["steps"]]


def test_there_are_workflows() -> None:
    assert [path.stem for path in WORKFLOWS] == ["checks", "release", "slurm"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_runs_targets_of_the_makefile(workflow: Path) -> None:
    commands = [step["run"] for step in steps_of(workflow) if "run" in step]
    targets = [word for text in commands for word in re.findall(r"^make (\S+)", text, re.M)]
    assert targets or "bash .ci/run" in commands
    for target in targets:
        assert re.search(rf"^{target}:", MAKEFILE, re.M), target


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_may_only_read_and_pins_its_actions(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
    actions = [step["uses"] for step in steps_of(workflow) if "uses" in step]
    assert actions
    for action in actions:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_has_a_time_limit(workflow: Path) -> None:
    assert all(job["timeout-minutes"] <= 120 for job in jobs_of(workflow).values())


def test_workflows_test_the_oldest_and_the_newest_python() -> None:
    versions = jobs_of(ROOT / ".github/workflows/checks.yml")["tests"]["strategy"]["matrix"]
    assert versions["python"] == ["3.11", "3.14"]


def test_documentation_site_is_the_one_of_make_docs() -> None:
    config = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())
    assert config["mkdocs"] == {"configuration": "mkdocs.yml", "fail_on_warning": True}
    (install,) = config["build"]["jobs"]["install"]
    assert (ROOT / install.split()[3]).is_file()
    assert "docs" in PROJECT["optional-dependencies"]


def test_license_is_an_spdx_expression_without_a_classifier() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])
    assert not [text for text in PROJECT["classifiers"] if text.startswith("License ::")]


def test_all_is_every_extra_that_needs_no_build() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    names = set(re.fullmatch(r"bftrainer\[(.*)\]", everything)[1].split(","))  # type: ignore[index]  # else the test fails
    built = {"horovod", "pyslurm", "torchft"}
    assert names == extras.keys() - built - {"all", "dev", "docs", "release"}


def test_mpi4py_and_pyslurm_are_named() -> None:
    extras = PROJECT["optional-dependencies"]
    assert extras["mpi"][0].startswith("mpi4py")
    assert extras["pyslurm"][0].startswith("pyslurm")
