"""Variables whose values a loop carries from pass to pass, which a checkpoint has to keep."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bftrainer.console.client.adapt.source import Definition, ScriptSource

MUTATORS = frozenset(
    [
        "append",
        "extend",
        "add",
        "update",
        "insert",
        "pop",
        "popleft",
        "appendleft",
        "remove",
        "discard",
        "clear",
        "setdefault",
        "sort",
        "reverse",
        "subtract",
    ]
)
"""Methods that change a list, dict, set, deque or counter."""


@dataclass
class Flow:
    """What statements do with names and attributes such as ``best`` and ``self.best``.

    ``exposed``: read before an assignment that precedes on every path. ``definite``: assigned on
    every path. ``assigned``: the statements that assign, by name. ``mutated``: statements that
    change an object in place: its items, or by a method of containers.
    """

    exposed: set[str] = field(default_factory=set)
    definite: set[str] = field(default_factory=set)
    assigned: dict[str, list[ast.stmt]] = field(default_factory=dict)
    mutated: dict[str, list[ast.stmt]] = field(default_factory=dict)

    def changed_names(self) -> set[str]:
        """Return the names that are assigned or mutated."""
        return {*self.assigned, *self.mutated}

    def is_carried(self, name: str, is_read_later: bool) -> bool:
        """Whether a pass of the loop may need the value that an earlier pass gave to a name.

        ``is_read_later``: whether code after the loop reads the name.
        """
        if name in self.mutated and name not in self.definite:
            return True
        if name not in self.assigned:
            return False
        return name in self.exposed or (is_read_later and name not in self.definite)


def flow_of(source: ScriptSource, statements: Sequence[ast.stmt]) -> Flow:
    """Return what statements, run in their order, do with names."""
    return _Reader(source).block(statements)


class _Reader:
    """Reads statements in the order in which they run."""

    def __init__(self, source: ScriptSource) -> None:
        self.source = source

    def block(self, statements: Iterable[ast.stmt]) -> Flow:
        """Return the flow of statements that run one after the other."""
        flow = Flow()
        for statement in statements:
            self._append_flow(flow, self.statement(statement))
            if _leaves(statement):
                break
        return flow

    def statement(self, statement: ast.stmt) -> Flow:
        """Return the flow of one statement."""
        if isinstance(statement, ast.If):
            flow = self._head_flow(statement, [statement.test])
            self._add_branches(flow, [statement.body, statement.orelse])
            return flow
        if isinstance(statement, ast.For | ast.AsyncFor):
            flow = self._head_flow(statement, [statement.iter])
            body = self.block(statement.body)
            loop_names = {self.source.of(node) for node in _target_leaves(statement.target)}
            body.exposed -= loop_names
            for name in loop_names:
                body.assigned.pop(name, None)
            self._add_branches(flow, [[]], [body, self.block(statement.orelse)])
            return flow
        if isinstance(statement, ast.While):
            flow = self._head_flow(statement, [statement.test])
            self._add_branches(flow, [[]], [self.block(statement.body)])
            return flow
        if isinstance(statement, ast.With | ast.AsyncWith):
            flow = self._head_flow(statement, [item.context_expr for item in statement.items])
            targets = [item.optional_vars for item in statement.items if item.optional_vars]
            flow.definite |= {
                self.source.of(leaf) for node in targets for leaf in _target_leaves(node)
            }
            self._append_flow(flow, self.block(statement.body))
            return flow
        if isinstance(statement, ast.Try):
            flow = self.block(statement.body)
            handlers = [self.block(handler.body) for handler in statement.handlers]
            self._add_branches(flow, [[]], handlers)
            self._append_flow(flow, self.block([*statement.orelse, *statement.finalbody]))
            return flow
        if isinstance(statement, ast.Match):
            flow = self._head_flow(statement, [statement.subject])
            self._add_branches(flow, [case.body for case in statement.cases], [Flow()])
            return flow
        if isinstance(statement, Definition):
            flow = Flow(exposed=set(self._names_read(statement)))
            flow.definite.add(statement.name)
            return flow
        return self._simple_flow(statement)

    def _simple_flow(self, statement: ast.stmt) -> Flow:
        """Return the flow of a statement that contains no others."""
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = [leaf for target in statement.targets for leaf in _target_leaves(target)]
        elif isinstance(statement, ast.AugAssign) or (
            isinstance(statement, ast.AnnAssign) and statement.value is not None
        ):
            targets = [statement.target]
        flow = Flow(exposed=set(self._names_read(statement)))
        for node in ast.walk(statement):
            if isinstance(node, ast.NamedExpr):
                targets.append(node.target)
            function = node.func if isinstance(node, ast.Call) else None
            if isinstance(function, ast.Attribute) and function.attr in MUTATORS:
                self._note_mutation(flow.mutated, function.value, statement)
        for target in targets:
            if isinstance(target, ast.Name | ast.Attribute):
                name = self.source.of(target)
                flow.assigned.setdefault(name, []).append(statement)
                if isinstance(statement, ast.AugAssign):
                    flow.exposed.add(name)
                flow.definite.add(name)
            elif isinstance(target, ast.Subscript):
                self._note_mutation(flow.mutated, target.value, statement)
        return flow

    def _note_mutation(
        self, places: dict[str, list[ast.stmt]], node: ast.expr, place: ast.stmt
    ) -> None:
        """Record that a statement changes the object that a name stands for, or an item of it."""
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name | ast.Attribute):
            places.setdefault(self.source.of(node), []).append(place)

    def _head_flow(self, statement: ast.stmt, parts: list[ast.expr]) -> Flow:
        """Return the flow of the head of a compound statement."""
        flow = Flow()
        for part in parts:
            flow.exposed |= set(self._names_read(part))
            for node in ast.walk(part):
                if isinstance(node, ast.NamedExpr):
                    flow.assigned.setdefault(node.target.id, []).append(statement)
                    flow.definite.add(node.target.id)
        return flow

    def _names_read(self, node: ast.AST) -> list[str]:
        """Return the names and attributes that are read, the names of comprehensions left out."""
        own: set[str] = set()
        names: list[str] = []
        for child in ast.walk(node):
            if isinstance(child, ast.comprehension):
                own |= {self.source.of(leaf) for leaf in _target_leaves(child.target)}
            elif isinstance(child, ast.Name | ast.Attribute) and isinstance(child.ctx, ast.Load):
                names.append(self.source.of(child))
        return [name for name in names if name not in own]

    def _add_branches(
        self, flow: Flow, bodies: Sequence[Sequence[ast.stmt]], read: Iterable[Flow] = ()
    ) -> None:
        """Add branches of which one runs: only what all of them assign is definite."""
        flows = [*(self.block(body) for body in bodies), *read]
        going_on = [
            branch
            for branch, body in zip(flows, [*bodies, *[[]] * len(flows)], strict=False)
            if not (body and _leaves(body[-1]))
        ]
        before = set(flow.definite)
        shared = set.intersection(*(branch.definite for branch in going_on or flows))
        for branch in flows:
            flow.exposed |= branch.exposed - before
            _add_changes(flow, branch)
        flow.definite = before | shared

    def _append_flow(self, flow: Flow, later: Flow) -> None:
        """Add what runs after the statements of ``flow``."""
        flow.exposed |= later.exposed - flow.definite
        flow.definite |= later.definite
        _add_changes(flow, later)


def _leaves(statement: ast.stmt) -> bool:
    """Whether nothing runs after a statement: it is a jump, or a call such as ``sys.exit()``."""
    if isinstance(statement, ast.Continue | ast.Break | ast.Return | ast.Raise):
        return True
    is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    if not is_call:
        return False
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return ast.unparse(statement.value.func) in ("sys.exit", "exit", "quit", "os._exit")


def _add_changes(flow: Flow, other: Flow) -> None:
    """Add the assignments and mutations of another flow."""
    for name, places in other.assigned.items():
        flow.assigned.setdefault(name, []).extend(places)
    for name, places in other.mutated.items():
        flow.mutated.setdefault(name, []).extend(places)


def _target_leaves(target: ast.expr) -> list[ast.expr]:
    """Return the parts of a target such as ``a, (b, *c)``."""
    if isinstance(target, ast.Tuple | ast.List):
        return [leaf for element in target.elts for leaf in _target_leaves(element)]
    return [target.value if isinstance(target, ast.Starred) else target]
