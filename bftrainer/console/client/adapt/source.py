"""A script's text and syntax tree, and edits that leave the rest of the text as it is.

Edits are made around statements, not around lines: a line may have several statements
(``loss.backward(); optimizer.step()``), and the body of a loop may be on the line of its head.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any, NamedTuple, TypeGuard

from bftrainer.errors import UserError

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
COMPOUND = (
    Definition
    | ast.If
    | ast.For
    | ast.AsyncFor
    | ast.While
    | ast.With
    | ast.AsyncWith
    | ast.Try
    | ast.Match
)


class Binding(NamedTuple):
    """An expression that a name is bound to; with a number, the name is bound to that part of its
    value.
    """

    value: ast.expr
    part: int | None


class ScriptSource:
    """The text and the syntax tree of a script, and edits of it.

    Edits are collected, and made by :meth:`text`; ``notes`` is what is left to the user. Raises
    SyntaxError for a text that is not Python.
    """

    def __init__(self, text: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the script: a \d outside a raw string
            self.tree = ast.parse(text)
        self.before_edits, self.notes = text, list[str]()
        self.shown = ""
        """The name that the new object has in the script."""
        self._bytes, self._starts = text.encode(), [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._edits: list[tuple[int, int, int, str]] = []
        self.nodes = list(ast.walk(self.tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    def of(self, node: Any) -> str:
        """The text of a node."""
        begin, end = self._span(node)
        return self._bytes[begin:end].decode()

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that contain a node, the innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node belongs to."""
        return next(
            candidate for candidate in (node, *self.above(node)) if isinstance(candidate, ast.stmt)
        )

    def function(self, node: ast.AST) -> Function | None:
        """The function that a node belongs to; None at the level of the module."""
        return next((parent for parent in self.above(node) if isinstance(parent, Function)), None)

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class that a node is in the text of; None outside of classes."""
        parents = self.above(node)
        return next((parent for parent in parents if isinstance(parent, ast.ClassDef)), None)

    def free_name(self, name: str) -> str:
        """Return ``name`` if the script does not use it, else ``idle_name`` for the same object."""
        while name in self._used_names:
            name = f"idle_{name}"
        return name

    @cached_property
    def _used_names(self) -> frozenset[str]:
        """All names that the script binds or reads, in any scope."""
        used: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Name):
                used.add(node.id)
            elif isinstance(node, ast.arg):
                used.add(node.arg)
            elif isinstance(node, Definition):
                used.add(node.name)
            elif isinstance(node, ast.alias):
                used.add(node.asname or node.name.partition(".")[0])
            elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
                used.add(node.name)
        return frozenset(used)

    def top_level_names(self) -> set[str]:
        """The functions and classes of the module, for ``from module import *``."""
        return {node.name for node in self.tree.body if isinstance(node, Definition)}

    def top_level_variables(self) -> set[str]:
        """The names that the module binds by assignments outside of functions."""
        names: set[str] = set()
        for node in self.nodes:
            if is_stored(node) and "." not in self.of(node) and self.function(node) is None:
                names.add(self.of(node))
        return names

    @cached_property
    def _bindings(self) -> dict[str, list[Binding]]:
        """What each name or attribute is bound to, in the order of the text."""
        bindings: dict[str, list[Binding]] = {}
        for node in self.nodes:
            pairs: list[tuple[ast.AST, ast.expr]] = []
            if isinstance(node, ast.Assign):
                pairs = [(target, node.value) for target in node.targets]
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                pairs = [(node.target, node.value)]
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                pairs = [(node.optional_vars, node.context_expr)]
            for target, value in pairs:
                self._note_binding(bindings, target, Binding(value, None))
        for values in bindings.values():
            values.sort(key=lambda binding: (binding.value.lineno, binding.value.col_offset))
        return bindings

    def _note_binding(
        self, bindings: dict[str, list[Binding]], target: ast.AST, bound: Binding
    ) -> None:
        """Record what a target is bound to; of a tuple of targets, each by itself."""
        if not isinstance(target, ast.Tuple | ast.List):
            bindings.setdefault(self.of(target), []).append(bound)
            return
        value = bound.value
        values: list[ast.expr] = []
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            values = value.elts
        for number, element in enumerate(target.elts):
            part = Binding(values[number], None) if values else Binding(value, number)
            self._note_binding(bindings, element, part)

    def bound_values(self, text: str) -> list[Binding]:
        """What a name or an attribute is bound to in the script, in the order of the text."""
        return self._bindings.get(text, [])

    def calls_of_any(self) -> list[ast.Call]:
        """All calls, in no order."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    def calls(self, *names: str, within: ast.AST | None = None) -> list[ast.Call]:
        """The calls of functions or methods of these names, in the order of the text."""
        nodes = self.nodes if within is None else ast.walk(within)
        calls = (call for call in nodes if isinstance(call, ast.Call))
        return sorted(
            (call for call in calls if name_of(call.func) in names),
            key=lambda call: (call.lineno, call.col_offset),
        )

    def line_end(self, line: int) -> str:
        """The characters that end a line of the script; those of the first line, if it has none."""
        for number in (line, 1):
            text = self._bytes[self._starts[number - 1] : self._starts[number]]
            if text.endswith((b"\n", b"\r")):
                return "\r\n" if text.endswith(b"\r\n") else text[-1:].decode()
        return "\n"

    def arguments(self, call: ast.Call, but: Collection[str] = ()) -> list[str]:
        """The arguments of a call but for some keywords, as text."""
        return [
            *map(self.of, call.args),
            *(self.of(keyword) for keyword in call.keywords if keyword.arg not in but),
        ]

    def replace(self, node: ast.AST, text: str) -> None:
        """Replace the text of a node."""
        self._edit(*self._span(node), text)

    def insert_before(self, node: ast.AST, text: str) -> None:
        """Insert text in front of a node, on its line."""
        begin = self._span(node)[0]
        self._edit(begin, begin, text)

    def insert_after(self, node: ast.AST, text: str) -> None:
        """Insert text behind a node, on its line."""
        end = self._span(node)[1]
        self._edit(end, end, text)

    def add_imports(self, lines: list[str]) -> None:
        """Insert imports behind those at the top of the module, or behind its docstring."""
        place: ast.stmt | None = None
        for statement in self.tree.body:
            is_import = isinstance(statement, ast.Import | ast.ImportFrom)
            if is_import or (place is None and _is_docstring(statement)):
                place = statement
            elif place is not None and isinstance(statement, Definition | ast.For | ast.While):
                break
        if place is not None:
            self.after(place, *lines)
        else:
            self.before(self.tree.body[0], *lines)

    def begins_line(self, node: ast.AST) -> bool:
        """Whether only blanks are in front of a node on its line."""
        begin, _ = self._span(node)
        line = getattr(node, "lineno", 1)
        return not self._bytes[self._starts[line - 1] : begin].strip(b" \t\f")

    @property
    def is_edited(self) -> bool:
        """Whether an edit was made."""
        return bool(self._edits)

    def head(self, loop: ast.While, text: str, *parts: ast.expr) -> None:
        """Replace the first line of a loop, with the text of ``parts`` for {}."""
        self._edit(
            self._span(loop)[0],
            self._bytes.index(b":", self._span(loop.test)[1]),
            text.format(*map(self.of, parts)),
        )

    def set_arguments(self, call: ast.Call, arguments: list[str]) -> None:
        """Replace the arguments of a call. If they stood on lines of their own, the new ones do as
        well.
        """
        begin, end, old = (
            self._span(call.func)[1],
            self._span(call)[1],
            list[Any]([*call.args, *call.keywords]),
        )
        if old and old[0].lineno != call.func.lineno:
            indent = self.line_end(call.lineno) + self._indentation(old[0])
            last = self.line_end(call.lineno) + self._indentation(self.statement(call))
            self._edit(begin, end, f"({indent}{(',' + indent).join(arguments)},{last})")
        else:
            self._edit(begin, end, f"({', '.join(arguments)})")

    def before(self, statement: ast.stmt, *lines: str) -> None:
        """Insert simple statements before a statement; a line end in one of them is kept if there
        is room for it.

        They get lines of their own if it begins its line; else they stand on that line: ``NEW;
        OLD``.
        """
        begin, start = self._span(statement)[0], self._starts[statement.lineno - 1]
        if self._bytes[start:begin].strip(b" \t\f"):
            joined = [re.sub(r"\n *", "", line) for line in lines]
            self._edit(begin, begin, "".join(f"{line}; " for line in joined))
        else:
            self._insert_lines(start, statement, lines)

    def after(self, statement: ast.stmt, *lines: str) -> None:
        """Insert simple statements after a statement.

        They get lines of their own if no other statement follows on its line; else they stand on
        that line: ``OLD; NEW``.
        """
        end, next_line = self._span(statement)[1], self._starts[statement.end_lineno or 0]
        rest = self._bytes[end:next_line].partition(b"#")[0].strip()
        is_compound = isinstance(statement, COMPOUND)
        if not is_compound and (rest.strip(b"; \t") or self._is_on_line_of_head(statement)):
            self._edit(end, end, "".join(f"; {line}" for line in lines))
        else:
            self._insert_lines(next_line, statement, lines)

    def text(self) -> str:
        """The edited text."""
        data = self._bytes
        for begin, end, _, new in sorted(self._edits, reverse=True):
            data = data[:begin] + new.encode() + data[end:]
        return data.decode()

    def missing(self, node: Any, what: str, page: str) -> UserError:
        """Build the error for what is not found at a node, or (None) in the script."""
        line = "" if node is None else f"line {node.lineno}: "
        return UserError(f"{line}{what}; copy the lines of docs/{page}")

    def _is_on_line_of_head(self, statement: ast.stmt) -> bool:
        """Whether a statement is in a body that follows the colon on the same line: ``for x in
        data: step(x)``.
        """
        parent = self.parents[statement]
        if isinstance(parent, ast.Module):
            return False
        start = self._starts[statement.lineno - 1]
        in_front = self._bytes[start : self._span(statement)[0]]
        first = next(body[0] for body in _statement_lists(parent) if statement in body)
        if first.lineno == statement.lineno:
            in_front = self._bytes[start : self._span(first)[0]]
        return bool(in_front.strip())

    def _indentation(self, node: Any) -> str:
        """The blanks at the beginning of a node's line, as they are: tabs stay tabs."""
        line = self._bytes[self._starts[node.lineno - 1] : self._starts[node.lineno]].decode()
        return line[: len(line) - len(line.lstrip(" \t\f"))]

    def _insert_lines(self, at: int, statement: ast.stmt, lines: tuple[str, ...]) -> None:
        """Insert lines at an offset, indented like ``statement``."""
        indentation = self._indentation(statement)
        newline = self.line_end(statement.lineno)
        step = "\t" if indentation.startswith("\t") else "    "
        broken = [
            line.replace("\n    ", f"\n{step}").replace("\n", f"{newline}{indentation}")
            for line in lines
        ]
        text = "".join(f"{indentation}{line}{newline}" for line in broken)
        if at and self._bytes[at - 1 : at] not in (
            b"\n",
            b"\r",
        ):
            # The last line of the script has no line end.
            text = newline + text.removesuffix(newline)
        self._edit(at, at, text)

    def _edit(self, begin: int, end: int, text: str) -> None:
        self._edits.append((begin, end, -len(self._edits), text))

    def _span(self, node: Any) -> tuple[int, int]:
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[
            node.end_lineno - 1
        ] + node.end_col_offset


def is_stored(node: ast.AST) -> TypeGuard[ast.Name | ast.Attribute]:
    """Whether a node is a name or an attribute that is assigned."""
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)


def is_read(node: ast.AST) -> TypeGuard[ast.Name | ast.Attribute]:
    """Whether a node is a name or an attribute that is read."""
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)


def name_of(node: ast.AST) -> str:
    """The last name of an expression, as ``c`` of ``a.b.c``; empty for what is no name."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def keyword_values(call: ast.Call) -> dict[str, ast.expr]:
    """Return the keyword arguments of a call by name; ``**kwargs`` is left out."""
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a string."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _statement_lists(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a compound statement, or of a branch of one."""
    for name in ("body", "orelse", "finalbody"):
        if isinstance(body := getattr(node, name, None), list) and body:
            yield body
