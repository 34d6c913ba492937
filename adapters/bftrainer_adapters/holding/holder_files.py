"""The leases of fragments (``holders/NODE#JOB/lease``), their renewal (``holders/renewed``), and the payloads' marks.

One file renews the leases of all fragments that name this pilot; payload.py reads both files. A released fragment must not be
renewed: if its lease cannot be changed, the pilot takes another name and writes that into all other leases.

Files are rewritten in place. That works on a full disk; a reader that sees half of a write takes it for no renewal or for a new
one; and network file systems show it at the next open.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from pathlib import Path

from bftrainer.domain.fragments import id_of, is_fragment_name, node_of
from bftrainer_adapters.on_node.payload import RELEASED

_NAME_BYTES = 8
_LEASE_BYTES = 20
_LAST_BYTES = 500
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class HolderFiles:
    """All folders below ``holders``."""

    def __init__(self, holders: Path) -> None:
        self.root = holders
        self._prefix = f"{holders}/"  # files below it are read hundreds of times a second
        self._held: set[str] = set()
        self._untold: set[str] = set()  # those whose leases do not name this pilot yet
        self._renewals = 0
        self._pilot = secrets.token_hex(_NAME_BYTES).encode()
        self._lock = threading.RLock()  # leases are renewed by a thread of their own
        holders.mkdir(mode=0o700, parents=True, exist_ok=True)

    def hold(self, name: str) -> None:
        """Give this pilot the lease of the fragment."""
        with self._lock:
            self._held.add(name)
            if not self._write_lease(name, self._pilot):
                self._untold.add(name)

    def renew(self) -> None:
        """Renew the leases of all fragments that are held."""
        with self._lock:
            self._untold = {name for name in self._untold & self._held if not self._write_lease(name, self._pilot)}
            self._renewals += 1
            # If the write fails, holders end after lease_s, as they should when the pilot has no disk.
            _write(f"{self._prefix}renewed", b"%b %020d\n" % (self._pilot, self._renewals))

    def mark_released(self, name: str) -> None:
        """Make the payload end by itself within a second, even while the scheduler does not answer."""
        with self._lock:
            self._let_go(name, self._write_lease(name, RELEASED))

    def is_ready(self, name: str) -> bool:
        """Whether the payload has started."""
        return os.access(f"{self._prefix}{name}/ready", os.F_OK)

    def leaving(self, name: str) -> str | None:
        """What the payload wrote when it left; None if it has not left."""
        path = f"{self._prefix}{name}/leaving"
        if not os.access(path, os.F_OK):  # nearly always, and cheaper than an exception
            return None
        try:
            with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123  # a text, for speed: see _prefix
                return file.read().strip()
        except OSError:
            return None

    def log(self, node: str, job: str) -> Path:
        """The file of the holder's output; the scheduler fills in a job ``%j`` (LSF: ``%J``)."""
        return self.root / f"{node}.{job}.log"

    def last_words(self, node: str, job: str) -> str:
        """The end of the holder's output, on one line."""
        try:
            data = self.log(node, job).read_bytes()[-_LAST_BYTES:]
        except OSError:
            return ""
        return " / ".join(data.decode(errors="replace").strip().splitlines()[-3:])

    def remove(self, name: str) -> None:
        """Delete what belongs to a fragment that is gone."""
        node, job = node_of(name), id_of(name)
        with self._lock:
            shutil.rmtree(self.root / name, ignore_errors=True)
            self._let_go(name, not os.access(f"{self._prefix}{name}/lease", os.F_OK))
        self.log(node, job).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Every fragment that has a folder."""
        return sorted(path.name for path in self.root.iterdir() if is_fragment_name(path.name) and path.is_dir())

    def _let_go(self, name: str, names_us_no_more: bool) -> None:
        if name in self._held and not names_us_no_more:
            self._pilot, self._untold = secrets.token_hex(_NAME_BYTES).encode(), set(self._held)
        self._held.discard(name)

    def _write_lease(self, name: str, text: bytes) -> bool:
        path, data = f"{self._prefix}{name}/lease", text.ljust(_LEASE_BYTES - 1) + b"\n"
        if _write(path, data):
            return True
        try:
            (self.root / name).mkdir(mode=0o700, exist_ok=True)
        except OSError:
            return False
        return _write(path, data)


def _write(path: str, data: bytes) -> bool:
    """Whether it has been written."""
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
