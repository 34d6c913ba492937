"""``bftrainer cancel``, ``pause`` and ``resume``: requests to the pilot through its spool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.cli.output import say
from bftrainer.cli.state import has_registry, opened_registry, pending_submissions, state_option
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer.persistence.spool import RequestKind


@click.command()
@click.argument("trainers", nargs=-1, required=True, metavar="NAME...")
@state_option
def cancel(trainers: tuple[str, ...], state: Path) -> None:
    """Cancel trainers. A running trainer is asked to checkpoint first.

    \b
    Example:
      bftrainer cancel digits
    """
    from bftrainer.persistence.spool import RequestKind

    _request(state, RequestKind.CANCEL, trainers)


@click.command()
@click.argument("trainers", nargs=-1, required=True, metavar="NAME...")
@state_option
def pause(trainers: tuple[str, ...], state: Path) -> None:
    """Checkpoint trainers and release their nodes until they are resumed.

    \b
    Example:
      bftrainer pause digits
    """
    from bftrainer.persistence.spool import RequestKind

    _request(state, RequestKind.PAUSE, trainers)


@click.command()
@click.argument("trainers", nargs=-1, required=True, metavar="NAME...")
@state_option
def resume(trainers: tuple[str, ...], state: Path) -> None:
    """Resume paused trainers from their checkpoints, behind the trainers that are already in the queue.

    \b
    Example:
      bftrainer resume digits
    """
    from bftrainer.persistence.spool import RequestKind

    _request(state, RequestKind.RESUME, trainers)


def _request(state: Path, kind: RequestKind, names: tuple[str, ...]) -> None:
    for name in names:
        check_active(state, name)
    for name in names:
        enqueue(state, kind, name)
        say(f"{kind.value} {name}: requested")


def check_active(state: Path, name: str) -> None:
    """Reject a request for a trainer that does not exist or has ended."""
    from bftrainer.persistence.spool import open_state_dir

    folder = open_state_dir(state)
    known = {request.trainer for request in pending_submissions(folder)}
    if has_registry(folder):
        with opened_registry(folder) as registry:
            found = {trainer.name: trainer.status for trainer in registry.trainers()}
        if name in found and found[name].is_final:
            raise UserError(f"trainer {name!r} is already {found[name].value}")
        known |= set(found)
    if name not in known:
        raise UserError(f"no trainer named {name!r}; see `bftrainer list --all`")


def enqueue(state: Path, kind: RequestKind, name: str) -> None:
    """Put a request into the spool."""
    from bftrainer.persistence.spool import Request, Spool, open_state_dir

    Spool(open_state_dir(state)).put(Request(kind=kind, trainer=name))
