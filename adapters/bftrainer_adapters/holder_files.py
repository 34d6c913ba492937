"""The folder of a fragment, ``holders/NODE#JOB/``: the pilot's lease and the payload's marks.

A lease is rewritten in place: that needs no room on a full disk, and a reader that sees half of it still sees a change.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from bftrainer_adapters.payload import RELEASED

_LEASE_BYTES = 20
_LAST_BYTES = 500
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class HolderFiles:
    """All folders below ``holders``."""

    def __init__(self, holders: Path) -> None:
        self.root = holders
        holders.mkdir(mode=0o700, parents=True, exist_ok=True)

    def renew(self, name: str, number: int) -> None:
        """Show that the pilot lives; ``number`` is another one every time."""
        self._write_lease(name, f"{number:0{_LEASE_BYTES - 1}d}\n".encode())

    def say_released(self, name: str) -> None:
        """The payload ends by itself within a second, even while the scheduler does not answer."""
        self._write_lease(name, RELEASED.ljust(_LEASE_BYTES - 1) + b"\n")

    def is_ready(self, name: str) -> bool:
        """Whether the payload has started."""
        return os.path.exists(f"{self.root}/{name}/ready")  # noqa: PTH110  # thousands of times a second

    def leaving(self, name: str) -> str | None:
        """What the payload wrote when it left; None if it has not."""
        try:
            handle = os.open(f"{self.root}/{name}/leaving", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return None

    def log(self, node: str, job: str) -> Path:
        """Where the holder's output goes; job ``%j`` is filled in by Slurm."""
        return self.root / f"{node}.{job}.log"

    def last_words(self, node: str, job: str) -> str:
        """The end of the holder's output."""
        try:
            data = self.log(node, job).read_bytes()[-_LAST_BYTES:]
        except OSError:
            return ""
        return " / ".join(data.decode(errors="replace").strip().splitlines()[-3:])

    def remove(self, name: str) -> None:
        """The fragment is over."""
        node, _, job = name.rpartition("#")
        shutil.rmtree(self.root / name, ignore_errors=True)
        self.log(node, job).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Every fragment that has a folder."""
        return sorted(path.name for path in self.root.iterdir() if "#" in path.name and path.is_dir())

    def _write_lease(self, name: str, data: bytes) -> None:
        path = f"{self.root}/{name}/lease"
        # A write that fails ends the holder after lease_s: the right end for a pilot without a disk.
        with suppress(OSError):
            try:
                handle = os.open(path, _WRITE, 0o600)
            except FileNotFoundError:
                (self.root / name).mkdir(mode=0o700, exist_ok=True)
                handle = os.open(path, _WRITE, 0o600)
            try:
                os.pwrite(handle, data, 0)
            finally:
                os.close(handle)
