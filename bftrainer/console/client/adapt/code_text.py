"""Pieces of Python source: tuples, calls and lambdas, with long ones on several lines."""

from __future__ import annotations

import ast

LINE_LENGTH = 76
"""Characters of arguments from which on they are put on lines of their own."""


def tuple_text(names: list[str]) -> str:
    """Return names as the target of an assignment of a tuple."""
    if len(names) == 1:
        return f"({names[0]},)"
    text = ", ".join(names)
    return text if len(text) < LINE_LENGTH else f"({broken_lines(names)})"


def getter_text(names: list[str]) -> str:
    """Return a function without arguments that returns the present values by name."""
    pairs = [f'"{name}": {name}' for name in names]
    text = ", ".join(pairs)
    return f"lambda: {{{text if len(text) < LINE_LENGTH else broken_lines(pairs)}}}"


def broken_lines(items: list[str], depth: int = 1) -> str:
    """Return items of brackets on lines of their own, in brackets of the given depth."""
    begin = "\n" + "    " * depth
    return begin + f",{begin}".join(items) + f",\n{'    ' * (depth - 1)}"


def call_text(function: str, arguments: list[str]) -> str:
    """Return a call, its arguments on lines of their own if they are long."""
    text = ", ".join(arguments)
    return f"{function}({text if len(text) < LINE_LENGTH else broken_lines(arguments)})"


def is_whole_number(node: ast.AST) -> bool:
    """Whether an expression is a literal whole number, with or without a sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int)
