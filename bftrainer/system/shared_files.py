"""Files through which hosts talk to each other. docs/shared-files.md has the rules and their
reasons.

A host that asked in vain for a name believes for up to a minute that there is no such file (NFS's
``acdirmax``). What it asked its server at ``open`` is up to date (close-to-open consistency). So
what one host waits for exists before the other host looks, its content changes, and readers open it
each time.

Only the standard library is imported: training scripts use this module.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_TRIES = 5


def ensure_exists(path: Path | str) -> None:
    """Make an empty file where there is none; its content stays. Raises ``OSError``."""
    os.close(
        os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600
        )
    )


def while_replaced(read: Callable[[], T]) -> T:
    """Return ``read()``; call it again if another host has replaced the file between open and read
    (ESTALE), ``_TRIES`` times in all. Raises other errors of ``read``, and the last one.
    """
    remaining_tries = _TRIES
    while True:
        try:
            return read()
        except OSError as error:  # noqa: PERF203  # an error is what it waits for
            remaining_tries -= 1
            if error.errno != errno.ESTALE or not remaining_tries:
                raise
