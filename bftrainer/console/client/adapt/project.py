"""A script and the modules beside it that it imports, and which call runs which function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bftrainer.config.script import text_of
from bftrainer.console.client.adapt.source import (
    Binding,
    Definition,
    Function,
    ScriptSource,
    keyword_values,
    name_of,
)

MARK = "\ufeff"
"""The byte order mark, with which editors of Windows begin a file."""
_MAX_MODULES = 200
_MAX_REEXPORTS = 5
_MAX_DEPTH = 6
"""Assignments, calls and returns that are followed from a name to what made its object."""


class ScriptModule:
    """One file of a project: its path, its text, and what its names are imported from."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.source = ScriptSource(text.removeprefix(MARK))
        self.imports: dict[str, tuple[ScriptModule, str]] = {}
        """By name: the module it comes from, and its name there; "" for the module itself."""

    def definition(self, name: str, depth: int = 0) -> tuple[ScriptModule, Definition] | None:
        """Return the function or class that a name stands for, and its module; None if it is not
        the project's.
        """
        for node in self.source.nodes:
            if isinstance(node, Definition) and node.name == name:
                return self, node
        if name in self.imports and depth < _MAX_REEXPORTS:
            module, original = self.imports[name]
            return module.definition(original, depth + 1) if original else None
        return None


class CallSite(NamedTuple):
    """A call of one of the project's functions, and the module that has it."""

    module: ScriptModule
    call: ast.Call


class Scope(NamedTuple):
    """A function of a module; None is the level of the module."""

    module: ScriptModule
    function: Function | None


class ObjectOrigin(NamedTuple):
    """An expression that makes an object; with a number, the object is that part of its value."""

    module: ScriptModule
    value: ast.expr
    part: int | None


