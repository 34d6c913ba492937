"""Shared by the sites of schedulers: name the pilot, check its times, apply a configuration table
that was read again.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import ConfigTable
from bftrainer.errors import InputFileError

_Table = TypeVar("_Table", bound=ConfigTable)


def pilot_name(state_dir: Path) -> str:
    """Return a name for a pilot, made from its state directory: pilots of one user have different
    ones. The name has no blanks, because it is a word in the comments of jobs.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", state_dir.name)
    return f"{name}-{zlib.crc32(str(state_dir).encode()):08x}"


_TIMEOUTS_IN_A_LEASE = 4


def check_times(table: str, timeout_s: float, lease_s: float, where: str) -> None:
    """Raise ``InputFileError`` if a lease is so short that it could lapse while a few commands get
    no answer, which would end healthy holders. ``table`` is the site's table, with the key
    ``timeout_s``; ``where`` is the file.
    """
    if lease_s < _TIMEOUTS_IN_A_LEASE * timeout_s:
        raise InputFileError(
            where,
            f"{table}.timeout_s: is {timeout_s:g} s, but times.lease_s is only {lease_s:g} s: "
            "a few commands without an answer "
            f"would let every holder end; set {table}.timeout_s to "
            f"{lease_s / _TIMEOUTS_IN_A_LEASE:g} or less, or "
            f"times.lease_s to {_TIMEOUTS_IN_A_LEASE * timeout_s:g} or more",
        )


def reloader(
    table: str,
    initial: _Table,
    keys: Collection[str],
    read: Callable[[PilotConfig], _Table],
    apply: Callable[[_Table, float], None],
) -> Callable[[PilotConfig], tuple[str, ...]]:
    """Build the function that applies a configuration that was read again (``Site.reconfigure``):
    it applies changed ``keys`` of the site's table, and returns the names of other changed keys,
    which keep the values that they had at the pilot's start.

    Args:
        table: The name of the site's table.
        initial: The table at the pilot's start.
        keys: The keys that a running pilot may change.
        read: Returns the site's table of a configuration.
        apply: Applies a table, and the seconds between two polls.
    """

    def reconfigure(config: PilotConfig) -> tuple[str, ...]:
        settings = read(config)
        unchanged = {
            key: value
            for key, value in initial
            if key not in keys and value != getattr(settings, key)
        }
        apply(settings.model_copy(update=unchanged), config.times.poll_s)
        return tuple(f"{table}.{key}" for key in sorted(unchanged))

    return reconfigure
