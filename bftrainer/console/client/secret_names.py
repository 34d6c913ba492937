"""Secrets that are written out in a trainer file, found by the names of variables and options.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_LAST_WORD = r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS|(?:API)?KEY"
# The last word of the name: HF_TOKEN, AWS_SECRET_ACCESS_KEY, WANDB_API_KEY, but not TOKENIZER or
# KEYBOARD.
_ASSIGNMENT = re.compile(
    rf"(?<![\w$])(?P<name>(?:[A-Za-z0-9_]*_)?(?:{_LAST_WORD}))=(?P<value>\S*)", re.IGNORECASE
)
_OPTION = re.compile(
    r"--(?P<name>(?:[a-z0-9_-]*[_-])?(?:token|secret|password|passwd|passphrase|api[_-]?key|access[_-]?key|secret[_-]?key))"
    r"(?:=(?P<value>.*))?",
    re.IGNORECASE,
)


def secrets_in_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the variables of shell lines that look like secrets and have their value in the line
    itself.
    """
    matches = (match for line in lines for match in _ASSIGNMENT.finditer(line))
    return _unique_names(match["name"] for match in matches if _is_literal(match["value"]))


def secrets_in_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a command that look like secrets and have their value in the command
    itself.
    """
    names = []
    for word, next_word in zip(command, [*command[1:], ""], strict=True):
        match = _OPTION.fullmatch(word)
        if match is None:
            continue
        # --token=VALUE, or --token VALUE
        value = next_word if match["value"] is None else match["value"]
        if _is_literal(value):
            names.append(f"--{match['name']}")
    return _unique_names(names)


def _is_literal(value: str) -> bool:
    """Whether a value is written out, as a secret would be.

    A number, a path, an option, a placeholder, and the value of a variable or a command are not.
    """
    bare = value.strip("\"'")
    return (
        bool(bare)
        and not bare.isdecimal()
        and not bare.startswith(("$", "`", "/", "~", ".", "-", "{"))
    )


def _unique_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
