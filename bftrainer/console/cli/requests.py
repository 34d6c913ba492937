"""``bftrainer cancel``, ``pause`` and ``resume``: requests to the pilot through its spool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import with_options
from bftrainer.console.cli.output import say
from bftrainer.console.cli.state import state_option
from bftrainer.counted import counted
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer.console.client.requests import Selection
    from bftrainer.pilot.persistence.spool import RequestKind

_SHOWN = 10


_selection = with_options(
    click.argument("trainers", nargs=-1, metavar="[NAME|PATTERN...]"),
    click.option(
        "--group",
        metavar="NAME",
        help="All trainers of a group; with names, only the named ones of the group.",
    ),
)


@click.command()
@_selection
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask before several trainers are canceled by pattern or group.",
)
@state_option
def cancel(trainers: tuple[str, ...], group: str | None, yes: bool, state: Path) -> None:
    """Cancel trainers. A running trainer is asked to checkpoint first.

    A pattern has *, ? or [...] and is quoted, so that the shell does not expand it.

    \b
    Example:
      bftrainer cancel digits
      bftrainer cancel 'digits-lr0.1-*'
      bftrainer cancel --group digits --yes
    """
    from bftrainer.pilot.persistence.spool import RequestKind

    chosen = _chosen(state, trainers, group)
    if len(chosen.names) > 1 and not yes and not set(chosen.names) <= set(trainers):
        _confirm(chosen.names)
    _request(state, RequestKind.CANCEL, chosen)


@click.command()
@_selection
@state_option
def pause(trainers: tuple[str, ...], group: str | None, state: Path) -> None:
    """Checkpoint trainers and release their nodes until they are resumed.

    \b
    Example:
      bftrainer pause digits
      bftrainer pause 'digits-*'
    """
    from bftrainer.pilot.persistence.spool import RequestKind

    _request(state, RequestKind.PAUSE, _chosen(state, trainers, group))


@click.command()
@_selection
@state_option
def resume(trainers: tuple[str, ...], group: str | None, state: Path) -> None:
    """Resume paused trainers from their checkpoints, behind the trainers that are already in the
    queue.

    \b
    Example:
      bftrainer resume digits
    """
    from bftrainer.pilot.persistence.spool import RequestKind

    _request(state, RequestKind.RESUME, _chosen(state, trainers, group))


def _chosen(state: Path, trainers: tuple[str, ...], group: str | None) -> Selection:
    from bftrainer.console.client.requests import select

    if not trainers and group is None:
        raise UserError(
            "no trainer is named: expected names, quoted patterns like 'digits-*', or --group NAME"
        )
    return select(state, trainers, group)


def _confirm(names: tuple[str, ...]) -> None:
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    if not sys.stdin.isatty():
        raise UserError(
            f"{counted(len(names), 'trainer')} would be canceled ({shown}); add --yes to "
            "cancel them"
        )
    click.confirm(f"Cancel {counted(len(names), 'trainer')} ({shown})?", abort=True, err=True)


def _request(state: Path, kind: RequestKind, chosen: Selection) -> None:
    from bftrainer.console.client.requests import enqueue

    enqueue(state, kind, chosen)
    for name in chosen.names:
        say(f"{kind.value} {name}: requested")
    if chosen.refused:
        raise UserError("; ".join(chosen.refused))
