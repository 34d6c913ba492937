"""``--help`` is short: at most 15 options of a command, the rest by topic in ``--help-all``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.command_line import bftrainer as ran
from support.command_line import complaint

from bftrainer.console.cli.main import bftrainer
from bftrainer.console.cli.topics import CommandWithTopics, long_name

MOST = 15


def all_commands(
    command: click.Command = bftrainer, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is no group, with the words that call it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from all_commands(inner, (*path, name))


COMMANDS = dict(all_commands())
WITH_TOPICS = {
    path: command for path, command in COMMANDS.items() if isinstance(command, CommandWithTopics)
}


def options_in(text: str) -> list[str]:
    """The long names at the beginning of lines of a help."""
    words = [line.replace(",", " ").split() for line in text.splitlines() if line[:3] == "  -"]
    return [next(word for word in line if word.startswith("--")) for line in words]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_shows_at_most_15_options(path: tuple[str, ...]) -> None:
    options = options_in(ran(*path, "--help").out)
    assert "--help" in options
    assert len(options) <= MOST


@pytest.mark.parametrize("path", WITH_TOPICS, ids=" ".join)
def test_all_options_are_in_the_long_help(path: tuple[str, ...]) -> None:
    command = WITH_TOPICS[path]
    options = {long_name(option) for option in command.params if isinstance(option, click.Option)}
    shown = options_in(ran(*path, "--help-all").out)
    assert sorted(shown) == sorted([*options, "--help"])
    for names in command.topics.values():
        assert options.issuperset(names)


def test_the_short_help_names_the_topics_and_how_many_options_they_have() -> None:
    text = " ".join(ran("submit", "--help").out.split())
    assert "10 more options in --help-all: GPUs; Speed and work; Sweeps." in text
    assert "--samples-total" not in text


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("print('trained')\n")
    return path


@pytest.mark.parametrize(
    ("nodes", "sizes"),
    [("-N4", "1 to 4 nodes"), ("-N2-4", "2 to 4 nodes"), ("--nodes=4-4", "4 nodes")],
)
def test_nodes_are_given_as_for_sbatch(script: Path, nodes: str, sizes: str) -> None:
    ended = ran("submit", "--state", script.parent / "pilot", script, nodes)
    assert ended.status == 0, ended
    assert f"submitted train: {sizes}," in ended.out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("-N", "many"), "expected a number or a range, such as 4 or 1-4"),
        (("-N", "4-1"), "submit: -N 4-1: the first number is the smaller one"),
        (("-N", "4", "--max-nodes", "2"), "submit: -N cannot be combined with --min-nodes"),
    ],
)
def test_a_mistake_in_nodes_is_told(script: Path, options: tuple[str, ...], problem: str) -> None:
    ended = ran("submit", "--state", script.parent / "pilot", script, *options)
    assert problem in complaint(ended)
