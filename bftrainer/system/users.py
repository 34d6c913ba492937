"""Who runs this process, as the kernel knows it. ``$LOGNAME`` and ``$USER``, which getpass
believes, may say anything.
"""

from __future__ import annotations

import os
import pwd


def own_name() -> str:
    """The user's name; the uid in digits where no name is known."""
    return name_of(os.getuid())


def name_of(uid: int) -> str:
    """Return the name of a user; the uid in digits where no name is known."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
