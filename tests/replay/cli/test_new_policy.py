"""``bftrainer policy new``: what it writes passes the conformance suite; names that cannot be."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from replay.commands import executed
from support.command_line import bftrainer, complaint

from bftrainer.system.own_programs import this_interpreter


def test_a_new_policy_passes_its_test_as_printed(tmp_path: Path) -> None:
    out = executed("policy", "new", "my-policy", "--folder", tmp_path / "mine").out
    assert len((tmp_path / "mine" / "my_policy.py").read_text().splitlines()) <= 30
    (line,) = [text for text in out.splitlines() if text.startswith("test it: ")]
    command = line.removeprefix("test it: ").split()
    ended = subprocess.run(
        [this_interpreter(), "-m", *command, "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "8 passed" in ended.stdout
    assert "--policies my_policy:MyPolicy,bftrainer" in out


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("x")
    ended = bftrainer("policy", "new", "mine", "--folder", tmp_path)
    assert "test_mine.py already exists" in complaint(ended)
    assert not (tmp_path / "mine.py").exists()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("My Policy", "expected at most 40 lowercase letters"),
        ("../x", "expected at most 40 lowercase letters"),
        ("a" * 41, "expected at most 40 lowercase letters"),
        ("json", "Python has a module or a keyword of that name"),
        ("class", "Python has a module or a keyword of that name"),
    ],
)
def test_names_that_no_policy_can_have(tmp_path: Path, name: str, problem: str) -> None:
    assert problem in complaint(bftrainer("policy", "new", name, "--folder", tmp_path))
    assert list(tmp_path.iterdir()) == []
