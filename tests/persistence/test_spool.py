"""The spool: submitted requests are on disk; files of other users are not read."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from support.live_house import spec

from bftrainer.errors import StateDirError
from bftrainer.pilot.persistence.spool import MAX_BYTES, Request, RequestKind, Spool, open_state_dir

REQUEST = Request(kind=RequestKind.CANCEL, trainer="a")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    (tmp_path / "s").mkdir(mode=0o700)
    it = Spool(tmp_path / "s")
    it.put(REQUEST)
    return it


def only(spool: Spool) -> str:
    """The refusal of the one file that is not the good one."""
    found = [r for r in spool.pending() if r.request is None]
    assert len(spool.pending()) == 2
    assert len(found) == 1
    spool.put_aside(found[0].name)
    assert [r.request for r in spool.pending()] == [REQUEST]
    return found[0].rejection


def test_what_is_put_comes_back_in_order(spool: Spool) -> None:
    spool.put(Request(kind=RequestKind.SUBMIT, trainer="b", spec=spec("b"), owner="me"))
    first, second = spool.pending()
    assert first.request == REQUEST
    assert second.request.spec == spec("b")
    spool.remove(first.name)
    spool.remove(first.name)
    assert [r.name for r in spool.pending()] == [second.name]


def _linked(path: Path, make: Callable[[Path, Path], object]) -> None:
    other = path.parents[2] / "other"
    other.write_text(REQUEST.model_dump_json())
    make(path, other)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(here)


GARBAGE = (
    b"",
    b"{",
    b"[]",
    b"\xff\xff",
    b'{"kind": "explode", "trainer": "a"}',
    b'{"a": ' * 20_000,
)
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a symbolic link": (lambda path: _linked(path, Path.symlink_to), "symbolic link"),
    "two names": (lambda path: _linked(path, Path.hardlink_to), "has 2 hard links, expected one"),
    "huge": (lambda path: (path.touch(), os.truncate(path, MAX_BYTES * 1000)), "expected at most"),
    "a pipe": (os.mkfifo, ""),
    "a folder": (Path.mkdir, ""),
    "a socket": (_socket, ""),
    **{
        f"garbage {n}": (lambda path, data=data: path.write_bytes(data), "is not a request")
        for n, data in enumerate(GARBAGE)
    },
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_request_is_refused_and_put_aside(spool: Spool, what: str) -> None:
    make, words = REFUSED[what]
    make(spool.path / "0.json")
    assert words in (refused := only(spool))
    assert refused
    assert (spool.path.parents[1] / "other").exists() == ("link" in what or "names" in what)


def test_somebody_elses_file(tmp_path: Path, spool: Spool) -> None:
    """The kernel's word for the owner counts: the same files, read on behalf of another uid."""
    foreign = Spool(tmp_path / "s", uid=os.getuid() + 1)
    assert [r.rejection for r in foreign.pending()] == [
        f"belongs to uid {os.getuid()}, expected {os.getuid() + 1}"
    ]


def test_a_half_written_file_is_invisible(spool: Spool) -> None:
    (spool.path / ".1.json").write_text("{")
    assert len(spool.pending()) == 1


def test_the_spool_itself_as_a_link(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "s" / "spool").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateDirError, match="is not a folder, or a link to one"):
        Spool(tmp_path / "s").put(REQUEST)


def test_state_directories_that_others_could_change(tmp_path: Path) -> None:
    fine = open_state_dir(tmp_path / "fine", create=True)
    assert fine.stat().st_mode & 0o777 == 0o700
    fine.chmod(0o750)
    with pytest.raises(StateDirError, match="has mode 750, expected 700"):
        open_state_dir(fine)
    open_parent = tmp_path / "open"
    (open_parent / "s").mkdir(parents=True, mode=0o700)
    open_parent.chmod(0o777)
    with pytest.raises(StateDirError, match="others could replace"):
        open_state_dir(open_parent / "s")
    open_parent.chmod(0o1777)
    (open_parent / "s").chmod(0o700)
    open_state_dir(open_parent / "s")


@pytest.mark.root
def test_state_directories_of_others(tmp_path: Path) -> None:
    folder = open_state_dir(tmp_path / "parent" / "s", create=True)
    os.chown(folder, 12345, -1)
    with pytest.raises(StateDirError, match="belongs to uid 12345"):
        open_state_dir(folder)
    os.chown(folder, 0, -1)
    os.chown(folder.parent, 12345, -1)
    with pytest.raises(StateDirError, match="who could replace"):
        open_state_dir(folder)


def test_a_folder_that_comes_twice_is_rejected_once_each(spool: Spool) -> None:
    """A folder cannot replace one in ``rejected`` that is not empty."""
    for _ in range(3):
        (spool.path / "0.json").mkdir()
        (spool.path / "0.json" / "x").touch()
        assert only(spool)


def test_what_cannot_be_moved_away_is_rejected_once(spool: Spool) -> None:
    (spool.path / "rejected").touch()  # a file in its place
    (spool.path / "0.json").mkdir()
    (spool.path / "0.json" / "x").touch()
    assert only(spool)
    assert (spool.path / "0.json").exists()


def test_the_owner_is_the_one_of_the_file(spool: Spool) -> None:
    spool.put(Request(kind=RequestKind.SUBMIT, trainer="b", spec=spec("b"), owner="somebody-else"))
    assert {r.request.owner for r in spool.pending() if r.request and r.request.spec} == {
        pwd.getpwuid(os.getuid()).pw_name
    }
