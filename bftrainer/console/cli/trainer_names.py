"""Names of trainers and of groups as arguments: a shell completes them from the state directory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from bftrainer.console.client.state_dir import (
    default_state,
    pending_submissions,
    registered_trainers,
)
from bftrainer.errors import BFTrainerError

if TYPE_CHECKING:
    _ParamType = click.ParamType[str]  # generic since click 8.4
else:
    _ParamType = click.ParamType


_HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@%+:/-]*")
"""What a shell may put on the command line as it is: bash does not quote what it completes, and the
state directory may be that of a stranger, who calls a trainer ``$(rm *)``."""


class TrainerName(_ParamType):
    """The name of a trainer."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name unchanged: the command says whether such a trainer exists."""
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the name, unless it is on the command line already."""
        given = ctx.params.get(param.name or "") or ()
        names = filter(_HARMLESS.fullmatch, set(self.names(_state_of(ctx))).difference(given))
        return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]

    def names(self, state: Path) -> Iterable[str]:
        """Return the names of all trainers of a state directory; none where it cannot be read."""
        try:
            registered = [record.name for record in registered_trainers(state)]
            return [*registered, *(request.trainer for request in pending_submissions(state))]
        except (BFTrainerError, OSError):
            return []


class GroupName(TrainerName):
    """The name of a group of trainers."""

    def names(self, state: Path) -> Iterable[str]:
        """Return the names of all groups of a state directory; none where it cannot be read."""
        try:
            return {record.spec.group for record in registered_trainers(state) if record.spec.group}
        except (BFTrainerError, OSError):
            return []


def _state_of(context: click.Context) -> Path:
    """Return the state directory on the command line; without one, the default."""
    state = context.params.get("state")
    return Path(state) if state else default_state()
