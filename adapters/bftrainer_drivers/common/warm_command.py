"""Which commands can be started warm: they do their imports first and get their rank later."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from bftrainer_drivers.common import behind_relay, warm_start

_INTERPRETER = re.compile(r"python(3(\.\d+)?)?")
_PLAIN_OPTIONS = {"-u", "-O", "-OO", "-B", "-E", "-s", "-q"}


def relayed_command(command: Sequence[str]) -> list[str]:
    """Return the command for a cold start behind a relay to the driver's store. A Python command is
    run by its own interpreter, any other by way of ``python3 behind_relay.py``.
    """
    if (same := warm_command(command)) is not None:
        return same
    is_python = _INTERPRETER.fullmatch(Path(command[0]).name)
    return [
        command[0] if is_python else "python3",
        str(Path(behind_relay.__file__).resolve()),
        *command,
    ]


def warm_command(command: Sequence[str]) -> list[str] | None:
    """Return the command for a warm start: ``python -u train.py`` -> ``python -u warm_start.py
    train.py``, and likewise for ``python -m MODULE``; None for any other command.
    """
    if not command or not _INTERPRETER.fullmatch(Path(command[0]).name):
        return None
    options = 1
    while options < len(command) and command[options] in _PLAIN_OPTIONS:
        options += 1
    rest = command[options:]
    if not rest or (rest[0].startswith("-") and (rest[0] != "-m" or len(rest) < 2)):
        return None
    return [*command[:options], str(Path(warm_start.__file__).resolve()), *command[options:]]
