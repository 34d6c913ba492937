"""A script's text and syntax tree, and edits that leave the rest of the text as it is.

Edits are made around statements, not around lines: a line may have several statements
(``loss.backward(); optimizer.step()``), and the body of a loop may be on the line of its head.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterator
from typing import Any

from bftrainer.errors import UserError

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPOUND = (
    *Function,
    ast.ClassDef,
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.Match,
)


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
        self._newline = "\r\n" if b"\r\n" in self._bytes else "\n"
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._edits: list[tuple[int, int, int, str]] = []
        self.parents = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }

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

    def function(self, node: ast.AST) -> ast.AST | None:
        """The function that a node belongs to; None at the level of the module."""
        return next((parent for parent in self.above(node) if isinstance(parent, Function)), None)

    def free_name(self, name: str) -> str:
        """Return ``name`` if the script does not use it, else ``idle_name`` for the same object."""
        used: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name):
                used.add(node.id)
            elif isinstance(node, ast.arg):
                used.add(node.arg)
            elif isinstance(node, (*Function, ast.ClassDef)):
                used.add(node.name)
            elif isinstance(node, ast.alias):
                used.add(node.asname or node.name)
        while name in used:
            name = f"idle_{name}"
        return name

    def calls(self, *names: str, within: ast.AST | None = None) -> list[ast.Call]:
        """The calls of functions or methods of these names, in the order of the text."""
        calls = (call for call in ast.walk(within or self.tree) if isinstance(call, ast.Call))
        return sorted(
            (call for call in calls if name_of(call.func) in names),
            key=lambda call: (call.lineno, call.col_offset),
        )

    def arguments(self, call: ast.Call, but: Collection[str] = ()) -> list[str]:
        """The arguments of a call but for some keywords, as text."""
        return [
            *map(self.of, call.args),
            *(self.of(keyword) for keyword in call.keywords if keyword.arg not in but),
        ]

    def replace(self, node: ast.AST, text: str) -> None:
        """Replace the text of a node."""
        self._edit(*self._span(node), text)

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
            indent = self._newline + self._indentation(old[0])
            last = self._newline + self._indentation(self.statement(call))
            self._edit(begin, end, f"({indent}{(',' + indent).join(arguments)},{last})")
        else:
            self._edit(begin, end, f"({', '.join(arguments)})")

    def before(self, statement: ast.stmt, *lines: str) -> None:
        """Insert simple statements before a statement.

        They get lines of their own if it begins its line; else they stand on that line: ``NEW;
        OLD``.
        """
        begin, start = self._span(statement)[0], self._starts[statement.lineno - 1]
        if self._bytes[start:begin].strip(b" \t\f"):
            self._edit(begin, begin, "".join(f"{line}; " for line in lines))
        else:
            self._insert_lines(start, statement, lines)

    def after(self, statement: ast.stmt, *lines: str) -> None:
        """Insert simple statements after a statement.

        They get lines of their own if no other statement follows on its line; else they stand on
        that line: ``OLD; NEW``.
        """
        end, next_line = self._span(statement)[1], self._starts[statement.end_lineno or 0]
        rest = self._bytes[end:next_line].partition(b"#")[0].strip()
        is_compound = isinstance(statement, _COMPOUND)
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
        first = next(body[0] for body in _bodies(parent) if statement in body)
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
        text = "".join(f"{indentation}{line}{self._newline}" for line in lines)
        if at and self._bytes[at - 1 : at] not in (
            b"\n",
            b"\r",
        ):
            # The last line of the script has no line end.
            text = self._newline + text.removesuffix(self._newline)
        self._edit(at, at, text)

    def _edit(self, begin: int, end: int, text: str) -> None:
        self._edits.append((begin, end, -len(self._edits), text))

    def _span(self, node: Any) -> tuple[int, int]:
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[
            node.end_lineno - 1
        ] + node.end_col_offset


def name_of(node: ast.AST) -> str:
    """The last name of an expression, as ``c`` of ``a.b.c``; empty for what is no name."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a compound statement, or of a branch of one."""
    for name in ("body", "orelse", "finalbody"):
        if isinstance(body := getattr(node, name, None), list) and body:
            yield body
