"""What the user has to check: values on which workers must agree, reads after the loop."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from bftrainer.console.client.adapt.script_values import target_names
from bftrainer.console.client.adapt.source import (
    Function,
    is_read,
    is_stored,
    name_of,
)
from bftrainer.console.client.adapt.state_search import StateSearch


def find_agreements(search: StateSearch) -> None:
    """Find what an epoch decides by a value, which workers may have computed differently."""
    targets = target_names(search.source, search.outer)
    schedulers = set(search.state.keep.values())
    for node in ast.walk(search.outer):
        if isinstance(node, ast.Break) and _innermost_loop(search, node) is search.outer:
            search.state.agreeing[node.lineno] = "break"
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        is_step = node.func.attr == "step" and search.source.of(node.func.value) in schedulers
        if is_step and node.args and search.source.of(node.args[0]) not in targets:
            search.state.agreeing[node.lineno] = search.source.of(node)


def _innermost_loop(search: StateSearch, node: ast.AST) -> ast.AST | None:
    """Return the innermost loop around a statement."""
    for parent in search.source.above(node):
        if isinstance(parent, ast.For | ast.While):
            return parent
    return None


def find_reads_after_loop(search: StateSearch) -> None:
    """Find reads after the outer loop of names that only its passes set: a start after the last
    step makes no pass.
    """
    end = search.outer.end_lineno or search.outer.lineno
    area = search.scope.function or search.source.tree
    own = [
        node
        for node in ast.walk(area)
        if isinstance(node, ast.Name) and search.source.function(node) is search.scope.function
    ]
    own.sort(key=lambda node: (node.lineno, node.col_offset))
    passes = {node.id for node in ast.walk(search.outer) if is_stored(node) and node in own}
    kept = {
        *search.state.values,
        *search.state.keep.values(),
        *search.state.attributes,
        *search.own,
    }
    stored = _stored_first_after(search, own, end)
    for node in own:
        is_lost = node.id in passes and node.id not in kept and node.id not in stored
        if is_lost and is_read(node) and node.lineno > end:
            search.state.read_after.setdefault(node.id, node.lineno)


def find_attribute_reads(search: StateSearch) -> None:
    """Find reads, by the code that runs the outer loop's method, of attributes that only its passes
    set.
    """
    if search.around is None or search.scope.function is None:
        return
    source = search.source
    nodes = [*ast.walk(search.outer)]
    owner = source.enclosing_class(search.scope.function)
    called = {name_of(node.func) for node in nodes if isinstance(node, ast.Call)}
    for method in owner.body if owner is not None else []:
        if isinstance(method, Function) and method.name in called:
            nodes += ast.walk(method)
    stored = {
        source.of(node) for node in nodes if is_stored(node) and isinstance(node, ast.Attribute)
    }
    lost = stored - set(search.state.values) - set(search.state.keep.values()) - search.own
    for site in search.project.callers(search.module, search.scope.function):
        if not isinstance(site.call.func, ast.Attribute):
            continue
        place = site.module.source
        shown = place.of(site.call.func.value)
        area: ast.AST = place.function(site.call) or place.tree
        for node in ast.walk(area):
            if not isinstance(node, ast.Attribute) or not is_read(node):
                continue
            is_lost = place.of(node.value) == shown and f"self.{node.attr}" in lost
            if is_lost and node.lineno > site.call.lineno:
                where = "" if site.module is search.module else f"{site.module.path.name}, "
                search.state.attribute_reads.setdefault(
                    place.of(node), f"{where}line {node.lineno}"
                )
    end = search.outer.end_lineno or search.outer.lineno
    for node in ast.walk(search.scope.function):
        is_after = isinstance(node, ast.Attribute) and is_read(node) and node.lineno > end
        if is_after and source.of(node) in lost:
            search.state.attribute_reads.setdefault(source.of(node), f"line {node.lineno}")


def _stored_first_after(search: StateSearch, names: Sequence[ast.Name], end: int) -> set[str]:
    """Return the names that a statement after line ``end`` sets before any reads them."""
    stored: set[str] = set()
    read: set[str] = set()
    for node in names:
        if node.lineno <= end:
            continue
        if is_read(node):
            read.add(node.id)
        elif node.id not in read:
            stored.add(node.id)
    return stored
