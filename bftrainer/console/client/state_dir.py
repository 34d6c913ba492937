"""The state directory that commands and handles work on. Slow modules are imported where they are
needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bftrainer.config.pilot import PilotConfig
    from bftrainer.pilot.persistence.registry import Registry, TrainerRecord
    from bftrainer.pilot.persistence.spool import Request
    from bftrainer.pilot.persistence.store import Store

STATE_VARIABLE = "BFTRAINER_STATE"
DEFAULT = "~/.bftrainer"
CONFIG_NAME = "bftrainer.toml"
GONE_AFTER_S = 900.0
"""Leases of holders are shorter: what a pilot held that has been silent for so long is released."""


def default_state() -> Path:
    """``$BFTRAINER_STATE``, or ``~/.bftrainer``."""
    return Path(os.environ.get(STATE_VARIABLE, DEFAULT)).expanduser()


def read(state: Path, config: Path | None = None) -> PilotConfig:
    """Read the configuration file ``config``, else that of the state directory; without both,
    return the defaults.
    """
    from bftrainer.config.pilot import PilotConfig, read_config

    if config is None and not (state / CONFIG_NAME).exists():
        return PilotConfig()
    return read_config(config or state / CONFIG_NAME)


@contextmanager
def opened_registry(state: Path) -> Iterator[Registry]:
    """Open the registry of a state directory for reading."""
    from bftrainer.pilot.persistence.registry import Registry
    from bftrainer.pilot.persistence.spool import open_state_dir
    from bftrainer.pilot.persistence.store import open_store

    with closing(open_store(open_state_dir(state))) as store:
        yield Registry(store)


def has_registry(state: Path) -> bool:
    """Whether a pilot has ever used this state directory."""
    from bftrainer.pilot.persistence.store import DB_NAME

    return (state / DB_NAME).exists()


def registered_trainers(state: Path) -> tuple[TrainerRecord, ...]:
    """All trainers of a state directory that pilots have read."""
    if not has_registry(state):
        return ()
    with opened_registry(state) as registry:
        return registry.trainers()


def pilot_has_ended(store: Store, now_s: float) -> bool:
    """Whether no pilot runs, so that no trainer can have nodes any more.

    The last pilot has given up its lease, or its heartbeat is older than ``GONE_AFTER_S``. A pilot
    whose process runs on this host has not ended, however old its heartbeat is.
    """
    import socket

    from bftrainer.system.processes import is_alive

    pilot = store.holder()
    if pilot is None:
        return True
    if pilot.host == socket.gethostname() and is_alive(pilot.process):
        return False
    return now_s - pilot.heartbeat_s > GONE_AFTER_S


def pending_submissions(state: Path) -> list[Request]:
    """Return the submissions in the spool that no pilot has read yet, however many there are."""
    from bftrainer.pilot.persistence.spool import MAX_FILES_LISTED, RequestKind, Spool

    requests = (received.request for received in Spool(state).pending(MAX_FILES_LISTED))
    return [
        request
        for request in requests
        if request is not None and request.kind is RequestKind.SUBMIT
    ]
