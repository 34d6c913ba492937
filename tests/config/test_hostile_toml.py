"""Configurations and trainer files that used to end in a traceback, in gigabytes, or in a trainer
that could never start.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.command_line import bftrainer, complaint

from bftrainer.config.pilot import read_config
from bftrainer.config.trainer_file import MOST_RATE, read_trainer_file, settle
from bftrainer.config.validation import MOST_BYTES, parse_toml
from bftrainer.errors import InputFileError
from bftrainer.pilot.persistence.spool import Spool

TRAINER = 'name = "a"\ncommand = ["true"]\nmax_nodes = 4\n'


def refused(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(InputFileError) as error:
        settle(read_trainer_file(path), str(path), path.parent, os.environ)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500 + len(str(path))
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a = " + "[" * 5000 + "]" * 5000,
            ":1: is nested too deeply, expected at most 16 levels of brackets",
        ),
        ("\na = " + "{a=" * 5000 + "1" + "}" * 5000, ":2: is nested too deeply"),
        (
            "a" + ".a" * 20 + " = 1",
            ":1: is nested too deeply, expected at most 8 names in a dotted key",
        ),
        ("[a" + ".a" * 20 + "]", ":1: is nested too deeply"),
        ("a = " + "9" * 4301, "is not TOML: Exceeds the limit"),
        ("b.a = " + "9" * 4300, ": b.a: is not a 64-bit integer"),
        ("a = 0x" + "f" * 9000, ": a: is not a 64-bit integer"),
        ("a = 1 # " + "x" * MOST_BYTES, "has more than 262,144 bytes"),
        (TRAINER + "x" * 100_000 + " = 1", "unknown key"),
    ],
)
def test_what_would_exhaust_the_parser_is_one_line(
    tmp_path: Path, text: str, expected: str
) -> None:
    assert expected in refused(tmp_path / "t.toml", text)


@pytest.mark.parametrize(
    "text",
    [
        '# [[[[[[[[[[[[[[[[[[[[[[[[[[\na = "[[[[[[[[[[[[[[[[[[[[[[ # \\" ["\nb = '
        "'[[[[[[[[[[[[[[[[[[[[['\n",
        'a = """\n[[[[[[[[[[[[[[[[[[[[[[[ \\""" """\nb = '
        "'''\n{{{{{{{{{{{{{{{{{{{{{{{{{\n'''\n",
        'a = [1.5, 2.5, "a.b.c.d.e.f.g.h.i.j"]\nb = 1979-05-27T07:32:00.999999\n',
        'a = "' + "x." * 50_000 + '"\n',
    ],
)
def test_comments_and_strings_have_no_depth(text: str) -> None:
    assert parse_toml(text, "t")


def test_unclosed_strings_cost_no_time() -> None:
    for text in (
        'a = """' + '\\"""' * 60_000,
        "a = '''" + "'" * 200_000,
        'a = "' + '\\"' * 100_000,
        '"' * 250_001,
    ):
        with pytest.raises(InputFileError, match="is not TOML"):
            parse_toml(text, "t")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ('cwd = "a\\u0000b"', "cwd: has a NUL character"),
        ('setup = ["a\\u0000b"]', "setup: has a NUL character"),
        ('env = {"A=B" = "1"}', "env: expected names without ="),
        ('env = {"" = "1"}', "env: expected names without ="),
        ('env = {A = "1\\u0000"}', "env: has a NUL character"),
        ('cwd = "' + "x" * 5000 + '"', "cwd: "),
        (
            "samples_per_s = 1.7e308",
            "samples_per_s: input should be less than or equal to 1000000000000000",
        ),
        (f"samples_per_s = {MOST_RATE}", "on 4 nodes is more than 1e+15 samples per second"),
        (
            "curve = {nodes = [1, 4], samples_per_s = [1.0, 1e16]}",
            "less than or equal to 1000000000000000",
        ),
        (
            "samples_per_s = 1e-320\nsamples_total = 1e-320",
            "samples_total: input should be greater than",
        ),
        ("samples_total = 1e300", "samples_total: input should be less than"),
        ("priority = 1e300", "priority: input should be less than"),
        ("scale_up_s = 1e10", "scale_up_s: input should be less than"),
    ],
)
def test_what_no_trainer_can_have_is_refused_where_it_is_read(
    tmp_path: Path, keys: str, expected: str
) -> None:
    assert expected in refused(tmp_path / "t.toml", TRAINER + keys)


def test_a_request_is_checked_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    spec = '{"name": "a", "command": ["true"], "max_nodes": 1, "env": {"A=B": "1"}}'
    text = f'{{"kind": "submit", "trainer": "a", "spec": {spec}}}'
    for number, bad in enumerate((text, text.replace("A=B", "A").replace('"1"}', '"\\u0000"}'))):
        (tmp_path / "spool" / f"{number}.json").write_text(bad)
    assert [received.request for received in Spool(tmp_path).pending()] == [None, None]


@pytest.mark.parametrize("command", [["submit"], ["pilot", "--config"], ["rehearse"]])
def test_the_commands_say_it_in_one_line_with_status_2(tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "t.toml"
    path.write_text("a = " + "[" * 5000)
    words = [] if command[0] == "rehearse" else ["--state", tmp_path / "state"]
    assert "nested too deeply" in complaint(bftrainer(*command, path, *words))


def test_a_configuration_without_an_end_is_not_read_to_it() -> None:
    with pytest.raises(InputFileError, match="has more than"):
        read_config(Path("/dev/zero"))
