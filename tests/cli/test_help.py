"""``--help`` is short: at most 15 options of a command, the rest by topic in ``--help-all``."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import click
import pytest
from support.command_line import bftrainer as ran
from support.command_line import commands, complaint, completed
from support.live_house import house, spec

from bftrainer.console.cli import trainers
from bftrainer.console.cli.tables import name_column, remark_column, table_text
from bftrainer.console.cli.topics import CommandWithTopics, long_name

MOST = 15


COMMANDS = dict(commands())
WITH_TOPICS = {
    path: command for path, command in COMMANDS.items() if isinstance(command, CommandWithTopics)
}


def options_in(text: str) -> list[str]:
    """The long names at the beginning of lines of a help."""
    words = [line.replace(",", " ").split() for line in text.splitlines() if line[:3] == "  -"]
    return [next(word for word in line if word.startswith("--")) for line in words]


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_shows_at_most_15_options(path: str) -> None:
    options = options_in(ran(*path.split(), "--help").out)
    assert "--help" in options
    assert len(options) <= MOST


@pytest.mark.parametrize("path", WITH_TOPICS)
def test_all_options_are_in_the_long_help(path: str) -> None:
    command = WITH_TOPICS[path]
    options = {long_name(option) for option in command.params if isinstance(option, click.Option)}
    shown = options_in(ran(*path.split(), "--help-all").out)
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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_of_completion_is_that_of_the_wheel(shell: str) -> None:
    files = {"bash": "bftrainer", "zsh": "_bftrainer", "fish": "bftrainer.fish"}
    folder = Path(__file__).parents[2] / "packaging" / "completions"
    assert ran("completion", shell).out == (folder / files[shell]).read_text()


def test_completion_knows_the_users_shell() -> None:
    ended = ran("completion", env={"SHELL": "/usr/bin/fish"})
    assert "bftrainer completion fish | source" in ended.err
    unknown = complaint(ran("completion", env={"SHELL": "/bin/tcsh"}))
    assert unknown == "completion: the shell 'tcsh' is unknown; specify bash, zsh, fish"


def test_names_of_trainers_and_groups_are_completed(script: Path) -> None:
    state = ("--state", str(script.parent / "pilot"))
    submit = ("submit", *state, script, "-N1")
    assert ran(*submit).status == ran(*submit, "--name", "other").status == 0
    assert completed("logs", *state, "") == ["other", "train"]
    assert completed("cancel", *state, "train", "") == ["other"]
    assert completed("show", *state, "t") == ["train"]
    assert completed("show", "--state", "/nonexistent", "") == []


def test_groups_are_completed_and_what_ended_within_a_day_is_listed(tmp_path: Path) -> None:
    home = house(tmp_path / "state")
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1, group="sweep"))
    home.at(10, lambda: home.launcher.finish("a"))
    home.pilot(30)
    state = ("--state", str(home.path))
    assert completed("list", *state, "--group", "") == ["sweep"]
    assert "ended more than a day ago: 1 done" in ran("list", *state).out
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainers.time, "time", lambda: 60.0)
        text = ran("list", *state).out
    assert "ended" not in text
    assert [line.split()[:2] for line in text.splitlines() if line.startswith("a ")] == [
        ["a", "done"]
    ]


HOSTILE = (
    "$(touch x)", "a b", "a\nplain,`id`", "a;id", "-n", "'", "a\x1b[2J", "a*", "~root", "{a,b}",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_a_shell_could_run_is_not_completed(tmp_path: Path, name: str) -> None:
    """bash puts what it completes on the command line without quotes."""
    home = house(tmp_path / "state")
    home.submit(spec("a", max_nodes=1, group="sweep"))
    home.submit(spec("b", max_nodes=1, group="other"))
    home.pilot(30)
    with closing(sqlite3.connect(home.path / "pilot.db")) as database, database:
        group = json.dumps(name)[1:-1]
        database.execute(
            "UPDATE trainers SET name = ?, spec = replace(spec, 'sweep', ?) WHERE name = 'a'",
            (name, group),
        )
    state = ("--state", str(home.path))
    assert completed("show", *state, "") == ["b"]
    assert completed("list", *state, "--group", "") == ["other"]


def test_the_rows_of_a_table_have_colors() -> None:
    """A row of several lines has one color, its head none of it."""
    columns = (name_column("name"), remark_column("remark"))
    table = table_text(columns, [("a", "a remark " * 9), ("b", "")], 60)
    assert [table.row_of(index) for index in range(len(table.lines))] == [None, None, 0, 0, 0, 1]


def test_the_events_command_verifies_the_journal(tmp_path: Path) -> None:
    home = house(tmp_path / "state")
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    home.pilot(30)
    ended = ran("events", "--verify", "--state", home.path)
    assert ended.status == 0
    assert "0 differ" in ended.out
    assert ended.out == ran("replay", "journal", home.path).out


def test_a_trainer_without_nodes_waits_whatever_it_waits_for(tmp_path: Path) -> None:
    """The remark says for what; JSON tells the states apart."""
    home = house(tmp_path / "state", decisions={"max_parallel": 1})
    home.cluster.give("n1")
    home.submit(spec("first", max_nodes=1))
    home.submit(spec("second", max_nodes=1))
    home.pilot(30)
    home.submit(spec("third", max_nodes=1))
    state = ("--state", home.path)
    lines = ran("list", *state).out.splitlines()
    waiting = [line for line in lines if line.split()[1:2] == ["waiting"]]
    assert [line.split()[0] for line in waiting] == ["second", "third"]
    assert "not admitted yet: others are before it (bftrainer explain second)" in waiting[0]
    rows = map(json.loads, ran("list", "--json", *state).out.splitlines())
    statuses = {row["name"]: row["status"] for row in rows}
    assert (statuses["second"], statuses["third"]) == ("queued", "submitted")
