"""Two hosts that share a folder through caches like those of NFS (caching_fs.py). Needs root,
/dev/fuse and pyfuse3.

pyfuse3 has no wheels; the distribution's package serves its own Python, which is all that the file
system's process needs.

``one`` and ``other`` are the folder as the two hosts see it. What one of them has looked for in
vain stays missing for it for ``CACHED_S``, which is longer than any test waits.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from support.live_machine import eventually

CACHED_S = 3600.0
_SERVER = Path(__file__).parent / "caching_fs.py"


@dataclass(frozen=True)
class TwoHosts:
    one: Path
    other: Path

    def prefix(self) -> list[str]:
        """Starts a command on the other host: it finds that host's view at the path of this
        one's.
        """
        script = f"mount --bind '{self.other}' '{self.one}' && exec \"$@\""
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]


@cache
def _python() -> str:
    """A Python that has pyfuse3; empty if there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError):
            if (
                subprocess.run(
                    [python, "-c", "import pyfuse3"], capture_output=True, check=False
                ).returncode
                == 0
            ):
                return python
    return ""


def why_not() -> str:
    """Why there can be no such file system here; empty if there can be one."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not os.access("/dev/fuse", os.W_OK):
        return "no /dev/fuse"
    if not _python():
        return "no pyfuse3 (apt install python3-pyfuse3)"
    missing = [name for name in ("fusermount3", "unshare", "mount") if shutil.which(name) is None]
    return f"no {', '.join(missing)}" if missing else ""


@contextmanager
def two_hosts(folder: Path, cached_s: float = CACHED_S) -> Iterator[TwoHosts]:
    """The folder of a real file system, mounted twice. Skips the test where that is impossible."""
    if reason := why_not():
        pytest.skip(f"no file system with caches like NFS: {reason}")
    behind = folder / "behind"
    behind.mkdir()
    behind.chmod(0o700)
    with ExitStack() as mounted:
        made = []
        for name in ("one", "other"):
            point = folder / name
            point.mkdir(mode=0o700)
            made.append(mounted.enter_context(_mounted(behind, point, cached_s))[0])
        yield TwoHosts(*made)


@contextmanager
def one_host(folder: Path) -> Iterator[tuple[Path, int]]:
    """A folder, and the PID of its server: while that is stopped, all users of the folder wait."""
    if reason := why_not():
        pytest.skip(f"no file system that can be stopped: {reason}")
    for name in ("behind", "shared"):
        (folder / name).mkdir(mode=0o700)
    with _mounted(folder / "behind", folder / "shared", 0.0) as made:
        yield made


@contextmanager
def _mounted(behind: Path, point: Path, cached_s: float) -> Iterator[tuple[Path, int]]:
    argv = [_python(), str(_SERVER), str(behind), str(point), str(cached_s)]
    with (point.parent / f"{point.name}.log").open("wb") as log:
        server = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        eventually(lambda: point.is_mount() or server.poll() is not None)
        if server.poll() is not None:
            log_text = (point.parent / f"{point.name}.log").read_text()
            pytest.skip(
                f"no file system with caches like NFS: {log_text.strip().splitlines()[-1:]}"
            )
        yield point, server.pid
    finally:
        subprocess.run(["umount", "--lazy", str(point)], check=False, capture_output=True)
        if server.poll() is None:
            server.terminate()
        server.wait()
