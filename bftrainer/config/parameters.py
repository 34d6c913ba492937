"""Parameters of a trainer, and their placeholders in its command and environment. Pure.

``{lr}`` stands for the value of the parameter ``lr``, ``{name}`` for the trainer's name,
``{group}`` for its group. ``{{`` and ``}}`` are braces. A trainer without parameters is taken as it
is, braces and all.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from bftrainer.errors import InputFileError

PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
OWN = ("name", "group")
"""Placeholders that are not parameters."""
MOST_PARAMETERS = 64
MOST_CHARACTERS = 4096
"""The longest value of a parameter."""
_PIECE = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")


def problem_with(parameters: Mapping[str, str]) -> str:
    """Return what is wrong with the names and values of parameters; empty if nothing is."""
    if len(parameters) > MOST_PARAMETERS:
        return f"expected at most {MOST_PARAMETERS} parameters, got {len(parameters)}"
    for name, value in parameters.items():
        if not PARAMETER.fullmatch(name) or name in OWN:
            expected = (
                "expected letters, digits, dots, dashes and underscores, beginning with a letter"
            )
            return (
                f"{name!r:.100} cannot be the name of a parameter; {expected}, and not "
                "'name' or 'group'"
            )
        if len(value) > MOST_CHARACTERS:
            return f"{name}: has {len(value):,} characters, expected at most {MOST_CHARACTERS:,}"
    return ""


def as_text(value: object) -> object:
    """Return a number or a Boolean value as it is written in TOML and JSON; everything else as it
    is.
    """
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def filled(text: str, values: Mapping[str, str], where: str, used: set[str] | None = None) -> str:
    """Return a text with its placeholders replaced by values: ``{lr}`` -> the value of ``lr``,
    ``{{`` -> ``{``. The names that occur are added to ``used``. Raises :class:`InputFileError`,
    which names ``where``, for an unknown placeholder or a single brace.
    """

    def replacement(match: re.Match[str]) -> str:
        """Return the text for one placeholder, brace or pair of braces."""
        piece = match[0]
        if piece in ("{{", "}}"):
            return piece[0]
        name = piece[1:-1]
        if len(piece) == 1 or name not in values:
            raise InputFileError(where, _unknown_placeholder(piece, name, values))
        if used is not None:
            used.add(name)
        return values[name]

    return _PIECE.sub(replacement, text)


def _unknown_placeholder(piece: str, name: str, values: Mapping[str, str]) -> str:
    """Return the error for ``piece``, a single brace or the placeholder of an unknown ``name``."""
    if len(piece) == 1:
        return (
            f"has a single {piece}, expected a placeholder like {{{next(iter(values))}}}; "
            f"write {piece * 2} for a brace"
        )
    similar = difflib.get_close_matches(name[:100], values, n=1)
    hint = f", did you mean {{{similar[0]}}}?" if similar else ";"
    valid = ", ".join(f"{{{parameter}}}" for parameter in values)
    return f"unknown placeholder {piece:.100}{hint} valid: {valid}; write {{{{ and }}}} for braces"
