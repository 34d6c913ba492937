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
    # With the store's place in its environment, a warm command starts cold, behind the relay.
    if (python_command := warm_command(command)) is not None:
        return python_command
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
    script_index = 1
    while script_index < len(command) and command[script_index] in _PLAIN_OPTIONS:
        script_index += 1
    words = command[script_index:]
    is_module = len(words) >= 2 and words[0] == "-m"
    if not words or (words[0].startswith("-") and not is_module):
        return None  # interactive, -c, or an option that may change the start
    return [*command[:script_index], str(Path(warm_start.__file__).resolve()), *words]
