"""Files, locks and users, as the kernel has them."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest
from support.ran import python

from bftrainer.console.cli.doctor.shared_files import judge_mount
from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.errors import InvalidValueError
from bftrainer.system.files import remove_file, remove_folder, remove_leftovers, write_atomically
from bftrainer.system.mounts import Mount, find_mount, mount_of
from bftrainer.system.regular import stamp_of


def test_a_file_is_written_without_touching_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even for an instant another thread would create files that everybody can write."""
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask is changed"))
        write_atomically(tmp_path / "new" / "file", b"x")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new" / "file").stat().st_mode) == 0o640
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


def test_removing_a_folder_raises_nothing_and_leaves_nothing_at_its_path(tmp_path: Path) -> None:
    """A folder with a file that cannot be deleted, as one in which another process still writes
    ("Directory not empty").
    """
    folder, locked = tmp_path / "holder", tmp_path / "holder" / "work"
    locked.mkdir(parents=True)
    (locked / "out").touch()
    locked.chmod(0o500)
    assert remove_folder(folder)
    assert not folder.exists()
    assert remove_folder(folder), "it has been removed"
    (hidden,) = tmp_path.iterdir()
    (hidden / "work").chmod(0o700)
    remove_leftovers(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_what_cannot_be_removed_is_said_and_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "holder"
    folder.mkdir()
    tmp_path.chmod(0o500)
    try:
        assert not remove_folder(folder)
        remove_file(folder)
        remove_file(tmp_path / "none")
        remove_leftovers(tmp_path / "none")
    finally:
        tmp_path.chmod(0o700)
    assert [*tmp_path.iterdir()] == [folder]


WITHOUT_LOCKS = """
import errno, fcntl, os, sys
def flock(handle, how):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
fcntl.flock = flock
from bftrainer.console.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def test_a_file_system_without_locks_is_one_line(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "bftrainer.toml").write_text("[trace]\nlog = 'log.csv'\n[nodes]\nholder = 'trace'\n")
    (state / "log.csv").write_text(
        "time,joined,left\n2021-01-01T00:00:00.000,n1,\n2021-01-01T01:00:00.000,,n1\n"
    )
    ended = python("-c", WITHOUT_LOCKS, "pilot", "--state", state)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr == (
        f"bftrainer: {state}: cannot be locked (No locks available); expected a directory on a "
        "file system with locks (flock)\n"
    )


NAMES = """
from bftrainer_clusters.slurm.hold import _Slurm
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.lsf.hold import LsfCluster
from bftrainer.system.clock import SystemClock
from dataclasses import fields
for kind in (_Slurm, SlurmCalls):
    (field,) = (it for it in fields(kind) if it.name == "user")
    print(field.default_factory())
print(LsfCluster(LsfSettings(queue="idle", slots_per_node=1), SystemClock()).user)
"""


def test_variables_do_not_say_who_this_is() -> None:
    """``LOGNAME=root`` would turn the guard for PrivateData off."""
    liar = {"LOGNAME": "somebody", "USER": "somebody", "LNAME": "somebody", "USERNAME": "somebody"}
    said = python("-c", NAMES, env=os.environ | liar, check=True).stdout
    assert set(said.split()) == {pwd.getpwuid(os.getuid()).pw_name}


def test_a_stamp_changes_with_a_file_that_is_replaced_by_one_of_its_size(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    seen = [stamp_of(path)]
    for text in (b"n1:1:0\n", b"n2:1:0\n", b"n1:1:0\n"):
        write_atomically(path, text)
        seen.append(stamp_of(path))
        assert stamp_of(path) == seen[-1]
    path.unlink()
    os.mkfifo(path)
    assert seen[0] is stamp_of(path) is None
    assert len(set(seen)) == 4


# --- Which file system holds a path. Lines as proc(5) and the clients' kernels write them

INFO = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
40 22 0:45 / /home rw,relatime shared:2 - nfs4 nas:/home rw,vers=4.2,rsize=1048576,hard,proto=tcp,sec=sys,local_lock=none
41 22 0:46 / /my\040data rw,relatime - nfs nas:/data rw,vers=3,nolock,acregmin=1,acdirmax=20,lookupcache=positive
42 22 0:47 / /scratch rw - lustre 10.0.0.1@o2ib:/scratch rw,flock,user_xattr
"""


@pytest.mark.parametrize(
    ("path", "device", "kind", "point"),
    [
        ("/home/ann/.bftrainer", "0:45", "nfs4", "/home"),
        ("/homeless", "8:1", "ext4", "/"),
        ("/my data/x", "0:46", "nfs", "/my data"),
        ("/scratch", "0:47", "lustre", "/scratch"),
        ("/scratch/x", "9:9", "lustre", "/scratch"),
    ],
)
def test_the_longest_mount_point_counts(path: str, device: str, kind: str, point: str) -> None:
    found = find_mount(INFO, path, device)
    assert (found.kind, found.point) == (kind, point)


def test_options_of_the_mount_and_of_the_super_block() -> None:
    found = find_mount(INFO, "/my data", "0:46")
    assert found.source == "nas:/data"
    assert (
        found.options.items()
        >= {"relatime": "", "nolock": "", "acdirmax": "20", "lookupcache": "positive"}.items()
    )


def test_nothing_is_found_in_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="lists no mount above /x"):
        find_mount("garbage\n1 2 3 - x\n", "/x", "1:1")
    assert mount_of(tmp_path).point == "/" or str(tmp_path).startswith(mount_of(tmp_path).point)


@pytest.mark.parametrize(
    ("kind", "options", "here", "status", "words"),
    [
        (
            "nfs4",
            "vers=4.2",
            False,
            CheckStatus.OK,
            "acdirmax=60, vers=4.2; requests from other hosts are seen within 60 s",
        ),
        ("nfs", "acdirmax=20", False, CheckStatus.OK, "seen within 20 s"),
        ("nfs", "nocto", False, CheckStatus.BROKEN, "nocto hides the writes of other hosts"),
        ("nfs", "nolock", False, CheckStatus.WARNING, "locks hold on this host only"),
        ("nfs4", "local_lock=all", False, CheckStatus.WARNING, "locks hold on this host only"),
        ("nfs4", "local_lock=none", False, CheckStatus.OK, "local_lock=none"),
        ("lustre", "flock", False, CheckStatus.OK, "keeps hosts coherent"),
        ("lustre", "localflock", False, CheckStatus.WARNING, "localflock"),
        ("gpfs", "", False, CheckStatus.OK, "keeps hosts coherent"),
        ("ext4", "", False, CheckStatus.WARNING, "a file system of this host only"),
        ("ext4", "", True, CheckStatus.OK, "on this host"),
        ("fuse.sshfs", "", False, CheckStatus.WARNING, "unknown caches"),
        ("fuse.sshfs", "", True, CheckStatus.OK, "fuse.sshfs"),
    ],
)
def test_what_doctor_says_of_a_file_system(
    kind: str, options: str, here: bool, status: CheckStatus, words: str
) -> None:
    given = {name: value for name, _, value in (word.partition("=") for word in options.split(","))}
    check = judge_mount(Mount("/x", kind, "nas:/x", given), here)
    assert check.state is status
    assert words in check.detail
    assert bool(check.remedy) is (status is not CheckStatus.OK)
