"""``bftrainer cancel``, ``pause`` and ``resume``: commands to the pilot, by way of its spool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.cli.state import opened_registry, state_option
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer.persistence.spool import RequestKind


@click.command()
@click.argument("trainers", nargs=-1, required=True, metavar="NAME...")
@state_option
def cancel(trainers: tuple[str, ...], state: Path) -> None:
    """End trainers for good. A running one is asked to checkpoint first, so its work is on disk.

    \b
    Example:
      bftrainer cancel digits
    """
    from bftrainer.persistence.spool import RequestKind

    _order(state, RequestKind.CANCEL, trainers)


@click.command()
@click.argument("trainers", nargs=-1, required=True, metavar="NAME...")
@state_option
def pause(trainers: tuple[str, ...], state: Path) -> None:
    """Let trainers checkpoint and give up their nodes until they are resumed.

    \b
    Example:
      bftrainer pause digits
    """
    from bftrainer.persistence.spool import RequestKind

    _order(state, RequestKind.PAUSE, trainers)


@click.command()
@click.argument("trainers", nargs=-1, required=True, metavar="NAME...")
@state_option
def resume(trainers: tuple[str, ...], state: Path) -> None:
    """Let paused trainers go on from their checkpoints; they queue behind those that wait.

    \b
    Example:
      bftrainer resume digits
    """
    from bftrainer.persistence.spool import RequestKind

    _order(state, RequestKind.RESUME, trainers)


def _order(state: Path, kind: RequestKind, names: tuple[str, ...]) -> None:
    for name in names:
        check(state, name)
    for name in names:
        enqueue(state, kind, name)
        click.echo(f"{kind.value} {name}: handed in")


def check(state: Path, name: str) -> None:
    """Refuse an order for a trainer that is not there, or has ended."""
    from bftrainer.persistence.spool import RequestKind as Kinds
    from bftrainer.persistence.spool import Spool, open_state_dir
    from bftrainer.persistence.store import DB_NAME

    folder = open_state_dir(state)
    spool = Spool(folder)
    known = {r.request.trainer for r in spool.pending() if r.request is not None and r.request.kind is Kinds.SUBMIT}
    if (folder / DB_NAME).exists():
        with opened_registry(folder) as registry:
            found = {trainer.name: trainer.status for trainer in registry.trainers()}
        if name in found and found[name].is_final:
            raise UserError(f"trainer {name!r} is {found[name].value} already")
        known |= set(found)
    if name not in known:
        raise UserError(f"no trainer named {name!r}; see `bftrainer list --all`")


def enqueue(state: Path, kind: RequestKind, name: str) -> None:
    """Put an order into the spool."""
    from bftrainer.persistence.spool import Request, Spool, open_state_dir

    Spool(open_state_dir(state)).put(Request(kind=kind, trainer=name))
