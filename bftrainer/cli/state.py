"""The state directory that the pilot's commands work on."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bftrainer.persistence.registry import Registry
    from bftrainer.persistence.spool import Request
    from bftrainer.persistence.store import Store

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT = "~/.bftrainer"
GONE_AFTER_S = 900.0
"""Leases of holders are shorter: what a pilot held that has been silent for so long is released."""


def state_option(command: F) -> F:
    """``--state DIR``, or $BFTRAINER_STATE."""
    return click.option(
        "--state",
        type=click.Path(path_type=Path, file_okay=False),
        default=lambda: Path(os.environ.get("BFTRAINER_STATE", DEFAULT)).expanduser(),
        show_default=f"$BFTRAINER_STATE, or {DEFAULT}",
        metavar="DIR",
        help="State directory of the pilot.",
    )(command)


@contextmanager
def opened_registry(state: Path) -> Iterator[Registry]:
    """The registry of a state directory, for reading."""
    from bftrainer.persistence.registry import Registry
    from bftrainer.persistence.spool import open_state_dir
    from bftrainer.persistence.store import open_store

    with closing(open_store(open_state_dir(state))) as store:
        yield Registry(store)


def has_registry(state: Path) -> bool:
    """Whether a pilot has ever used this state directory."""
    from bftrainer.persistence.store import DB_NAME

    return (state / DB_NAME).exists()


def pilot_has_ended(store: Store, now_s: float) -> bool:
    """Whether no trainer can have nodes any more: the last pilot has released them, or has been gone for long."""
    import socket

    from bftrainer.system.processes import is_alive

    pilot = store.holder()
    if pilot is None:
        return True
    if pilot.host == socket.gethostname() and is_alive(pilot.process):
        return False
    return now_s - pilot.heartbeat_s > GONE_AFTER_S


def pending_submissions(state: Path) -> list[Request]:
    """Submissions in the spool that no pilot has read yet."""
    from bftrainer.persistence.spool import RequestKind, Spool

    requests = (received.request for received in Spool(state).pending())
    return [request for request in requests if request is not None and request.kind is RequestKind.SUBMIT]
