"""The machine behind ``holder = "trace"``: one process that stands in for the payloads of a state directory.

It marks a fragment ready. When the node's idle time in the log is over, the lease lapses or the pilot releases the fragment, it
acts like a payload on SIGTERM: mark ``leaving``, SIGKILL every process of the fragment until none is left, mark ``gone``. It is
a process of its own, so a pilot that is stopped or dead delays nothing. It ends when no fragment is left.

Run as ``python -m bftrainer_replay.playback.trace_machine HOLDERS_DIR LEASE_S``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.domain.fragment_names import id_of, is_fragment_name
from bftrainer.protocol.environment import FRAGMENT
from bftrainer.protocol.leases import RENEWALS
from bftrainer.system.files import write_atomically
from bftrainer.system.locks import try_lock
from bftrainer.system.processes import send, with_variable

EVERY_S = 0.05
SWEEP_EVERY_S = 1.0
ENDS_AFTER_S = 5.0
LOCK = "machine.lock"
_GRACE_S = 5.0
_started: list[
    subprocess.Popen[bytes]
] = []  # machines started by this process: they may outlive it, but must not become zombies


@dataclass
class _TraceLease:
    """How long the lease's file has not changed. Time in which this process was stopped does not count."""

    renewed_ns: int = 0
    looked_s: float = field(default_factory=time.monotonic)
    silent_s: float = 0.0

    def look(self, renewed_ns: int) -> float:
        now_s = time.monotonic()
        gap_s = min(now_s - self.looked_s, SWEEP_EVERY_S)
        self.silent_s = self.silent_s + gap_s if renewed_ns == self.renewed_ns else 0.0
        self.renewed_ns, self.looked_s = renewed_ns, now_s
        return self.silent_s


def watch(holders: Path, lease_s: float) -> None:
    """Run until there has been no fragment for ``ENDS_AFTER_S``."""
    last_seen = last_swept = time.monotonic()
    leases: dict[str, _TraceLease] = {}
    while time.monotonic() - last_seen < ENDS_AFTER_S:
        for folder in sorted(p for p in holders.iterdir() if is_fragment_name(p.name)):
            # A driver may have started a worker just as its fragment went: gone ones are swept while they have folders.
            if not (folder / "gone").exists():
                last_seen = time.monotonic()
                play(folder, lease_s, leases.setdefault(folder.name, _TraceLease()))
            elif time.monotonic() - last_swept > SWEEP_EVERY_S and sweep(id_of(folder.name)):
                last_seen = time.monotonic()
        if time.monotonic() - last_swept > SWEEP_EVERY_S:
            last_swept = time.monotonic()
        time.sleep(EVERY_S)


def play(folder: Path, lease_s: float, lease: _TraceLease) -> None:
    """The next step of one fragment."""
    try:
        ends_s = float(json.loads((folder / "fragment.json").read_bytes())["ends_s"])
        silent_s = lease.look((folder / "lease").stat().st_mtime_ns)
    except (OSError, ValueError, KeyError):
        return  # being created or deleted
    if not (folder / "ready").exists() and not (folder / "leaving").exists():
        write_atomically(folder / "ready", b"")
    reasons = {
        "preempted": time.time() >= ends_s,
        "the pilot's lease lapsed": silent_s > lease_s + lease_s / RENEWALS + _GRACE_S,
        "released": (folder / "release").exists(),
    }
    why = next((reason for reason, holds in reasons.items() if holds), None)
    if why is None:
        return
    write_atomically(folder / "leaving", why.encode())
    while sweep(id_of(folder.name)):
        time.sleep(0.01)
    with suppress(FileNotFoundError):
        write_atomically(folder / "gone", why.encode())


def sweep(fragment_id: str) -> int:
    """SIGKILL all processes of a fragment; returns how many there were."""
    found = list(with_variable(FRAGMENT, fragment_id))
    for process in found:
        with suppress(PermissionError):
            send(process, signal.SIGKILL)
    return len(found)


def ensure_running(holders: Path, lease_s: float) -> None:
    """Start the machine unless it runs: it holds a lock while it does."""
    _started[:] = [machine for machine in _started if machine.poll() is None]
    lock = os.open(holders / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not try_lock(lock, holders / LOCK):
        os.close(lock)
        return
    with (holders / "machine.log").open("ab") as log:
        machine = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-m", "bftrainer_replay.playback.trace_machine", str(holders), str(lease_s)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=holders, start_new_session=True, pass_fds=(lock,),
        )  # fmt: skip
    os.close(lock)
    _started.append(machine)


if __name__ == "__main__":
    watch(Path(sys.argv[1]), float(sys.argv[2]))
