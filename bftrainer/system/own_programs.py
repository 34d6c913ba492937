"""How bftrainer starts its own Python programs: never with a module from the directory that a user
happens to work in.

``python -m`` and ``python -c`` search the working directory before the standard library. A user who
works in a directory where others may write, as in a group's shared one, would run another user's
``json.py``. Every Python process that bftrainer starts for itself is therefore started with the
command lines of this module, and no other module reads ``sys.executable``.

``-P`` (Python 3.11 and later) leaves PYTHONPATH and the user's own packages as they are (``-I``
would not), and is not inherited by the processes that the program starts, as PYTHONSAFEPATH would
be: a training script finds what lies beside it.

Only the standard library is imported: training scripts use this module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SAFE_PATH = "PYTHONSAFEPATH"
# The Python of a training script may be too old for -P; the pilot's is not.
_WITHOUT_WORKING_DIRECTORY = ["-P"] if sys.version_info >= (3, 11) else ["-I"]


def this_interpreter() -> str:
    """The path of the interpreter that runs this process, for messages and for commands that a user
    chooses.
    """
    return sys.executable


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module of ours, or of an installed package, as a program."""
    return [sys.executable, *_WITHOUT_WORKING_DIRECTORY, "-m", module, *arguments]


def code_command(code: str, *arguments: str) -> list[str]:
    """The command line that runs a few lines of Python which import installed packages."""
    return [sys.executable, *_WITHOUT_WORKING_DIRECTORY, "-c", code, *arguments]


def plain_code_command(code: str, *arguments: str) -> list[str]:
    """The command line that runs a few lines of Python which need the standard library only; it
    starts fastest.
    """
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


@contextmanager
def safe_path_for_children() -> Iterator[None]:
    """Within the block, Python processes that a library starts do not search the working
    directory.

    ``multiprocessing`` runs ``python -c`` for its server and for its resource tracker, and takes no
    options for it.
    """
    previous_value = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if previous_value is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = previous_value
