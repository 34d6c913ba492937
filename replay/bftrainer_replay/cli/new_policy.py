"""``bftrainer policy new``: a policy to start from, with its test."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path

import click

from bftrainer.console.cli.output import say
from bftrainer.errors import UserError

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_LONGEST_NAME = 40
_POLICY = '''\
"""The policy {name}: first come, first served. Change ``decide`` into a policy of your own."""

from dataclasses import dataclass

from bftrainer.api import Decision, Event, State, largest_legal


@dataclass(frozen=True)
class {class_name}:
    """Give each trainer, in order of admission, as many of the free nodes as it may have."""

    name: str = "{name}"

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Return a legal number of nodes for each admitted trainer, and the policy's memory.

        The memory is ``state.memory`` at the next event: a frozen value, or None.
        """
        free = len(state.pool)
        counts = []
        for active in state.active:
            nodes = largest_legal(active.trainer, free)
            counts.append(nodes)
            free -= nodes
        return Decision(tuple(counts)), None
'''
_TEST = '''\
"""What every policy must do, on {class_name}: legal counts, equal decisions, memory, speed."""

import pytest
from bftrainer_replay.conformance.checks import CHECKS

from {module} import {class_name}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_requirement(check):
    check({class_name})
'''


@click.command("new")
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    metavar="DIR",
    help="Folder of the two files.",
)
def new_policy(name: str, folder: Path) -> None:
    """Write a policy of 30 lines, NAME, and its test: a start for a policy of your own.

    The policy serves trainers in order of admission. Its test is the conformance suite that every
    policy must pass (pip install 'bftrainer[policy]').

    \b
    Example:
      bftrainer policy new my-policy --folder policies
    """
    from bftrainer.system.files import write_atomically

    module = _module_name(name)
    class_name = "".join(word.capitalize() for word in name.split("-"))
    policy, test = folder / f"{module}.py", folder / f"test_{module}.py"
    for path in (policy, test):
        if path.exists():
            raise UserError(f"{path} already exists; choose another name or another --folder")
    words = {"name": name, "module": module, "class_name": class_name}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(policy, _POLICY.format(**words).encode())
        write_atomically(test, _TEST.format(**words).encode())
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from error
    say(f"written: {policy} and {test}")
    say(f"test it: pytest {test}")
    say(
        f"replay it, in {folder}: bftrainer replay compare LOG --trainers TRAINERS "
        f"--policies {module}:{class_name},bftrainer"
    )


def _module_name(name: str) -> str:
    """Return the name of a policy's module: "my-policy" is in ``my_policy``.

    Raises :class:`UserError` for a name that no module can have, or that would hide a module of
    another package.
    """
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise UserError(
            f"NAME {name!r:.60}: expected at most {_LONGEST_NAME} lowercase letters, digits and "
            "dashes, such as my-policy"
        )
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or importlib.util.find_spec(module) is not None:
        raise UserError(f"NAME {name}: Python has a module or a keyword of that name")
    return module