class Project:
    """A script and the local modules that it imports, directly or not.

    Raises SyntaxError or ValueError for a script that is not Python; a module that is not is left
    out.
    """

    def __init__(self, path: Path, text: str) -> None:
        self._root = path.resolve().parent
        self.main = ScriptModule(path, text)
        self.modules = [self.main]
        self._by_path = {path.resolve(): self.main}
        self._callers: dict[Function, list[CallSite]] = {}
        self._resolving: set[tuple[ScriptModule, str]] = set()
        for module in self.modules:  # grows while it is read
            self._read_imports(module)

    def callers(self, module: ScriptModule, function: Function) -> list[CallSite]:
        """Return the calls of a function, but for those within it."""
        if function in self._callers:
            return self._callers[function]
        sites: list[CallSite] = []
        for other in self.modules:
            for call in other.source.calls_of_any():
                if function in other.source.above(call):
                    continue
                if self._calls_function(other, call, module, function):
                    sites.append(CallSite(other, call))
        if not self._resolving:
            self._callers[function] = sites
        return sites

    def class_of(self, module: ScriptModule, node: ast.AST) -> ast.ClassDef | None:
        """Return the class of a method; None for another function."""
        parent = module.source.parents.get(node)
        return parent if isinstance(parent, ast.ClassDef) else None

    def class_of_self(self, scope: Scope) -> tuple[ScriptModule, ast.ClassDef] | None:
        """Return the class of the object whose method a function is: a subclass, where the method
        is called on an object of one. None for a function outside of classes.
        """
        module, function = scope
        if function is None:
            return None
        owner = module.source.enclosing_class(function)
        if owner is None:
            return None
        for site in self.callers(module, function):
            if not isinstance(site.call.func, ast.Attribute):
                continue
            value = site.call.func.value
            place = Scope(site.module, site.module.source.function(site.call))
            values = [ObjectOrigin(site.module, value, None)]
            values += self.origins(place, site.module.source.of(value))
            for origin in values:
                made = self.made_class(origin.module, origin.value)
                if made is not None and owner in self.lineage(*made):
                    return made
        return module, owner

    def made_class(
        self, module: ScriptModule, value: ast.AST
    ) -> tuple[ScriptModule, ast.ClassDef] | None:
        """Return the project's class that an expression such as ``Trainer(...)`` makes an object
        of.
        """
        if not isinstance(value, ast.Call):
            return None
        target = self.target(module, value.func)
        if target is None or not isinstance(target[1], ast.ClassDef):
            return None
        return target[0], target[1]

    def target(
        self, module: ScriptModule, function: ast.expr
    ) -> tuple[ScriptModule, Definition] | None:
        """Return what a name or ``module.name`` stands for in the project."""
        if isinstance(function, ast.Name):
            return module.definition(function.id)
        if isinstance(function, ast.Attribute):
            name = module.source.of(function.value)
            imported = module.imports.get(name)
            if imported is not None and not imported[1]:
                return imported[0].definition(function.attr)
        return None

    def lineage(self, module: ScriptModule, node: ast.ClassDef) -> list[ast.ClassDef]:
        """Return a class and its bases within the project."""
        classes, waiting = [node], [(module, node)]
        while waiting:
            place, current = waiting.pop()
            for base in current.bases:
                target = self.target(place, base)
                owner = None if target is None else target[1]
                if target is not None and isinstance(owner, ast.ClassDef) and owner not in classes:
                    classes.append(owner)
                    waiting.append((target[0], owner))
        return classes

    def origins(self, scope: Scope, text: str, depth: int = 0) -> list[ObjectOrigin]:
        """Return the expressions that made the object a name or an attribute stands for.

        Assignments, parameters and functions that return the object are followed.
        """
        module, function = scope
        if depth > _MAX_DEPTH:
            return []
        origins: list[ObjectOrigin] = []
        for bound in module.source.bound_values(text):
            place = module.source.function(bound.value)
            if "." in text or place is function or place is None:
                origins += self._expressions_behind(Scope(module, place), bound, depth)
        root, dot, rest = text.partition(".")
        if function is not None and root in parameters(function):
            for site in self.callers(module, function):
                passed = passed_values(function, site.call).get(root)
                if passed is None or passed not in site.module.source.parents:
                    continue
                outer = Scope(site.module, site.module.source.function(site.call))
                if rest:
                    name = f"{site.module.source.of(passed)}{dot}{rest}"
                    origins += self.origins(outer, name, depth + 1)
                else:
                    origins += self._expressions_behind(outer, Binding(passed, None), depth)
        elif not origins and text in module.imports:
            other, original = module.imports[text]
            origins += self.origins(Scope(other, None), original, depth + 1) if original else []
        return origins

    def _expressions_behind(self, scope: Scope, bound: Binding, depth: int) -> list[ObjectOrigin]:
        """Return the expressions behind one that a name is bound to."""
        value, part = bound
        source = scope.module.source
        if isinstance(value, ast.IfExp):
            branches = (value.body, value.orelse)
            return [
                origin
                for branch in branches
                for origin in self._expressions_behind(scope, Binding(branch, part), depth + 1)
            ]
        if isinstance(value, ast.Name | ast.Attribute):
            return self.origins(scope, source.of(value), depth + 1)
        keyword = _keyword_read(scope.function, value)
        if keyword and depth <= _MAX_DEPTH:
            return self._keyword_origins(scope, keyword, depth)
        target = self.target(scope.module, value.func) if isinstance(value, ast.Call) else None
        function = None if target is None else target[1]
        if target is None or not isinstance(function, Function):
            return [ObjectOrigin(scope.module, value, part)]
        module = target[0]
        origins: list[ObjectOrigin] = []
        for node in ast.walk(function):
            if not isinstance(node, ast.Return) or node.value is None:
                continue
            returned = node.value
            if part is not None and isinstance(returned, ast.Tuple) and part < len(returned.elts):
                returned = returned.elts[part]
            inner = Scope(module, function)
            origins += self._expressions_behind(inner, Binding(returned, None), depth + 1)
        return origins

    def _keyword_origins(self, scope: Scope, keyword: str, depth: int) -> list[ObjectOrigin]:
        """Return the expressions behind ``kwargs["name"]``: what the calls pass by that name."""
        module, function = scope
        assert function is not None
        origins: list[ObjectOrigin] = []
        for site in self.callers(module, function):
            outer = Scope(site.module, site.module.source.function(site.call))
            for passed in site.call.keywords:
                if passed.arg == keyword:
                    bound = Binding(passed.value, None)
                    origins += self._expressions_behind(outer, bound, depth + 1)
        return origins

    def _calls_function(
        self, place: ScriptModule, call: ast.Call, module: ScriptModule, function: Function
    ) -> bool:
        """Whether a call in the module ``place`` runs ``function`` of ``module``."""
        owner = self.class_of(module, function)
        if owner is None:
            target = self.target(place, call.func)
            return target is not None and target[1] is function
        if function.name == "__init__":
            made = self.made_class(place, call)
            return made is not None and made[1] is owner
        if function.name == "__call__":
            return self._is_object_of(place, call.func, owner)
        if not isinstance(call.func, ast.Attribute) or call.func.attr != function.name:
            return False
        around = place.source.enclosing_class(call)
        value = call.func.value
        if isinstance(value, ast.Name) and value.id == "self" and around is not None:
            return owner in self.lineage(place, around) or around in self.lineage(module, owner)
        is_super = isinstance(value, ast.Call) and name_of(value.func) == "super"
        if is_super:
            return False
        return self._is_object_of(place, value, owner) or self._classes_with(function.name) == 1

    def _is_object_of(self, place: ScriptModule, value: ast.expr, owner: ast.ClassDef) -> bool:
        """Whether a name is bound to an object of a class, or of one that has it as a base."""
        text = place.source.of(value)
        for bound in place.source.bound_values(text):
            made = self.made_class(place, bound.value)
            if made is not None and owner in self.lineage(*made):
                return True
        made = self.made_class(place, value)
        if made is not None:
            return owner in self.lineage(*made)
        key = (place, text)
        if key in self._resolving:
            return False
        self._resolving.add(key)
        try:
            origins = self.origins(Scope(place, place.source.function(value)), text)
        finally:
            self._resolving.remove(key)
        objects = [self.made_class(origin.module, origin.value) for origin in origins]
        return any(owner in self.lineage(*made_by) for made_by in objects if made_by is not None)

    def _classes_with(self, method: str) -> int:
        """Count the project's classes that define a method."""
        count = 0
        for module in self.modules:
            for node in module.source.nodes:
                if isinstance(node, ast.ClassDef):
                    count += method in method_names([node])
        return count

    def _read_imports(self, module: ScriptModule) -> None:
        """Load the local modules that a module imports, and note its imported names."""
        for node in module.source.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    imported = self._local_module(self._root, alias.name)
                    if imported is not None:
                        module.imports[alias.asname or alias.name] = (imported, "")
            elif isinstance(node, ast.ImportFrom):
                self._read_import_from(module, node)

    def _read_import_from(self, module: ScriptModule, node: ast.ImportFrom) -> None:
        """Record the names of ``from package import names``."""
        base = self._root
        if node.level:
            base = module.path.resolve().parent
            for _ in range(node.level - 1):
                base = base.parent
        package = self._local_module(base, node.module) if node.module else None
        for alias in node.names:
            full = f"{node.module}.{alias.name}" if node.module else alias.name
            inner = self._local_module(base, full) if alias.name != "*" else None
            if inner is not None:
                module.imports[alias.asname or alias.name] = (inner, "")
            elif package is not None and alias.name == "*":
                for name in package.source.top_level_names():
                    module.imports.setdefault(name, (package, name))
            elif package is not None:
                module.imports[alias.asname or alias.name] = (package, alias.name)

    def _local_module(self, base: Path, name: str) -> ScriptModule | None:
        """Return the local module of a dotted name; None if there is no such file."""
        stem = base.joinpath(*name.split("."))
        for path in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
            if not path.is_file():
                continue
            path = path.resolve()
            if path in self._by_path:
                return self._by_path[path]
            text = text_of(path)
            if text is None or len(self.modules) >= _MAX_MODULES:
                return None
            try:
                module = ScriptModule(path, text)
            except (SyntaxError, ValueError):
                return None
            self._by_path[path] = module
            self.modules.append(module)
            return module
        return None


