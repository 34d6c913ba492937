"""Shared by all checks of doctor: a guard around each, and its output."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence

from bftrainer.console.cli.output import say
from bftrainer.console.cli.tables import hanging_indent
from bftrainer.decide.domain.checks import Check, CheckStatus

_INDENT = 32
"""The column at which the findings begin."""
_COLORS = {CheckStatus.OK: "green", CheckStatus.BROKEN: "red"}


def check_or_error(
    name: str, run: Callable[[], Check], remedy: str, required: bool = True
) -> Check:
    """Call ``run`` and return its check. If it raises, return a broken check with the error and
    ``remedy`` instead, since a broken package may raise anything.
    """
    try:
        return run()
    except Exception as error:
        return Check(name, CheckStatus.BROKEN, first_line(error), remedy, required)


def first_line(error: Exception) -> str:
    """The first line of an exception's message, or its class if it has none."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def is_healthy(checks: Sequence[Check]) -> bool:
    """Whether everything that is required works."""
    return all(check.state is CheckStatus.OK for check in checks if check.is_required)


def print_json(checks: Sequence[Check]) -> None:
    """Print the checks as one JSON object."""
    rows = [
        {**dataclasses.asdict(check), "state": check.state.name, "required": check.is_required}
        for check in checks
    ]
    say(json.dumps({"ok": is_healthy(checks), "checks": rows}, indent=2))


def print_lines(checks: Sequence[Check]) -> None:
    """Print a line for each check, with the remedy below it."""
    for check in checks:
        label, color = f"{check.label:<18}", _COLORS.get(check.state, "yellow")
        say(
            hanging_indent(f"{label}  {check.name:<10}  ", check.detail, _INDENT),
            color=color,
            colored=len(label),
        )
        if check.remedy:
            say(hanging_indent(f"{'':<{_INDENT}}-> ", check.remedy))
