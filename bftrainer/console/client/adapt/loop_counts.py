"""Edits of the loops over epochs or steps: the training object counts, and reports the end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from bftrainer.console.client.adapt.code_text import is_whole_number
from bftrainer.console.client.adapt.loop_edit import LoopEdit
from bftrainer.console.client.adapt.search import (
    ANY,
    EPOCHS,
    is_range,
    range_call,
    refusal,
)
from bftrainer.console.client.adapt.source import Function, name_of

_BINDS_TIGHTLY = ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript
"""Expressions from which a number can be taken without parentheses."""


def edit_epoch_loop(edit: LoopEdit) -> ast.stmt:
    """Let the training object count the epochs; returns the statement before which it has to be
    made.
    """
    assert edit.loop.epochs is not None
    loop = edit.loop.epochs.loop
    at = edit.source.statement(loop)
    if isinstance(loop, ast.While) and edit.horovod is not None and is_range(loop):
        compare = loop.test
        assert isinstance(compare, ast.Compare)
        head = f"for {{}} in {edit.training}.epochs({{}})"
        edit.source.head(loop, head, compare.left, compare.comparators[0])
        return at
    if isinstance(loop, ast.While):
        edit_ends(edit, counts=False)
        return at
    counted = range_call(loop.iter)
    if counted is None and isinstance(loop.iter, ast.Name):
        for binding in edit.source.bound_values(loop.iter.id):
            if range_call(binding.value) is not None:
                counted = range_call(binding.value)
                at = edit.source.statement(binding.value)
    if counted is None and isinstance(loop.iter, ast.Call) and name_of(loop.iter.func) == "count":
        edit_ends(edit, counts=False)
        begin = loop.iter.args[0] if loop.iter.args else None
        if begin is None:
            edit.source.set_arguments(loop.iter, [f"{edit.training}.epoch"])
        else:
            edit.source.insert_after(begin, f" + {edit.training}.epoch")
        return at
    if counted is None:
        what = "found no `for epoch in range(...)` around the loop over the data"
        raise refusal(edit.module, edit.project, loop, what, EPOCHS)
    count_by(edit, loop, counted, f"{edit.training}.epochs")
    edit_ends(edit, counts=True)
    return at


def count_by(edit: LoopEdit, loop: ast.For, counted: ast.Call | None, method: str) -> None:
    """Replace ``range(...)`` in a loop by a call of ``method``, which continues the count after a
    restart.

    A first number that is no constant is where the script resumes: the method knows that
    itself, so it is dropped.
    """
    if counted is None:
        raise refusal(edit.module, edit.project, loop, "found no range(...)", ANY)
    source = edit.source
    new = _remaining_numbers(edit, loop, counted, method)
    if name_of(counted.func) == "trange":
        is_bar = counted is not loop.iter or isinstance(loop.iter, ast.Name)
        if is_bar:
            bar = source.free_name("epoch_progress")
            edit.imports.setdefault(edit.module, []).append(f"from tqdm.auto import tqdm as {bar}")
            keywords = "".join(f", {source.of(keyword)}" for keyword in counted.keywords)
            new = f"{bar}({new}{keywords})"
    source.replace(counted, new)


def _remaining_numbers(edit: LoopEdit, loop: ast.For, counted: ast.Call, method: str) -> str:
    """Return the expression that yields the numbers of a range that are left."""
    source = edit.source
    arguments = counted.args
    if len(arguments) > 2:
        if not all(is_whole_number(argument) for argument in (arguments[0], arguments[2])):
            what = "a range with a step has to begin at a number, as in range(0, N, 2)"
            raise refusal(edit.module, edit.project, loop, what, ANY)
        numbers = f"range({', '.join(source.of(argument) for argument in arguments)})"
        return f"({numbers}[done] for done in {method}(len({numbers})))"
    (*begins, end) = arguments
    first = _initial_number(edit, begins[0]) if begins else "0"
    text = source.of(end)
    if not first.isdecimal() or first == "0":
        return f"{method}({text})"
    count = f"{text if isinstance(end, _BINDS_TIGHTLY) else f'({text})'} - {first}"
    if text.endswith(f" + {first}"):
        count = text.removesuffix(f" + {first}")
    return f"({first} + done for done in {method}({count}))"


def _initial_number(edit: LoopEdit, begin: ast.expr) -> str:
    """Return the first number of a range in a training that does not resume; "0" if unknown.

    The script may compute the beginning from a checkpoint of its own.
    """
    source = edit.source
    text = source.of(begin)
    for state in source.calls("TorchState"):
        for keyword in state.keywords:
            if text.endswith(f".{keyword.arg}"):
                return source.of(keyword.value)
    if text.isdecimal():
        return text
    for origin in edit.project.origins(edit.loop.outer.scope, text):
        if isinstance(origin.value, ast.Constant) and isinstance(origin.value.value, int):
            return str(origin.value.value)
    option = re.escape(text.rpartition(".")[2]).replace("_", "[-_]")
    pattern = rf"""["']--{option}["'][^)]*default\s*=\s*(\d+)"""
    defaults = [re.search(pattern, module.text) for module in edit.project.modules]
    return next((match[1] for match in defaults if match is not None), "0")


def edit_ends(edit: LoopEdit, counts: bool) -> None:
    """Report the end where the outer loop is left: behind it, or before its ``break``.

    ``counts``: the object counts the passes of the loop, and reports the end after the last.
    """
    if edit.horovod is not None:
        return
    loop = edit.loop.outer.loop
    end = f"{edit.training}.end()"
    if not counts:
        edit.source.after(loop, end)
    for node in _own_statements(loop, into_loops=True):
        is_return = isinstance(node, ast.Return) and edit.loop.outer.scope.function is not None
        if is_return:
            edit.source.before(node, end)
    if counts:
        for node in _own_statements(loop, into_loops=False):
            if isinstance(node, ast.Break):
                edit.source.before(node, end)


def last_step_text(edit: LoopEdit, loop: ast.While) -> str:
    """Return the number at which a loop over steps ends, as text; empty if it is not plain to
    see.

    It is LAST in ``while step < LAST`` and in ``if step > LAST: break``.
    """
    ends: list[tuple[ast.expr, tuple[type[ast.cmpop], ...]]] = [(loop.test, (ast.Lt, ast.LtE))]
    branches = [node for node in ast.walk(loop) if isinstance(node, ast.If)]
    ends += [
        (branch.test, (ast.Gt, ast.GtE, ast.Eq))
        for branch in branches
        if ast.Break in map(type, branch.body)
    ]
    for test, operators in ends:
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            continue
        if not isinstance(test.ops[0], operators):
            continue
        last = test.comparators[0]
        is_plain = isinstance(last, ast.Name | ast.Attribute | ast.Constant)
        if edit.source.of(test.left) in edit.state.values and is_plain:
            return edit.source.of(last)
    return ""


def _own_statements(loop: ast.For | ast.While, *, into_loops: bool) -> Iterator[ast.stmt]:
    """Yield the statements of a loop, but for those of functions in it, and of inner loops unless
    ``into_loops``.
    """
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, Function | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.For | ast.While) and not into_loops:
            continue
        waiting += list(ast.iter_child_nodes(node))
