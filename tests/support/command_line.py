"""Run the command line as a user does, in this process: arguments in, status and both streams
out.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import click
import matplotlib.font_manager  # noqa: F401  # on a new machine it makes its cache, and says so on stderr where that takes long
import pytest
from click.shell_completion import ShellComplete

from bftrainer.console.cli.main import bftrainer as group
from bftrainer.console.cli.main import run


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


def bftrainer(*arguments: object, stdin: str = "", env: Mapping[str, str] | None = None) -> Ended:
    """``bftrainer ARGUMENTS``, with ``env`` beside the variables of the tests.

    A traceback is an exception here, so no test takes one for an error line.
    """
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(stdin)
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            status = run([str(argument) for argument in arguments])
    finally:
        sys.stdin = before
    return Ended(status, out.getvalue(), err.getvalue())


def complaint(ended: Ended) -> str:
    """The one line of a user's mistake: status 2, nothing on stdout, one line on stderr."""
    assert ended.status == 2, ended
    assert ended.out == "", ended
    lines = ended.err.splitlines()
    assert len(lines) == 1, ended
    assert lines[0].startswith("bftrainer: "), ended
    return lines[0].removeprefix("bftrainer: ")


def completed(*words: str) -> list[str]:
    """What a shell offers for the last word."""
    shell = ShellComplete(group, {}, "bftrainer", "_BFTRAINER_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def commands(command: click.Group = group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Each command that is no group, with the words that call it."""
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        if isinstance(inner, click.Group):
            yield from commands(inner, f"{path}{name} ")
        else:
            yield path + name, inner
