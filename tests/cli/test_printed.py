"""What others wrote reaches a terminal with its control characters as escapes, and JSON as it is."""

from __future__ import annotations

import ast
import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from command_line import bftrainer
from live_house import House, house, spec

from bftrainer.cli.pilot_log import print_fact
from bftrainer.live.facts import NoteAdded
from bftrainer.persistence.registry_writer import RegistryWriter
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.reports import Ending

EVIL = "\x1b[2J\x1b]0;title\x07 \x9b31m \u202egpj.exe \u2028 a\rb"
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]")
CLI = Path(__file__).parents[2] / "bftrainer/cli"


@pytest.fixture
def home(tmp_path: Path) -> House:
    """A trainer whose log ends with terminal escapes, and a note about a file with such a name."""
    home = house(tmp_path / "state")
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    home.at(10, lambda: home.launcher._end("a", Ending.FAILED, EVIL, (EVIL,)))
    home.pilot(12)
    with closing(home.store(writes=True)) as store:
        RegistryWriter(store).note(home.clock.now_s(), "spool", EVIL, EVIL)
    directory = TrainerDirectory.of(home.path, "a")
    directory.incarnation_logs(1).mkdir(parents=True)
    directory.worker_log(1, "n1", "7", 0).write_text(f"tab\tis kept\n{EVIL}\n")
    return home


@pytest.mark.parametrize(
    "command",
    [("events",), ("show", "a"), ("list",), ("logs", "a"), ("top", "--once"), ("nodes", "--all")],
)
def test_no_control_character_is_printed(home: House, command: tuple[str, ...]) -> None:
    ended = bftrainer(*command, "--state", str(home.path))
    assert ended.status == 0, ended.err
    assert UNPRINTABLE.findall(ended.out) == []
    if command[0] != "nodes":
        assert "\\x1b[2J" in ended.out.replace("..", ""), "it is shown"
    if command[0] == "logs":
        assert ended.out.startswith("tab\tis kept\n")


def test_json_is_exact(home: House) -> None:
    ended = bftrainer("events", "--json", "--state", str(home.path))
    found = [json.loads(line)["text"] for line in ended.out.splitlines()]
    assert f"{EVIL}: {EVIL}" in found
    (shown,) = map(json.loads, bftrainer("show", "a", "--json", "--state", str(home.path)).out.splitlines())
    assert EVIL in shown["reason"]


@pytest.mark.parametrize("format", ["text", "json"])
def test_the_pilots_own_lines(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    from bftrainer.cli import pilot_log

    pilot_log._logger.cache_clear()
    print_fact(NoteAdded(1.0, "failure", EVIL, EVIL), format)
    pilot_log._logger.cache_clear()
    (line,) = capsys.readouterr().out.splitlines()
    assert UNPRINTABLE.findall(line) == []
    assert format == "text" or json.loads(line)["text"] == EVIL


def test_an_error_shows_no_control_character() -> None:
    ended = bftrainer("show", EVIL, "--state", EVIL)
    assert ended.status == 2
    assert UNPRINTABLE.findall(ended.err) == []
    assert "\\x1b[2J" in ended.err


def test_one_module_prints() -> None:
    """All other modules of the command line print with its functions."""
    for path in CLI.rglob("*.py"):
        calls = [it.func for it in ast.walk(ast.parse(path.read_text())) if isinstance(it, ast.Call)]
        echoes = [it for it in calls if isinstance(it, ast.Attribute) and it.attr in ("echo", "secho")]
        prints = [it for it in calls if isinstance(it, ast.Name) and it.id == "print"]
        assert not (echoes or prints) or path.name == "output.py", path
