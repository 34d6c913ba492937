"""The last lines of a test run: skips by reason, reruns by name."""

from __future__ import annotations

import os
from pathlib import Path

from support.left_out import LeftOut
from support.ran import python

TESTS = """
import os, pathlib, pytest

@pytest.mark.parametrize("name", ["a.csv", "b.csv"])
def test_data(name):
    pytest.skip(f"real data is missing: {name}, expected in ../data")

@pytest.mark.skip(reason="needs root")
def test_root(): ...

@pytest.mark.flaky(reruns=1)
def test_now_and_then():
    mark = pathlib.Path("ran")
    first = not mark.exists()
    mark.touch()
    assert not first, "the rendezvous timed out"

def test_passes(): ...
"""


def last_lines(folder: Path, *options: str) -> list[str]:
    """The output below pytest's own last line."""
    (folder / "test_some.py").write_text(TESTS)
    (folder / "ran").unlink(missing_ok=True)
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "BFTRAINER_TESTS"))
    }
    argv = (
        "-m",
        "pytest",
        "-p",
        "support.left_out",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        folder,
        *options,
        "test_some.py",
    )
    done = python(*argv, cwd=folder, env={**env, "PYTHONPATH": str(Path(__file__).parents[1])})
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    return lines[max(number for number, line in enumerate(lines) if " passed" in line) + 1 :]


def test_a_run_ends_with_what_it_left_out(tmp_path: Path) -> None:
    expected = [
        "skipped, by reason:",
        "      2  real data is missing",
        "      1  needs root",
        "rerun, each a defect whose cause is to be found:",
        "  test_some.py::test_now_and_then: AssertionError: the rendezvous timed out",
    ]
    assert last_lines(tmp_path) == expected
    assert last_lines(tmp_path, "-n", "2") == expected, "from processes of pytest-xdist as well"
    assert last_lines(tmp_path, "-k", "passes") == []


def test_the_two_parts_of_roots_run_are_summed(tmp_path: Path) -> None:
    first, second = LeftOut(), LeftOut()
    first.skips["real data is missing"] = 2
    second.skips["real data is missing"] = 3
    second.reruns.append("test_a: E")
    second.write(tmp_path / "second")
    first.add(LeftOut.read(tmp_path / "second"))
    first.add(LeftOut.read(tmp_path / "none"))
    assert first.lines() == [
        "skipped, by reason:",
        "      5  real data is missing",
        "rerun, each a defect whose cause is to be found:",
        "  test_a: E",
    ]
