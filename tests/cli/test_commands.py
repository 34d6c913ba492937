"""Commands that packages contribute by entry points: found lazily, listed by section, harmless when
broken.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import click
import pytest
from support.command_line import completed
from support.ran import python

from bftrainer.console.cli import choices
from bftrainer.console.cli.main import bftrainer
from bftrainer.errors import UnknownNameError
from bftrainer_replay.cli.compare import POLICIES_OR_ALL

MODULE = """
import click
from bftrainer.api import CommandEntry

@click.command()
def hello():
    print("hello")

number = 3
"""
TABLE = """
from bftrainer.console.cli.command_table import CommandEntry

TABLE = (
    CommandEntry("ours hello", "their_commands:hello", "Say hello."),
    CommandEntry("ours", None, "Our group.", "Ours"),
    CommandEntry("replay hello", "their_commands:hello", "Say hello to replay."),
    CommandEntry("list", "their_commands:hello", "Not theirs to define."),
    CommandEntry("nowhere hello", "their_commands:hello", "In a group that does not exist."),
    CommandEntry("submit hello", "their_commands:hello", "In a command that is not a group."),
    CommandEntry("number", "their_commands:number", "Not a command."),
    CommandEntry("missing", "their_commands:missing", "Not there."),
)
"""


def package(folder: Path, table: str, target: str = "their_table:TABLE") -> dict[str, str]:
    """An installed package that contributes commands; the environment in which it is found."""
    info = folder / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[bftrainer.commands]\ntheirs = {target}\n")
    (folder / "their_table.py").write_text(table)
    (folder / "their_commands.py").write_text(MODULE)
    return {**os.environ, "PYTHONPATH": str(folder)}


def run(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "bftrainer", *arguments, env=env)


def test_another_package_adds_groups_and_commands(tmp_path: Path) -> None:
    env = package(tmp_path, TABLE)
    assert run(env, "ours", "hello").stdout == "hello\n"
    assert run(env, "replay", "hello").stdout == "hello\n"
    ended = run(env, "--help")
    assert ended.returncode == 0
    sections = [
        line
        for line in ended.stdout.splitlines()
        if line.endswith(":") and not line.startswith(" ")
    ]
    assert sections == ["Options:", "Pilot:", "Trainings:", "Replay:", "Tools:", "Ours:"]
    assert ended.stderr.splitlines() == [
        "bftrainer: warning: command 'list' of 'theirs' is skipped: the name is taken",
        "bftrainer: warning: command 'submit hello' of 'theirs' is skipped: 'submit' is not a "
        "group",
        "bftrainer: warning: command 'nowhere hello' of 'theirs' is skipped: there is no group "
        "'nowhere'",
    ]
    assert "Did you mean `bftrainer ours hello`?" in run(env, "helo").stderr
    assert "their_commands:number is int, expected a click command" in run(env, "number").stderr
    missing = run(env, "missing")
    assert (missing.returncode, len(missing.stderr.splitlines())) == (2, 4)
    assert "command 'missing' cannot be loaded from their_commands:missing" in missing.stderr


@pytest.mark.parametrize(
    ("table", "target", "reason"),
    [
        ("1 / 0", "their_table:TABLE", "ZeroDivisionError: division by zero"),
        (
            "TABLE = [3]",
            "their_table:TABLE",
            "TypeError: expected a tuple of CommandEntry, got [3]",
        ),
        ("", "their_table:TABLE", "AttributeError: "),
        ("", "no_such_module:TABLE", "ModuleNotFoundError: No module named 'no_such_module'"),
        (
            "from bftrainer.console.cli.command_table import CommandEntry\nTABLE = (CommandEntry('Run "
            "It', 'a:b', ''),)",
            "their_table:TABLE",
            "ValueError: 'Run It' is not a command",
        ),
        (
            "from bftrainer.console.cli.command_table import CommandEntry\nTABLE = "
            "(CommandEntry('run', 'a.b', ''),)",
            "their_table:TABLE",
            "ValueError: 'run': invalid target 'a.b', expected 'module:attribute'",
        ),
    ],
)
def test_a_broken_table_costs_a_warning(
    tmp_path: Path, table: str, target: str, reason: str
) -> None:
    env = package(tmp_path, table, target)
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    listed = run(env, "list", "--state", str(state))
    assert (listed.returncode, listed.stderr) == (0, ""), (
        "a command of bftrainer itself looks for no other package"
    )
    ended = run(env, "replay", "--help")
    assert ended.returncode == 0
    (warning,) = ended.stderr.splitlines()
    assert warning.startswith("bftrainer: warning: the commands of 'theirs' are not available: ")
    assert reason in warning


def test_help_imports_no_command() -> None:
    script = (
        "import sys; from bftrainer.console.cli.main import run; run(['--help']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    loaded = python("-c", script, check=True).stderr.split()
    assert not {"numpy", "pydantic", "rich", "matplotlib", "sqlite3"} & set(loaded)
    ours = {name for name in loaded if name.startswith("bftrainer")}
    assert ours == {
        "bftrainer",
        "bftrainer.counted",
        "bftrainer.errors",
        "bftrainer.console",
        "bftrainer.console.cli",
        "bftrainer.console.cli.ending",
        "bftrainer.console.cli.synonyms",
        "bftrainer.console.cli.main",
        "bftrainer.console.cli.commands",
        "bftrainer.console.cli.command_table",
        "bftrainer.console.cli.lazy_group",
        "bftrainer_replay",
        "bftrainer_replay.cli",
        "bftrainer_replay.cli.commands",
        "bftrainer_papers",
        "bftrainer_papers.cli",
        "bftrainer_papers.cli.commands",
        "bftrainer.console.cli.output",
        "bftrainer.system",
        "bftrainer.system.printable",
    }


def test_the_shell_completes_commands_and_names() -> None:
    assert set(completed("re")) == {
        "rehearse",
        "results",
        "resume",
        "record",
        "replay",
        "report",
    }
    assert completed("replay", "re") == ["report", "reproduce"]
    assert completed("policy", "") == ["list", "new"]
    assert completed("submit", "--launcher", "hor") == ["horovod", "horovodrun"]
    assert completed("usage", "--by", "u") == ["user"]


def test_a_choice_of_names_accepts_custom_ones_and_completes_the_last_of_several() -> None:
    assert (
        choices.POLICY.convert("modelarts-optimal?cap=64", None, None) == "modelarts-optimal?cap=64"
    )
    assert POLICIES_OR_ALL.convert("afs-l,mine:build", None, None) == "afs-l,mine:build"
    with pytest.raises(
        click.BadParameter, match="unknown policy 'equalshare', did you mean 'equal-share'"
    ):
        POLICIES_OR_ALL.convert("afs-l,equalshare", None, None)
    with pytest.raises(click.BadParameter, match="unknown launcher 'mine:build'"):
        choices.LAUNCHER.convert("mine:build", None, None)
    option = click.Option(["--policies"], type=POLICIES_OR_ALL)
    offered = POLICIES_OR_ALL.shell_complete(click.Context(bftrainer), option, "afs-l,equ")
    assert [item.value for item in offered] == ["afs-l,equal-share"]


def test_the_solvers_offered_are_those_of_the_chain() -> None:
    from bftrainer.decide.allocation.chain import build_allocator

    with pytest.raises(UnknownNameError) as caught:
        build_allocator("", 1.0)
    assert str(caught.value).rpartition("valid: ")[2].split(", ") == sorted(choices.SOLVER.choices)
