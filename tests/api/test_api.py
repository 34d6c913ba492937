"""The public API: every name exists, is documented and sorted; the policy of the docs needs nothing
else.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
from pathlib import Path
from types import ModuleType

import pytest
from support.ran import python

import bftrainer
from bftrainer import api
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.console.client import public
from bftrainer.console.client.functions import TrainerKeys
from bftrainer_replay import api as replay_api

ROOT = Path(__file__).parents[2]
ALIASES = {"Change", "Nodes", "CHECKS", "TABLE_2"}
"""Type aliases and values: they have no docstring of their own."""


@pytest.mark.parametrize("module", [api, public, replay_api], ids=lambda module: module.__name__)
def test_every_public_name_exists_and_is_documented(module: ModuleType) -> None:
    names = [name for name in vars(module) if not name.startswith("_")]
    imported = [
        node
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.ImportFrom)
    ]
    assert names == [alias.asname for node in imported for alias in node.names], (
        "nothing is imported that is not public"
    )
    for name in names:
        found = getattr(module, name)
        if name not in ALIASES:
            text = found.__doc__ or ""
            assert text, name
            assert not text.startswith(f"{name}("), (
                f"{name}: a dataclass without a docstring of its own"
            )


def test_the_package_has_these_names_and_imports_them_late() -> None:
    names = sorted(name for name in vars(public) if not name.startswith("_"))
    assert names == sorted(bftrainer._PUBLIC)
    stub = (ROOT / "bftrainer" / "__init__.pyi").read_text()
    assert (
        sorted(
            line.split(" import ")[1].split(" as ")[0]
            for line in stub.splitlines()
            if " as " in line
        )
        == names
    )
    assert set(TrainerKeys.__annotations__) == set(TrainerSpec.model_fields), (
        "every key of a trainer file is an argument"
    )
    program = (
        "import sys, bftrainer; from bftrainer import progress; slow = {'pydantic', 'numpy', "
        "'sqlite3', 'bftrainer.console.client'}; "
        "print(sorted(slow & set(sys.modules))); bftrainer.submit; "
        "print('bftrainer.console.client.public' in sys.modules)"
    )
    done = python("-c", program, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "True"]
    with pytest.raises(AttributeError, match="has no attribute 'sumbit'"):
        bftrainer.sumbit  # noqa: B018


SCRIPT = """
import bftrainer

handle: bftrainer.TrainerHandle = bftrainer.submit("x.toml", name="a", max_nodes=2, parameters={"lr": 0.1})
status: bftrainer.SubmissionStatus = handle.wait(timeout_s=1.0)
least: float = handle.result().least("loss")
names: list[str] = [one.name for one in bftrainer.as_completed(bftrainer.sweep("x.toml", grid={"lr": [1, 2]}))]


async def go() -> bftrainer.TrainerResult:
    return await handle


bftrainer.submit("x.toml", max_node=2)  # type: ignore[call-arg]
"""


def test_the_page_names_every_entry_point_group() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    for group in ("policies", "launchers", "sites", "commands"):
        assert f"bftrainer.{group}" in page
        assert f"``bftrainer.{group}``" in (api.__doc__ or "")
        assert (
            f'[project.entry-points."bftrainer.{group}"]' in (ROOT / "pyproject.toml").read_text()
        )


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The policy of docs/policies.md as a module."""
    page = (ROOT / "docs" / "policies.md").read_text()
    (text,) = re.findall(r"```python\n(from dataclasses.*?)```", page, re.DOTALL)
    (tmp_path / "mine.py").write_text(text)
    return tmp_path / "mine.py"


def test_the_policy_of_the_docs_imports_only_the_api(policy: Path) -> None:
    modules = {
        node.module
        for node in ast.walk(ast.parse(policy.read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    assert modules == {"dataclasses", "bftrainer.api"}


@pytest.mark.slow
def test_types_are_complete_for_a_script_and_the_policy_of_the_docs_checked_strictly(
    policy: Path,
) -> None:
    policy.with_name("script.py").write_text(SCRIPT)
    # mypy wants to see the sources of an editable installation, which it does not find through an
    # import hook.
    sources = os.pathsep.join(map(str, (ROOT, ROOT / "adapters", ROOT / "replay")))
    env = os.environ | {"MYPYPATH": sources, "MYPY_CACHE_DIR": os.devnull}
    strictly = ("-m", "mypy", "--strict", "--config-file", os.devnull)
    done = python(*strictly, policy.name, "script.py", limit_s=300, cwd=policy.parent, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
