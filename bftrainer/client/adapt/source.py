"""A script's text and syntax tree, and edits that leave the rest of the text as it is."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Any

from bftrainer.errors import UserError

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class ScriptSource:
    """Edits are collected, and made by :meth:`text`. ``notes`` is what is left to the user.

    Raises SyntaxError for a text that is not Python.
    """

    def __init__(self, text: str) -> None:
        self.tree, self.before_edits, self.notes = ast.parse(text), text, list[str]()
        self._bytes, self._starts = text.encode(), [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._edits: list[tuple[int, int, int, str]] = []
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def of(self, node: Any) -> str:
        """The text of a node."""
        begin, end = self._span(node)
        return self._bytes[begin:end].decode()

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that contain it, the innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node belongs to."""
        return next(it for it in (node, *self.above(node)) if isinstance(it, ast.stmt))

    def function(self, node: ast.AST) -> ast.AST | None:
        """The function that a node belongs to; None at the level of the module."""
        return next((it for it in self.above(node) if isinstance(it, Function)), None)

    def calls(self, *names: str, within: ast.AST | None = None) -> list[ast.Call]:
        """The calls of functions or methods of these names, in the order of the text."""
        found = (it for it in ast.walk(within or self.tree) if isinstance(it, ast.Call))
        return sorted((it for it in found if name_of(it.func) in names), key=lambda it: (it.lineno, it.col_offset))

    def arguments(self, call: ast.Call, but: Collection[str] = ()) -> list[str]:
        """The arguments of a call but for some keywords, as text."""
        return [*map(self.of, call.args), *(self.of(it) for it in call.keywords if it.arg not in but)]

    def replace(self, node: ast.AST, text: str) -> None:
        """Other text for a node."""
        self._edit(*self._span(node), text)

    def head(self, loop: ast.While, text: str, *parts: ast.expr) -> None:
        """Another first line for a loop, with the text of ``parts`` for {}."""
        self._edit(
            self._span(loop)[0], self._bytes.index(b":", self._span(loop.test)[1]), text.format(*map(self.of, parts))
        )

    def set_arguments(self, call: ast.Call, arguments: list[str]) -> None:
        """Other arguments; they keep their own lines if they had one argument a line."""
        begin, end, old = self._span(call.func)[1], self._span(call)[1], list[Any]([*call.args, *call.keywords])
        if old and old[0].lineno != call.func.lineno:
            indent, last = "\n" + " " * old[0].col_offset, "\n" + " " * self.statement(call).col_offset
            self._edit(begin, end, f"({indent}{(',' + indent).join(arguments)},{last})")
        else:
            self._edit(begin, end, f"({', '.join(arguments)})")

    def before(self, statement: ast.stmt, *lines: str) -> None:
        """New lines above a statement."""
        self._insert(self._starts[statement.lineno - 1], statement, lines)

    def after(self, statement: ast.stmt, *lines: str) -> None:
        """New lines below a statement."""
        self._insert(self._starts[statement.end_lineno or 0], statement, lines)

    def text(self) -> str:
        """The edited text."""
        data = self._bytes
        for begin, end, _, new in sorted(self._edits, reverse=True):
            data = data[:begin] + new.encode() + data[end:]
        return data.decode()

    def missing(self, node: Any, what: str, page: str) -> UserError:
        """The error for what is not found at a node, or (None) in the script."""
        line = "" if node is None else f"line {node.lineno}: "
        return UserError(f"{line}{what}; copy the lines of docs/{page}")

    def _insert(self, at: int, statement: ast.stmt, lines: tuple[str, ...]) -> None:
        self._edit(at, at, "".join(f"{' ' * statement.col_offset}{line}\n" for line in lines))

    def _edit(self, begin: int, end: int, text: str) -> None:
        self._edits.append((begin, end, -len(self._edits), text))

    def _span(self, node: Any) -> tuple[int, int]:
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset


def name_of(node: ast.AST) -> str:
    """``c`` of ``a.b.c``; empty for what is no name."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
