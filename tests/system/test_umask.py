"""What a pilot and a driver write is their user's alone, whatever the umask; workers and results
have the user's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_machine import CONFIG, eventually, machine

from bftrainer.system.command import run
from bftrainer.system.files import make_empty_file, write_atomically
from bftrainer.system.umask import private_files, users_mode, users_umask
from bftrainer.wires.task_board import TaskBoard
from bftrainer.wires.task_source import TaskSource


@pytest.fixture(params=[0o000, 0o027])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_of_the_process_are_private_and_those_of_its_user_are_not(
    umask: int, tmp_path: Path
) -> None:
    (tmp_path / "list.txt").write_text("a\n")
    assert users_umask() == umask
    with private_files(), private_files():
        write_atomically(tmp_path / "own", b"")
        TaskBoard(
            TaskSource(tmp_path / "list.txt"), tmp_path / "results", tmp_path / "failures"
        ).close()
        assert run(["sh", "-c", "umask"], timeout_s=60) == f"{umask:04o}\n"
        assert users_mode(0o666) == 0o666 & ~umask
    assert mode(tmp_path / "own") == 0o600
    assert mode(tmp_path / "results") == 0o666 & ~umask
    write_atomically(tmp_path / "later", b"")
    assert mode(tmp_path / "later") == 0o666 & ~umask


def test_a_file_for_a_checkpoint_is_no_other_user_s_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "x.part").symlink_to(tmp_path / "mine")
    make_empty_file(tmp_path / "x.part")
    assert not (tmp_path / "x.part").is_symlink()
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.slow
def test_a_pilot_with_umask_0_writes_nothing_that_others_could_read(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with machine(tmp_path, "n1 n2", CONFIG) as on:
            given = set(on.state.rglob("*"))
            pilot = on.pilot()
            eventually(on.state_is_there, 60)
            on.submit("a", 40)
            eventually(lambda: on.status("a") == "done", 120)
            on.end(pilot)
            files = [path for path in on.state.rglob("*") if path.is_file() and path not in given]
            assert len(files) > 10
            assert {
                str(path.relative_to(on.state)): oct(mode(path))
                for path in files
                if mode(path) & 0o077
            } == {}
            assert mode(on.work / "a.steps") == 0o666, "a worker's file has the umask of its user"
    finally:
        os.umask(before)
