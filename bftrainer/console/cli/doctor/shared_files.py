"""The state directory's file system: whether hosts see each other's files in time, and whether
locks work.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import CommandError, InvalidValueError
from bftrainer.fragment_names import is_fragment_name
from bftrainer.plugin_traits import site_traits
from bftrainer.system.command import outcome
from bftrainer.system.mounts import Mount, mount_of
from bftrainer.system.own_programs import plain_code_command

_LOCAL = {"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
_COHERENT = {"beegfs", "ceph", "gpfs", "lustre"}
_NFS_DEFAULTS = {"acregmin": "3", "acregmax": "60", "acdirmin": "30", "acdirmax": "60"}
_LOCK_S = 30.0
_OTHER_PROCESS = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(0)
sys.exit(1)
"""


def examine_files(folder: Path, holder: str, runs_here: bool) -> list[Check]:
    """Run all checks of the files that hosts share.

    ``holder`` is that of the configuration. ``runs_here``: no other host needs the directory.
    """
    try:
        files = judge_mount(mount_of(folder), runs_here)
    except (OSError, InvalidValueError) as error:
        files = Check.warning("files", f"{folder}: unknown file system: {error}", "mount /proc")
    checks = [files, _check_locks(folder)]
    if not runs_here:
        checks.append(_check_visibility(folder, holder))
    return checks


def judge_mount(mount: Mount, runs_here: bool) -> Check:
    """Judge a file system by its type and options: whether its caches and locks are safe between
    hosts. ``runs_here``: no other host needs it.
    """
    name = f"{mount.kind} ({mount.source})"
    if mount.kind in ("nfs", "nfs4"):
        return _judge_nfs(name, mount)
    if mount.kind == "lustre" and "localflock" in mount.options:
        return Check.warning(
            "files", f"{name}: localflock: locks hold on this host only", "mount it with flock"
        )
    if mount.kind in _COHERENT:
        return Check.ok("files", f"{name}: keeps hosts coherent")
    is_local = mount.kind in _LOCAL
    if runs_here:
        return Check.ok("files", f"{name}, on this host" if is_local else name)
    if is_local:
        remedy = "use a directory that all nodes mount, unless this host exports it to them"
        return Check.warning("files", f"{name}: a file system of this host only", remedy)
    remedy = "read about its caches in docs/shared-files.md"
    return Check.warning("files", f"{name}: unknown caches", remedy)


def _judge_nfs(name: str, mount: Mount) -> Check:
    """Judge the mount options of NFS: ``nocto`` hides writes, ``nolock`` and ``local_lock`` limit
    locks to a host.
    """
    options = mount.options
    texts = [f"{key}={options.get(key, default)}" for key, default in _NFS_DEFAULTS.items()]
    texts += [
        f"{key}={options[key]}" for key in ("vers", "lookupcache", "local_lock") if key in options
    ]
    texts += [key for key in ("noac", "nocto", "nolock", "soft") if key in options]
    detail = f"{name}: {', '.join(texts)}"
    if "nocto" in options:
        remedy = "mount it without nocto: `open` must ask the server"
        return Check(
            "files", CheckStatus.BROKEN, f"{detail}; nocto hides the writes of other hosts", remedy
        )
    if "nolock" in options or options.get("local_lock", "none") != "none":
        remedy = (
            "mount it without nolock and local_lock, or run pilots and commands on this host only"
        )
        return Check.warning("files", f"{detail}; locks hold on this host only", remedy)
    return Check.ok(
        "files",
        f"{detail}; requests from other hosts are seen within {options.get('acdirmax', '60')} s",
    )


def _check_locks(folder: Path) -> Check:
    """Check that the locks of drivers (flock) and of SQLite (fcntl) work, on a file that is deleted
    again.
    """
    path = folder / f".doctor.{secrets.token_hex(6)}"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return Check.broken(
            "locks",
            f"{folder}: {error.strerror}",
            "make the directory writable, or free some space",
        )
    try:
        for kind, is_exclusive in (("flock", _is_flock_exclusive), ("fcntl", _is_fcntl_exclusive)):
            problem = _lock_problem(is_exclusive, handle, path)
            if problem:
                remedy = "NFSv3 needs lockd (no option nolock), Lustre the mount option flock"
                return Check.broken("locks", f"{kind}: {problem}", remedy)
    finally:
        os.close(handle)
        with suppress(OSError):
            path.unlink()
    return Check.ok("locks", "flock and fcntl work between processes of this host")


def _is_flock_exclusive(handle: int, path: Path) -> bool:
    """Lock an open file by flock; return whether a second lock of the file is refused."""
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    second_handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(second_handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(second_handle)
    return False


def _is_fcntl_exclusive(handle: int, path: Path) -> bool:
    """Lock an open file by fcntl; return whether the lock is refused to another process.

    These locks belong to processes: this one could lock the file twice.
    """
    fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return outcome(plain_code_command(_OTHER_PROCESS, str(path)), timeout_s=_LOCK_S).status == 0


def _lock_problem(is_exclusive: Callable[[int, Path], bool], handle: int, path: Path) -> str:
    """Say why a kind of lock does not work on a file; empty if it does."""
    try:
        return "" if is_exclusive(handle, path) else "two processes got the same lock"
    except (OSError, CommandError) as error:
        return getattr(error, "strerror", None) or str(error)


def _check_visibility(folder: Path, holder: str) -> Check:
    """Check that nodes see the state directory and may write there, by the marks that holders'
    payloads leave. ``holder`` names the site.

    Without a mark, nothing is known, and the check is fine: it shows a command to try.
    """
    try:
        folders = [path for path in (folder / "holders").iterdir() if is_fragment_name(path.name)]
        nodes = sorted(
            path.name.partition("#")[0] for path in folders if (path / "ready").read_bytes()
        )
    except OSError:
        nodes = []
    if nodes:
        return Check.ok(
            "nodes",
            f"{counted(len(nodes), 'node')}, such as {nodes[0]}, see the directory: their "
            "holders have written there",
        )
    test_command = site_traits(holder).try_on_node.format(f"ls -d {folder}")
    return Check.ok(
        "nodes",
        "not tried whether nodes see the directory, since no holder runs; to try it: "
        f"`{test_command}`",
    )
