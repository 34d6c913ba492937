"""The lists of versions that public workflows install: the tested ones, and the lowest ones."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOWEST = runpy.run_path(str(ROOT / ".ci" / "lowest_versions.py"))
CONSTRAINTS = runpy.run_path(str(ROOT / ".ci" / "constraints.py"))

PYPROJECT = """\
[project]
dependencies = ["numpy>=1.24,!=1.25.0", "tomli>=2; python_version < '3.11'"]
[project.optional-dependencies]
gurobi = ["gurobipy>=11"]
metrics = []
top = ["{top}"]
"""


def test_lowest_versions_are_the_lower_bounds() -> None:
    assert LOWEST["lowest_versions"](PYPROJECT.format(top="textual==6.1")) == [
        "numpy==1.24",
        "textual==6.1",
        'tomli==2; python_version < "3.11"',
    ]


def test_lowest_versions_need_a_lower_bound() -> None:
    with pytest.raises(ValueError, match="textual<7 has no single lower bound"):
        LOWEST["lowest_versions"](PYPROJECT.format(top="textual<7"))


def test_lowest_versions_of_this_project_are_known() -> None:
    lowest = LOWEST["lowest_versions"]((ROOT / "pyproject.toml").read_text())
    assert {"click==8.3.3", "h11==0.16"} <= set(lowest)


def test_constraints_name_no_file_and_no_local_version() -> None:
    frozen = "bftrainer==0.1.0\nhorovod @ file:///tmp/h.whl\nnumpy==2.4.6\ntorch==2.13.0+cpu\n"
    assert CONSTRAINTS["constraints"](frozen) == ["numpy==2.4.6", "torch==2.13.0"]


def test_constraints_in_the_repository_have_a_version_for_every_requirement() -> None:
    lines = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    versions = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert {"click", "hatchling", "mypy", "pytest", "ruff", "torch"} <= versions.keys()
