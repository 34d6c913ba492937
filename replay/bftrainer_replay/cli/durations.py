"""Durations on the command line: 10s, 5m, 2h, 2d."""

from __future__ import annotations

import re

import click

from bftrainer.errors import UserError

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LENGTH = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)", re.ASCII)


def seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Callback of an option with a duration: seconds, above 0."""
    if text is None:
        return None
    found = _LENGTH.fullmatch(text.strip())
    value = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not value > 0:
        raise UserError(f"{parameter.opts[0]} {text!r:.40}: expected a duration above 0, like 10s, 5m, 2h or 2d")
    return value
