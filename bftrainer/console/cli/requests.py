"""``bftrainer cancel``, ``pause`` and ``resume``: requests to the pilot through its spool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import with_options
from bftrainer.console.cli.output import say
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.trainer_names import GroupName, TrainerName
from bftrainer.counted import counted
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer.console.client.requests import Selection
    from bftrainer.pilot.persistence.spool import RequestKind

_SHOWN = 10


_selection = with_options(
    click.argument("trainers", nargs=-1, type=TrainerName(), metavar="[NAME|PATTERN...]"),
    click.option(
        "--group",
        type=GroupName(),
        metavar="NAME",
        help="All trainings of a group; with names, only the named ones of the group.",
    ),
)


@click.command()
@_selection
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask before several trainings are canceled by pattern or group.",
)
@state_option
def cancel(trainers: tuple[str, ...], group: str | None, yes: bool, state: Path) -> None:
    """Cancel trainings. A running training is asked to checkpoint first.

    A pattern has *, ? or [...] and is quoted, so that the shell does not expand it.

    \b
    Example:
      bftrainer cancel digits
      bftrainer cancel 'digits-lr0.1-*'
      bftrainer cancel --group digits --yes
    """
    from bftrainer.pilot.persistence.spool import RequestKind

    selection = _selected_trainers(state, trainers, group)
    # Trainers that are all named in full need no confirmation.
    is_by_name = set(selection.names) <= set(trainers)
    if len(selection.names) > 1 and not yes and not is_by_name:
        _confirm_cancellation(selection.names)
    _write_requests(state, RequestKind.CANCEL, selection)


@click.command()
@_selection
@state_option
def pause(trainers: tuple[str, ...], group: str | None, state: Path) -> None:
    """Checkpoint trainings and release their nodes until they are resumed.

    \b
    Example:
      bftrainer pause digits
      bftrainer pause 'digits-*'
    """
    from bftrainer.pilot.persistence.spool import RequestKind

    _write_requests(state, RequestKind.PAUSE, _selected_trainers(state, trainers, group))


@click.command()
@_selection
@state_option
def resume(trainers: tuple[str, ...], group: str | None, state: Path) -> None:
    """Resume paused trainings from their checkpoints, behind the trainings that are already in the
    queue.

    \b
    Example:
      bftrainer resume digits
    """
    from bftrainer.pilot.persistence.spool import RequestKind

    _write_requests(state, RequestKind.RESUME, _selected_trainers(state, trainers, group))


def _selected_trainers(state: Path, trainers: tuple[str, ...], group: str | None) -> Selection:
    """Select the trainers of names, patterns and ``--group``. Raises ``UserError`` for none."""
    from bftrainer.console.client.requests import select

    if not trainers and group is None:
        raise UserError(
            "no training is named: expected names, quoted patterns like 'digits-*', or --group NAME"
        )
    return select(state, trainers, group)


def _confirm_cancellation(names: tuple[str, ...]) -> None:
    """Ask on the terminal whether to cancel these trainers; end the command if not.

    Raises ``UserError`` if no terminal can be asked.
    """
    names_text = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    if not sys.stdin.isatty():
        raise UserError(
            f"{counted(len(names), 'training')} would be canceled ({names_text}); add --yes to "
            "cancel them"
        )
    click.confirm(f"Cancel {counted(len(names), 'training')} ({names_text})?", abort=True, err=True)


def _write_requests(state: Path, kind: RequestKind, selection: Selection) -> None:
    """Write requests into the spool, and print a line for each.

    Raises ``UserError`` with what the selection refused, after the other requests are written.
    """
    from bftrainer.console.client.requests import enqueue

    enqueue(state, kind, selection)
    for name in selection.names:
        say(f"{kind.value} {name}: requested")
    if selection.refused:
        raise UserError("; ".join(selection.refused))
