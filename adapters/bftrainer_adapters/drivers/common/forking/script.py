"""What of a training script may be done before a worker exists: its first imports."""

from __future__ import annotations

import ast
import importlib.machinery
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bftrainer_adapters.drivers.common.warm_command import option_count


@dataclass(frozen=True, slots=True)
class Beginning:
    """The modules, and the environment variables that the script sets before it imports them: name, value, whether always."""

    modules: tuple[str, ...]
    variables: tuple[tuple[str, str, bool], ...] = ()


def beginning_of(command: Sequence[str], cwd: Path) -> Beginning | None:
    """The beginning of the command's script; None if it is no readable Python file, or imports nothing there."""
    options = option_count(command)
    if options is None:
        return None
    words = command[options:]
    path = _module_file(words[1], cwd) if words[0] == "-m" else cwd / words[0]
    try:
        found = parse(path.read_text(encoding="utf-8")) if path is not None and path.is_file() else None
    except (OSError, SyntaxError, ValueError):
        return None
    return found if found is not None and found.modules else None


def parse(source: str) -> Beginning:
    """Pure. Ends at the first statement that calls or changes something, such as ``sys.path.insert(...)``."""
    modules: list[str] = []
    variables: list[tuple[str, str, bool]] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.module and not node.level and node.module != "__future__":
                modules.append(node.module)
        elif (variable := _sets_variable(node)) is not None:
            variables.append(variable)
        elif not _is_harmless(node):
            break
    return Beginning(tuple(dict.fromkeys(modules)), tuple(variables))


def _is_harmless(node: ast.stmt) -> bool:
    """Constants, plain functions, and assignments of names without a call."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return not node.decorator_list
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    if not isinstance(node, ast.Expr) and not targets:
        return False
    value = node.value if isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign) else None
    plain = value is None or not any(isinstance(part, ast.Call | ast.Await) for part in ast.walk(value))
    return plain and all(isinstance(target, ast.Name) for target in targets)


def _sets_variable(node: ast.stmt) -> tuple[str, str, bool] | None:
    """``os.environ["X"] = "1"`` and ``os.environ.setdefault("X", "1")``, which people write before they import torch."""
    match node:
        case ast.Assign(
            targets=[
                ast.Subscript(
                    value=ast.Attribute(value=ast.Name(id="os"), attr="environ"), slice=ast.Constant(str(name))
                )
            ],
            value=ast.Constant(str(value)),
        ):
            return name, value, True
        case ast.Expr(
            ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="os"), attr="environ"), attr="setdefault"),
                args=[ast.Constant(str(name)), ast.Constant(str(value))],
            )
        ):
            return name, value, False
    return None


def _module_file(name: str, cwd: Path) -> Path | None:
    """The file of a module in the trainer's folder; no package of it is imported."""
    folders: Sequence[str] = [str(cwd)]
    spec = None
    for part in name.split("."):
        spec = importlib.machinery.PathFinder.find_spec(part, list(folders))
        if spec is None:
            return None
        folders = spec.submodule_search_locations or []
    if spec is not None and spec.submodule_search_locations:
        return next((Path(folder) / "__main__.py" for folder in folders), None)
    return Path(spec.origin) if spec is not None and spec.origin else None
