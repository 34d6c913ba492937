"""The command group: every command has help with an example; user errors are one line and status
2.
"""

from __future__ import annotations

import click
import pytest
from support.command_line import bftrainer, commands, complaint

from bftrainer import __version__
from bftrainer.console.cli.synonyms import SYNONYMS
from bftrainer.console.cli.tables import name_column, say_paragraphs, show_table

COMMANDS = dict(commands())


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_help_with_an_example(path: str) -> None:
    ended = bftrainer(*path.split(), "--help")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith(f"Usage: bftrainer {path}")
    assert f"bftrainer {path}" in ended.out.split("Example:")[1]
    for option in COMMANDS[path].params:
        assert not isinstance(option, click.Option) or option.help, option.opts[0]


def test_without_a_command_the_help_is_shown_with_status_2() -> None:
    for arguments, heading in (((), "Trainings:"), (("replay",), "Commands:")):
        ended = bftrainer(*arguments)
        assert ended.status == 2
        assert heading in ended.out + ended.err


def test_version() -> None:
    assert bftrainer("--version").out == f"bftrainer, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("submti",), "No such command 'submti'. Did you mean `bftrainer submit`?"),
        (("characterise", "x.csv"), "Did you mean `bftrainer replay characterize`?"),
        (("replay", "advise", "x.csv"), "Did you mean `bftrainer advise`?"),
        (("policy", "nwe"), "No such command 'nwe'"),
        (("xyzzy",), "No such command 'xyzzy'. See `bftrainer --help`."),
        (("status",), "No such command 'status'. Did you mean `bftrainer list`?"),
        (("stauts",), "Did you mean `bftrainer list`?"),
        (("lsit",), "Did you mean `bftrainer list`?"),
        (("scale", "a", "4"), "No such command 'scale'. See `bftrainer --help`."),
        (("wait", "a"), "No such command 'wait'. See `bftrainer --help`."),
        (("details", "a"), "Did you mean `bftrainer show`?"),
        (("ls", "-l"), "Did you mean `bftrainer list`?"),
        (("SQUEUE",), "Did you mean `bftrainer list`?"),
        (("kill", "a"), "Did you mean `bftrainer cancel`?"),
        (("stop",), "Did you mean `bftrainer cancel`?"),
        (("run", "train.py"), "Did you mean `bftrainer submit` or `bftrainer replay run`?"),
        (("tail", "a"), "Did you mean `bftrainer logs -f`?"),
        (("replay", "qdel"), "Did you mean `bftrainer cancel`?"),
        (("policy", "ls"), "Did you mean `bftrainer policy list`?"),
        (("version",), "Did you mean `bftrainer --version`?"),
        (("explain",), "expected the NAME of a training, or --user"),
        (("explain", "x", "--att", "14:05"), "No such option"),
        (("replay", "run", "--out", "y"), "Missing argument 'LOG...'"),
        (("advise",), "'LOG...'; expected for example: bftrainer advise log.csv.gz --out advice"),
        (("submit", "n.ipynb", "-N", "2"), "jupyter nbconvert --to script n.ipynb"),
        (
            ("submit", "--name", "a", "--set", "model=resnet", "-N", "2", "--", "true"),
            "where text has quotes, as in --set 'model=\"resnet\"'",
        ),
        (("replay", "generate", "--days", "soon"), "not a valid float"),
    ],
)
def test_misuse_is_one_line(arguments: tuple[str, ...], text: str) -> None:
    assert text in complaint(bftrainer(*arguments))


@pytest.mark.parametrize("target", sorted({*SYNONYMS.values()}))
def test_what_is_suggested_for_the_words_of_other_systems_works(target: str) -> None:
    command, *options = target.partition(" -")[0], target.partition(" ")[2]
    shown = bftrainer(*command.split(), *([] if command.startswith("-") else ["--help"]))
    assert shown.status == 0
    assert all(option in shown.out for option in options if option.startswith("-"))
    for word in [word for word, its in SYNONYMS.items() if its == target]:
        assert f"No such command {word!r}. Did you mean `bftrainer {target}`" in bftrainer(word).err


def test_a_table_shows_brackets_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    show_table((name_column("remedy"),), (("pip install 'bftrainer[gurobi]'",),))
    assert "pip install 'bftrainer[gurobi]'" in capsys.readouterr().out


def test_prose_is_wrapped_between_words_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"Idle: {'a long line of words ' * 10}\nshort"
    say_paragraphs(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    say_paragraphs(text)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.startswith("  ") for line in lines] == [False, True, True, False]
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())
