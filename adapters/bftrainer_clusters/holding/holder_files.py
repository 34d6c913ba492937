"""The leases of fragments (``holders/NODE#JOB/lease``), their renewal (``holders/renewed``), and
the payloads' marks.

One file renews the leases of all fragments that name this pilot; payload.py reads both files. A
released fragment must not be renewed: if its lease cannot be changed, the pilot takes another name
and writes that into all other leases.

Files are rewritten in place. That works on a full disk; a reader that sees half of a write takes it
for no renewal or for a new one; and network file systems show it at the next open.

A payload's marks, ``ready`` and ``leaving``, exist from the beginning and are empty: a host that
once found no file would not look again for up to a minute (docs/shared-files.md). The payload
replaces them by rename.
"""

from __future__ import annotations

import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path

from bftrainer.fragment_names import is_fragment_name, is_one_of_several, job_of, node_of
from bftrainer.system.files import remove_file, remove_folder, remove_leftovers
from bftrainer.system.shared_files import ensure_exists
from bftrainer_clusters.on_node.payload import RELEASED

SEVERAL = "several"
"""What a log's name has in place of a node's name, for a holder of several nodes."""
_NAME_BYTES = 8
_LEASE_BYTES = 20
_LOG_END_BYTES = 500
_MARK_BYTES = 500
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class HolderFiles:
    """The files of all fragments, in the folder ``holders``: leases, marks and logs."""

    def __init__(self, holders: Path) -> None:
        self.root = holders
        self._prefix = f"{holders}/"  # files below it are read hundreds of times a second
        # Names of fragments: whose leases this pilot renews, whose leases do not name this pilot
        # yet, and whose folders are complete.
        self._renewed_names: set[str] = set()
        self._unwritten_names: set[str] = set()
        self._complete_names: set[str] = set()
        self._renewal_count = 0
        self._pilot_name = secrets.token_hex(_NAME_BYTES).encode()
        self._lock = threading.RLock()  # leases are renewed by a thread of their own
        holders.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_leftovers(holders)
        with suppress(OSError):  # a pilot without a disk does not renew: see below
            ensure_exists(holders / "renewed")  # before a payload looks for it

    def hold(self, name: str) -> None:
        """Give this pilot the lease of the fragment. A lease that cannot be written now is written
        by the next :meth:`renew` that can.
        """
        with self._lock:
            self._renewed_names.add(name)
            if not self._write_lease(name, self._pilot_name):
                self._unwritten_names.add(name)

    def renew(self) -> None:
        """Renew the leases of all fragments that this pilot holds, after writing those that do not
        name it yet.
        """
        with self._lock:
            self._unwritten_names = {
                name
                for name in self._unwritten_names & self._renewed_names
                if not self._write_lease(name, self._pilot_name)
            }
            self._renewal_count += 1
            # If the write fails, holders end after lease_s, as they should when the pilot has no
            # disk.
            text = b"%b %020d\n" % (self._pilot_name, self._renewal_count)
            _write_in_place(f"{self._prefix}renewed", text)

    def mark_released(self, name: str) -> None:
        """Make the payload end by itself within a second, even while the scheduler does not
        answer.
        """
        with self._lock:
            is_released = self._write_lease(name, RELEASED)
            self._stop_renewing(name, names_this_pilot=not is_released)

    def ready(self, name: str) -> str:
        """Return what the payload wrote when it had started; empty before."""
        return _read_start(f"{self._prefix}{name}/ready").decode(errors="replace")

    def leaving(self, name: str) -> str | None:
        """Return what the payload wrote when it left; None if it has not left."""
        return _read_start(f"{self._prefix}{name}/leaving").decode(errors="replace").strip() or None

    def log(self, node: str, job: str) -> Path:
        """Return the file of a holder's output, for one node or for :data:`SEVERAL`; the scheduler
        fills in a job ``%j`` (LSF: ``%J``).
        """
        return self.root / f"{node}.{job}.log"

    def log_end(self, name: str) -> str | None:
        """Return the last three lines of the holder's output, joined by " / "; None if there is no
        such file.
        """
        try:
            data = self._log_of(name).read_bytes()[-_LOG_END_BYTES:]
        except OSError:
            return None
        return " / ".join(data.decode(errors="replace").strip().splitlines()[-3:])

    def remove(self, name: str) -> None:
        """Delete the files of a fragment that is gone. All fragments of a job have one log,
        which is deleted with the last of them.
        """
        with self._lock:
            self._complete_names.discard(name)
            remove_folder(self.root / name)
            has_lease = os.access(f"{self._prefix}{name}/lease", os.F_OK)
            self._stop_renewing(name, names_this_pilot=has_lease)
            jobs = map(job_of, self._renewed_names)
            is_last_of_job = not is_one_of_several(name) or job_of(name) not in jobs
        if is_last_of_job:
            remove_file(self._log_of(name))

    def _log_of(self, name: str) -> Path:
        return self.log(SEVERAL if is_one_of_several(name) else node_of(name), job_of(name))

    def names(self) -> list[str]:
        """Return every fragment that has a folder, by name."""
        return sorted(
            path.name
            for path in self.root.iterdir()
            if is_fragment_name(path.name) and path.is_dir()
        )

    def _stop_renewing(self, name: str, names_this_pilot: bool) -> None:
        """Stop renewing a fragment's lease. If the lease still names this pilot, the pilot takes
        another name, which :meth:`renew` writes into all other leases.
        """
        if name in self._renewed_names and names_this_pilot:
            self._pilot_name = secrets.token_hex(_NAME_BYTES).encode()
            self._unwritten_names = set(self._renewed_names)
        self._renewed_names.discard(name)

    def _write_lease(self, name: str, text: bytes) -> bool:
        """Write a fragment's lease, after making its folder with the empty marks, which hosts look
        for; return whether the lease was written.
        """
        path = f"{self._prefix}{name}/lease"
        data = text.ljust(_LEASE_BYTES - 1) + b"\n"
        if name in self._complete_names:
            return _write_in_place(path, data)
        try:
            (self.root / name).mkdir(mode=0o700, exist_ok=True)
            for mark in ("ready", "leaving"):
                ensure_exists(f"{self._prefix}{name}/{mark}")
        except OSError:
            return False
        self._complete_names.add(name)
        return _write_in_place(path, data)


def _read_start(path: str) -> bytes:
    """Return the beginning of a short file; empty if there is none, and while it is being
    replaced.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(handle, _MARK_BYTES)
    except OSError:
        return b""
    finally:
        os.close(handle)


def _write_in_place(path: str, data: bytes) -> bool:
    """Write a file in place; return whether all of it was written."""
    try:
        handle = os.open(path, _WRITE, 0o600)
    except OSError:
        return False
    try:
        return os.pwrite(handle, data, 0) == len(data)
    except OSError:
        return False
    finally:
        os.close(handle)
