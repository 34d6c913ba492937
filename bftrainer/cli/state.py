"""``--state``: the state directory that a command works on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from bftrainer.client.state_dir import DEFAULT, STATE_VARIABLE, default_state

F = TypeVar("F", bound=Callable[..., Any])


def state_option(command: F) -> F:
    """``--state DIR``, or $BFTRAINER_STATE."""
    return click.option(
        "--state",
        type=click.Path(path_type=Path, file_okay=False),
        default=default_state,
        show_default=f"${STATE_VARIABLE}, or {DEFAULT}",
        metavar="DIR",
        help="State directory of the pilot.",
    )(command)
