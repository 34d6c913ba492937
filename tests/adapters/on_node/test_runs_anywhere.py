"""What runs on a compute node does so by its path, with that node's own Python 3.6 and nothing else."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from bftrainer_adapters import on_node

FILES = sorted(Path(on_node.__file__).parent.glob("*.py"))


def test_no_module_has_the_name_of_one_of_the_standard_library() -> None:
    """The folder is ``sys.path[0]`` of these programs: one named ``signal.py`` would be imported instead of Python's."""
    assert not {path.stem for path in FILES} & sys.stdlib_module_names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_is_python_3_6_and_imports_only_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))
    beside = {other.stem for other in FILES}
    guarded = {id(node) for top in tree.body if isinstance(top, ast.If) for node in ast.walk(ast.Module(top.body, []))}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) not in guarded:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names | beside
    # Not understood by 3.6, although feature_version lets it pass: lazy annotations and what they may contain.
    assert "from __future__ import annotations" not in path.read_text(encoding="utf-8")
