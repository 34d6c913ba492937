"""Files, locks and users, as the kernel has them."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from bftrainer.system.files import write_atomically
from bftrainer.system.regular import stamp_of


def test_a_file_is_written_without_touching_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


WITHOUT_LOCKS = """
import errno, fcntl, os, sys
def flock(handle, how):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
fcntl.flock = flock
from bftrainer.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def test_a_file_system_without_locks_is_one_line(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "bftrainer.toml").write_text("[trace]\nlog = 'log.csv'\n[nodes]\nholder = 'trace'\n")
    (state / "log.csv").write_text("time,joined,left\n2021-01-01T00:00:00.000,n1,\n2021-01-01T01:00:00.000,,n1\n")
    argv = [sys.executable, "-c", WITHOUT_LOCKS, "pilot", "--state", str(state)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr == (
        f"bftrainer: {state}: cannot be locked (No locks available); expected a directory on a file system with locks (flock)\n"
    )


NAMES = """
from bftrainer_adapters.slurm.hold import _Slurm
from bftrainer_adapters.slurm.observe import SlurmScheduler
from bftrainer_adapters.lsf.hold import _Lsf
from dataclasses import fields
for kind in (_Slurm, SlurmScheduler, _Lsf):
    (field,) = (it for it in fields(kind) if it.name == "user")
    print(field.default_factory())
"""


def test_variables_do_not_say_who_this_is() -> None:
    """``LOGNAME=root`` would turn the guard for PrivateData off."""
    liar = {"LOGNAME": "somebody", "USER": "somebody", "LNAME": "somebody", "USERNAME": "somebody"}
    argv = [sys.executable, "-c", NAMES]
    said = subprocess.run(argv, capture_output=True, text=True, env=os.environ | liar, check=True, timeout=120).stdout
    assert set(said.split()) == {pwd.getpwuid(os.getuid()).pw_name}


FULL = """
import resource, sys
from bftrainer.cli.main import run
resource.setrlimit(resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
sys.exit(run(sys.argv[1:]))
"""


def test_a_submission_to_a_full_disk_is_one_line(tmp_path: Path) -> None:
    state = tmp_path / "state"
    options = ["--name", "a", "--max-nodes", "1", "--state", str(state), "--", "true"]
    argv = [sys.executable, "-c", FULL, "submit", *options]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60 * PATIENCE, check=False, cwd=tmp_path)
    assert ended.returncode == 1, ended.stderr
    problem = f"{state}/spool: the request cannot be written: File too large; nothing has changed"
    assert ended.stderr == f"bftrainer: {problem}\n"
    assert list((state / "spool").iterdir()) == []


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
