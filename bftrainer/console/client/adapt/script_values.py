"""Questions about expressions of a script: does it make a container, does it copy weights?"""

from __future__ import annotations

import ast
import re

from bftrainer.console.client.adapt.source import (
    ScriptSource,
    name_of,
)


def assigned_values(statement: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Return the targets of an assignment, each with the expression that it gets."""
    if isinstance(statement, ast.Assign):
        return [(target, statement.value) for target in statement.targets]
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return [(statement.target, statement.value)]
    return []


def copies_weights(value: ast.expr) -> bool:
    """Whether an expression copies a model or its weights."""
    text = ast.unparse(value)
    is_copy = re.search(r"deepcopy\(|\.clone\(|\.copy\(|zeros_like\(", text) is not None
    return is_copy and re.search(r"parameters\(|state_dict\(|deepcopy\(", text) is not None


def is_stored_item(node: ast.Subscript) -> bool:
    """Whether an item is assigned or deleted."""
    return isinstance(node.ctx, ast.Store | ast.Del)


def is_container(value: ast.expr) -> bool:
    """Whether an expression makes a list, a dict, or another container."""
    literals = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    return isinstance(value, literals) or (
        isinstance(value, ast.Call) and makes_container_or_number(value)
    )


def makes_container_or_number(value: ast.Call) -> bool:
    """Whether a call makes an empty container or a number."""
    return name_of(value.func) in [
        "list",
        "dict",
        "set",
        "deque",
        "defaultdict",
        "Counter",
        "OrderedDict",
        "float",
        "int",
        "tuple",
        "tensor",
        "zeros",
        "array",
        "zeros_like",
        "inf",
    ]


def target_names(source: ScriptSource, loop: ast.For | ast.While) -> set[str]:
    """Return the names that a ``for`` loop binds."""
    if not isinstance(loop, ast.For):
        return set()
    return {
        source.of(node)
        for node in ast.walk(loop.target)
        if isinstance(node, ast.Name | ast.Attribute)
    }


def add_once(names: list[str], name: str) -> None:
    """Append a name to a list that does not have it."""
    if name not in names:
        names.append(name)
