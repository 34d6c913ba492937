"""The search for the state of a training loop: what all parts of the search know of the script."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from bftrainer.console.client.adapt.carried import flow_of
from bftrainer.console.client.adapt.kept_state import KeptState
from bftrainer.console.client.adapt.project import Project, ScriptModule, parameters
from bftrainer.console.client.adapt.script_values import target_names
from bftrainer.console.client.adapt.search import (
    LoopPlace,
    TrainingLoop,
)
from bftrainer.console.client.adapt.source import (
    Function,
    is_read,
    is_stored,
    name_of,
)


class StateSearch:
    """The script whose loop is searched, and what has been found so far.

    ``models`` and ``optimizers`` are names in the scope of the outer loop; ``own`` are both, which
    every checkpoint has. ``around`` is the class whose method has the outer loop, if there is one.
    ``inner_parts`` is the code that runs in each step, and ``state`` the result.
    """

    def __init__(
        self, project: Project, loop: TrainingLoop, models: Sequence[str], optimizers: Sequence[str]
    ) -> None:
        self.project, self.loop = project, loop
        self.module = loop.outer.module
        self.source = self.module.source
        self.outer = loop.outer.loop
        self.scope = loop.outer.scope
        self.own = {*models, *optimizers}
        self.optimizers = list(optimizers)
        self.state = KeptState()
        self.around = project.class_of_self(self.scope)
        self.inner_parts = self._code_of_step()

    def _code_of_step(self) -> list[tuple[ScriptModule, ast.AST]]:
        """Return the code that runs in each step: the body of the loop over batches, and the
        functions on the way from there to the step.
        """
        loop = self.loop
        parts: list[tuple[ScriptModule, ast.AST]] = [
            (loop.batches.module, statement) for statement in loop.batches.loop.body
        ]
        parts += [(hop.module, hop.function) for hop in loop.batches.hops]
        return parts

    def bound_before(self, place: LoopPlace) -> set[str]:
        """Return the names that the scope of a loop binds before the loop, parameters included."""
        source = place.module.source
        function = place.scope.function
        names = parameters(function) if function is not None else set()
        nodes = source.nodes if function is None else list(ast.walk(function))
        for node in nodes:
            is_near = is_stored(node) and source.function(node) is function
            if is_near and getattr(node, "lineno", 0) < place.loop.lineno:
                names.add(source.of(node))
            if isinstance(node, ast.Global):
                names.update(node.names)
        return names

    def surely_bound_before(self, place: LoopPlace) -> set[str]:
        """Return the names that the scope of a loop binds before the loop on every path."""
        source = place.module.source
        function = place.scope.function
        names = parameters(function) if function is not None else set()
        area: ast.AST = source.tree if function is None else function
        for node in ast.walk(area):
            if isinstance(node, ast.Global):
                names.update(node.names)
        child: ast.AST = place.loop
        for parent in source.above(place.loop):
            body = _list_with(parent, child)
            earlier = body[: body.index(child)] if isinstance(child, ast.stmt) and body else []
            names |= flow_of(source, earlier).definite
            if isinstance(parent, ast.For):
                names |= target_names(source, parent)
            if isinstance(parent, ast.With):
                names |= _with_names(parent)
            if parent is area:
                break
            child = parent
        return names

    def uses(self, name: str) -> bool:
        """Whether the outer loop names a variable, or a method of a class names its attribute."""
        if name.startswith("self.") and self.around is not None:
            classes = self.project.lineage(*self.around)
            reads = [node for part in classes for node in ast.walk(part) if is_read(node)]
            return any(ast.unparse(node) == name for node in reads)
        names = (node for node in ast.walk(self.outer) if is_read(node))
        return any(self.source.of(node) == name for node in names)

    def attributes_set(self, module: ScriptModule, node: ast.ClassDef) -> set[str]:
        """Return the attributes that the methods of a class and its bases set, as ``self.name``."""
        names: set[str] = set()
        for part in self.project.lineage(module, node):
            for child in ast.walk(part):
                if is_stored(child) and re.fullmatch(r"self\.\w+", ast.unparse(child)):
                    names.add(ast.unparse(child))
        return names

    def is_iterator(self, name: str) -> bool:
        """Whether a name is bound to an iterator over a loader."""
        if name == self.loop.iterator:
            return True
        makers = {
            name_of(bound.value.func)
            for bound in self.source.bound_values(name)
            if isinstance(bound.value, ast.Call)
        }
        return bool(makers & {"iter", "tqdm", "trange", "cycle", "SummaryWriter", "open"})

    def called_functions(self) -> list[tuple[ScriptModule, Function]]:
        """Return the functions that the outer loop calls, directly or not."""
        functions: list[tuple[ScriptModule, Function]] = []
        waiting: list[tuple[ScriptModule, ast.AST]] = [(self.module, self.outer)]
        while waiting and len(functions) < 200:
            module, node = waiting.pop()
            for call in ast.walk(node):
                if not isinstance(call, ast.Call):
                    continue
                target = self.project.target(module, call.func)
                if target is None or not isinstance(target[1], Function):
                    continue
                if (target[0], target[1]) not in functions:
                    functions.append((target[0], target[1]))
                    waiting.append(target)
        return functions


def _list_with(parent: ast.AST, child: ast.AST) -> list[ast.stmt]:
    """Return the list of statements of a compound statement that has a given one."""
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(parent, name, None)
        if isinstance(statements, list) and child in statements:
            return statements
    return []


def _with_names(statement: ast.With) -> set[str]:
    """Return the names that the head of a ``with`` binds."""
    targets = [item.optional_vars for item in statement.items if item.optional_vars is not None]
    return {
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    }
