"""What the user has to check: values on which workers must agree, reads after the loop."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from bftrainer.console.client.adapt.project import CallSite
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
    """Find reads, behind the outer loop or behind the call of its method, of attributes that only
    its passes set.
    """
    function = search.scope.function
    if search.around is None or function is None:
        return
    lost = _attributes_set_by_passes(search, function)
    lost -= {*search.state.values, *search.state.keep.values(), *search.own}
    for site in search.project.callers(search.module, function):
        if isinstance(site.call.func, ast.Attribute):
            _note_reads_after_call(search, site, site.call.func.value, lost)
    end = search.outer.end_lineno or search.outer.lineno
    for node in ast.walk(function):
        if not is_read(node) or node.lineno <= end:
            continue
        if (name := search.source.of(node)) in lost:
            search.state.attribute_reads.setdefault(name, f"line {node.lineno}")


def _attributes_set_by_passes(search: StateSearch, function: Function) -> set[str]:
    """Return the attributes that the outer loop sets, directly or by a method that it calls."""
    source = search.source
    nodes = list(ast.walk(search.outer))
    owner = source.enclosing_class(function)
    called = {name_of(node.func) for node in nodes if isinstance(node, ast.Call)}
    for method in owner.body if owner is not None else []:
        if isinstance(method, Function) and method.name in called:
            nodes += ast.walk(method)
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    return {source.of(node) for node in attributes if is_stored(node)}


def _note_reads_after_call(
    search: StateSearch, site: CallSite, owner: ast.expr, lost: set[str]
) -> None:
    """Record reads of lost attributes of an object behind the call of its method."""
    source = site.module.source
    where = "" if site.module is search.module else f"{site.module.path.name}, "
    area: ast.AST = source.function(site.call) or source.tree
    for node in ast.walk(area):
        is_after = isinstance(node, ast.Attribute) and node.lineno > site.call.lineno
        if not is_after or not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Store):
            continue
        if source.of(node.value) == source.of(owner) and f"self.{node.attr}" in lost:
            place = f"{where}line {node.lineno}"
            search.state.attribute_reads.setdefault(source.of(node), place)


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