def _keyword_read(function: Function | None, value: ast.expr) -> str:
    """Return the name in ``kwargs["name"]`` or ``kwargs.get("name")``; empty for what does not read
    the ``**kwargs`` of its function.
    """
    if function is None or function.args.kwarg is None:
        return ""
    key: ast.expr | None = None
    if isinstance(value, ast.Subscript):
        owner, key = value.value, value.slice
    elif isinstance(value, ast.Call) and name_of(value.func) in ("get", "pop") and value.args:
        owner, key = getattr(value.func, "value", value), value.args[0]
    else:
        return ""
    is_own = isinstance(owner, ast.Name) and owner.id == function.args.kwarg.arg
    is_text = isinstance(key, ast.Constant) and isinstance(key.value, str)
    return str(key.value) if is_own and is_text and isinstance(key, ast.Constant) else ""


def method_names(classes: Iterable[ast.ClassDef]) -> set[str]:
    """Return the names of the methods that classes define."""
    return {part.name for owner in classes for part in owner.body if isinstance(part, Function)}


def base_names(classes: Iterable[ast.ClassDef]) -> set[str]:
    """Return the names of the bases of classes, without what they are imported from."""
    return {name_of(base) for owner in classes for base in owner.bases}


def passed_values(function: Function, call: ast.Call) -> dict[str, ast.expr]:
    """Return the expression that a call passes for each parameter of the function, ``self`` and
    defaults included.
    """
    arguments = function.args
    names = [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args)]
    defaults = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
    values: dict[str, ast.expr] = {}
    has_self = names[:1] == ["self"]
    if isinstance(call.func, ast.Attribute) and function.name != "__init__" and has_self:
        values["self"] = call.func.value
        del names[0]
    elif has_self:
        values = {} if function.name == "__init__" else {"self": call.func}
        del names[0]
    given = dict(zip(names, call.args, strict=False))
    return {**defaults, **values, **given, **keyword_values(call)}


def is_for_evaluation(source: ScriptSource, function: Function, call: ast.Call) -> bool:
    """Whether a call of a function that trains or evaluates asks for an evaluation."""
    for name, value in passed_values(function, call).items():
        is_off = isinstance(value, ast.Constant) and not value.value
        if is_off and re.search(r"opt|train|backward|grad", name, re.IGNORECASE):
            return True
        text = source.of(value) if value in source.parents else ""
        is_train = isinstance(value, ast.Constant) and value.value is True
        if is_train and re.search(r"eval|test|valid", name, re.IGNORECASE):
            return True
        text = text if re.search(r"load|data|_dl|split|phase|mode", f"{name}{text}", re.I) else ""
        if re.search(r"(^|_|\b|['\"])(val|valid|validation|test|eval|dev)(_|\b|l|d|$)", text):
            return True
    return False


def parameters(function: Function) -> set[str]:
    """Return the names of a function's parameters."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {parameter.arg for parameter in named}
