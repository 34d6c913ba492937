"""``bftrainer policy list`` and ``policy new``."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

import click

from bftrainer.cli.output import say
from bftrainer.errors import UserError

_PROJECT = """\
[build-system]
requires = ["hatchling>=1.25"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
description = "An allocation policy for bftrainer"
requires-python = ">=3.10"
dependencies = ["bftrainer"]

[project.entry-points."bftrainer.policies"]
{name} = "{module}:build"

[tool.pytest.ini_options]
testpaths = ["tests"]

[tool.hatch.build.targets.wheel]
include = ["{module}.py"]
"""

_POLICY = '''\
"""First come, first served: each trainer gets as many nodes as it can use."""

from dataclasses import dataclass

from bftrainer.api import Decision, Event, Policy, PolicySettings, State, largest_legal


@dataclass(frozen=True)
class {class_name}:
    """Called by bftrainer at every event."""

    name: str = "{name}"

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """One legal count per trainer of state.active, and the next state.memory."""
        free = len(state.pool)
        counts = []
        for active in state.active:
            nodes = largest_legal(active.trainer, free)
            counts.append(nodes)
            free -= nodes
        return Decision(tuple(counts)), None


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    return {class_name}()
'''

_TEST = '''\
"""The conformance suite of bftrainer: legal counts, purity, memory, progress."""

from collections.abc import Callable

import pytest
from bftrainer_replay.conformance.checks import CHECKS

from {module} import {class_name}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[..., None]) -> None:
    """Run one check of the suite."""
    check({class_name})
'''

_README = """\
# {name}

An allocation policy for bftrainer.

    pip install -e .
    pytest
    bftrainer replay compare --log LOG --trainers TRAINERS --policies {name},bftrainer,equal-share

`decide` is a function of the state and the event: no clock, no files, no random numbers except from a seed in the memory. The
memory is any frozen value; it is journaled and survives a crash of the pilot.
"""


@click.command("list")
def list_policies() -> None:
    """List the installed policies and what each needs to know about a trainer.

    \b
    Example:
      bftrainer policy list
    """
    from bftrainer.allocation.chain import build_allocator
    from bftrainer.allocation.objectives import DEFAULT_OBJECTIVE
    from bftrainer.plugins import build_policy, find_objective, policy_names
    from bftrainer.policies.needs import Need
    from bftrainer.policies.settings import PolicySettings

    settings = PolicySettings(build_allocator("exact", 10.0), find_objective(DEFAULT_OBJECTIVE))
    for name in policy_names():
        try:
            needs: frozenset[Need] = getattr(build_policy(name, settings), "needs", frozenset())
        except UserError as error:
            say(f"{name:<18} cannot run on a pool: {str(error).partition(': ')[2]}")
            continue
        known = " and ".join(sorted(need.value for need in needs))
        say(f"{name:<18} needs {known or 'nothing beyond what every trainer has'}")


@click.command()
@click.argument("name")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Output directory.  [default: NAME]"
)
def new(name: str, out: Path | None) -> None:
    """Create a package with a policy called NAME: 30 lines of working code with tests, as a starting point.

    \b
    Example:
      bftrainer policy new my-policy
      pip install -e my-policy
      pytest --pyargs bftrainer_replay.conformance.policy_contract --bftrainer-policy my-policy
    """
    from bftrainer.plugins import policy_names
    from bftrainer.system.files import write_atomically

    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise UserError(f"policy name {name!r}: expected lowercase words joined by -, like my-policy")
    if name in policy_names():
        raise UserError(f"policy name {name!r} is taken by an installed policy; expected a new name")
    folder = out or Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: not empty; expected a new or empty directory")
    module = name.replace("-", "_") + "_policy"
    words = {"name": name, "module": module, "class_name": "".join(part.capitalize() for part in name.split("-"))}
    files = {
        "pyproject.toml": _PROJECT,
        f"{module}.py": _POLICY,
        f"tests/test_{module}.py": _TEST,
        "README.md": _README,
    }
    try:
        for file, text in files.items():
            write_atomically(folder / file, text.format(**words).encode())
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from error
    say(f"{folder}: {', '.join(files)}. Next: pip install -e {folder}")
