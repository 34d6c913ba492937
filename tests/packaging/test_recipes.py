"""The conda and the Spack recipe ask for what pyproject.toml asks for. Neither tool is here: what
was not tried they say.
"""

from __future__ import annotations

import runpy
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import pytest
import yaml
from packaging.requirements import Requirement

import bftrainer

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILD: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
PYTHON = PROJECT["requires-python"].removeprefix(">=")

Needs = dict[str, tuple[str, set[str]]]
"""By name, in lower case: the least version, and those that are excluded."""


def needs(requirements: list[str]) -> Needs:
    found = {}
    for text in requirements:
        requirement = Requirement(text)
        (least,) = (bound.version for bound in requirement.specifier if bound.operator == ">=")
        excluded = {bound.version for bound in requirement.specifier if bound.operator == "!="}
        assert len(requirement.specifier) == 1 + len(excluded), text
        found[requirement.name.lower()] = (least, excluded)
    return found


# --- conda
# ------------------------------------------------------------------------------------------------------------


def conda_recipe() -> dict[str, Any]:
    """The recipe with its expressions filled in."""
    text = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    environment = jinja2.Environment(
        variable_start_string="${{",
        variable_end_string="}}",
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )
    values = yaml.safe_load(text)["context"] | {"PYTHON": "python"}
    recipe: dict[str, Any] = yaml.safe_load(environment.from_string(text).render(values))
    return recipe


def test_conda_recipe_has_our_version_and_python() -> None:
    recipe = conda_recipe()
    assert recipe["package"] == {"name": PROJECT["name"], "version": bftrainer.__version__}
    assert f"python >={PYTHON}" in recipe["requirements"]["run"]
    assert f"python {PYTHON}.*" in recipe["requirements"]["host"]
    assert recipe["about"]["summary"] == PROJECT["description"]


def test_conda_recipe_has_our_dependencies() -> None:
    recipe = conda_recipe()["requirements"]
    # conda-forge's matplotlib-base is matplotlib without a window system.
    run = needs([text.replace("matplotlib-base", "matplotlib") for text in recipe["run"]])
    assert run == needs(PROJECT["dependencies"]) | {"python": (PYTHON, set())}
    assert set(BUILD["requires"]) <= {text.replace(" ", "") for text in recipe["host"]}


def test_conda_recipe_builds_this_checkout() -> None:
    source = ROOT / "packaging" / "conda" / conda_recipe()["source"]["path"]
    assert source.resolve() == ROOT


# --- Spack
# ------------------------------------------------------------------------------------------------------------


class Directives:
    """What a recipe's class body calls, written down:
    https://spack.readthedocs.io/en/latest/packaging_guide_creation.html
    """

    def __init__(self) -> None:
        self.versions: list[str] = []
        self.variants: set[str] = set()
        self.depends: list[tuple[str, dict[str, Any]]] = []
        self._defaults: dict[str, Any] = {}

    def version(self, name: str) -> None:
        self.versions.append(name)

    def variant(self, name: str, *, default: bool, description: str) -> None:
        assert description
        assert default is False
        self.variants.add(name)

    def depends_on(self, spec: str, **options: Any) -> None:
        self.depends.append((spec, self._defaults | options))

    @contextmanager
    def default_args(self, **options: Any) -> Iterator[None]:
        self._defaults = options
        yield
        self._defaults = {}

    def license(self, name: str) -> None:
        assert name == "Apache-2.0"


@pytest.fixture
def spack(monkeypatch: pytest.MonkeyPatch) -> Directives:
    directives = Directives()
    package, python = (
        ModuleType("spack.package"),
        ModuleType("spack_repo.builtin.build_systems.python"),
    )
    for name in ("version", "variant", "depends_on", "default_args", "license"):
        setattr(package, name, getattr(directives, name))
    python.PythonPackage = object  # type: ignore[attr-defined]
    for module in (package, python):
        for parent in (".".join(module.__name__.split(".")[:i]) for i in range(1, 4)):
            monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    recipe = runpy.run_path(str(ROOT / "packaging" / "spack" / "package.py"))
    assert recipe["Bftrainer"].__doc__ == f"{PROJECT['description']}."
    return directives


def spack_needs(directives: Directives, when: str | None) -> Needs:
    """Run dependencies under a condition."""
    found = {}
    for spec, options in directives.depends:
        if "run" in options["type"] and options.get("when") == when:
            name, _, bound = spec.removeprefix("py-").partition("@")
            assert bound.endswith(":"), spec
            ends = [tuple(part.split(":")) for part in bound.split(",")]
            found[name] = (
                ends[0][0],
                set().union(*(between(a[1], b[0]) for a, b in pairwise(ends))),
            )
    return found


def between(last: str, first: str) -> set[str]:
    """The minor versions after ``last`` and before ``first``: Spack has ranges, and ``1.8``
    contains 1.8.1.
    """
    (major, low), (same, high) = (map(int, version.split(".")) for version in (last, first))
    assert major == same
    return {f"{major}.{minor}.0" for minor in range(low + 1, high)}


def test_spack_recipe_has_our_version_and_dependencies(spack: Directives) -> None:
    assert spack.versions == [bftrainer.__version__]
    assert spack_needs(spack, None) == needs(PROJECT["dependencies"]) | {"python": (PYTHON, set())}
    build = needs(BUILD["requires"])
    assert [(f"py-{name}@{least}:", {"type": "build"}) for name, (least, _) in build.items()] == [
        entry for entry in spack.depends if entry[1]["type"] == "build"
    ]


def test_spack_variants_are_extras(spack: Directives) -> None:
    # Packages of Gurobi, Horovod and Slurm have licenses or builds of their own.
    extras = PROJECT["optional-dependencies"]
    without_recipe = {"gurobi", "horovod", "pyslurm", "torchft"}
    for_developers = {"all", "dev", "docs", "release"}
    assert spack.variants == extras.keys() - without_recipe - for_developers
    for variant in spack.variants:
        assert spack_needs(spack, f"+{variant}") == needs(extras[variant])
