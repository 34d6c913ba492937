"""Statements that a resumed epoch must not run again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bftrainer.console.client.adapt.carried import MUTATORS
from bftrainer.console.client.adapt.search import (
    EPOCHS,
    refusal,
)
from bftrainer.console.client.adapt.source import (
    COMPOUND,
)
from bftrainer.console.client.adapt.state_search import StateSearch

_CHANGING = MUTATORS | {"step", "step_update"}
"""Methods that bring an object from one state to the next."""


def find_guarded_statements(search: StateSearch) -> None:
    """Find changes of kept state in front of the loop over batches."""
    loop = search.loop
    if loop.epochs is None or loop.loader is None:
        return
    inner: ast.AST = loop.batches.loop if not loop.between else loop.between[-1].call
    for statement in _statements_before_batches(search, inner):
        changed = _changed_names(search, statement)
        names = {*search.state.values, *search.state.keep.values()}
        if not changed & names:
            continue
        if not search.source.begins_line(statement):
            what = "shares its line with another statement; give it a line of its own"
            raise refusal(search.module, search.project, statement, what, EPOCHS)
        search.state.guarded.append(statement)


def _statements_before_batches(search: StateSearch, inner: ast.AST) -> Iterator[ast.stmt]:
    """Yield the simple statements of an epoch in front of its loop over batches."""
    own = search.source.statement(inner)
    for node in ast.walk(search.outer):
        if not isinstance(node, ast.stmt) or isinstance(node, COMPOUND):
            continue
        if node is not own and node.lineno < own.lineno and node not in search.outer.orelse:
            yield node


def _changed_names(search: StateSearch, statement: ast.stmt) -> set[str]:
    """Return what a simple statement changes step by step: counters, lists, schedulers."""
    names: set[str] = set()
    if isinstance(statement, ast.AugAssign):
        names.add(search.source.of(statement.target))
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        if isinstance(function, ast.Attribute) and function.attr in _CHANGING:
            names.add(search.source.of(function.value))
    return names
