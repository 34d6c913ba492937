"""The machine behind ``holder = "trace"``: one process that stands in for the payloads of a state
directory.

It marks a fragment ready. When the node's idle time in the log is over, the lease lapses or the
pilot releases the fragment, it acts like a payload on SIGTERM: let the workers of a preempted
fragment save if they may, mark ``leaving``, SIGKILL every process of the fragment until none is
left, mark ``gone``. It is a process of its own, so a pilot that is stopped or dead delays nothing.
It ends when no fragment is left.

Run as ``python -m bftrainer_replay.playback.trace_machine HOLDERS_DIR LEASE_S``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.fragment_names import id_of, is_fragment_name
from bftrainer.system.locks import try_lock
from bftrainer.system.own_programs import module_command
from bftrainer.system.processes import (
    ProcessId,
    environment_of,
    is_alive,
    parent_of,
    send,
    with_variable,
)
from bftrainer.wires.environment import FRAGMENT, NOTICE_S, TRAINER_DIR
from bftrainer.wires.leases import RENEWALS
from bftrainer.wires.paths import TrainerDirectory

EVERY_S = 0.05
SWEEP_EVERY_S = 1.0
ENDS_AFTER_S = 5.0
MAX_NOTICE_S = 60.0
LOCK = "machine.lock"
_GRACE_S = 5.0
_machines: list[
    subprocess.Popen[bytes]
] = []  # machines started by this process: they may outlive it, but must not become zombies


@dataclass
class _TraceLease:
    """Measures how long the pilot has not renewed the lease of a fragment: the lease file has not
    changed. Time in which this process was stopped does not count.
    """

    renewed_ns: int = 0
    looked_s: float = field(default_factory=time.monotonic)
    silent_s: float = 0.0

    def look(self, renewed_ns: int) -> float:
        """Record when the lease file was modified; return the seconds since it last changed."""
        now_s = time.monotonic()
        gap_s = min(now_s - self.looked_s, SWEEP_EVERY_S)
        self.silent_s = self.silent_s + gap_s if renewed_ns == self.renewed_ns else 0.0
        self.renewed_ns, self.looked_s = renewed_ns, now_s
        return self.silent_s


@dataclass
class _Notice:
    """The time that workers of one preempted fragment have to save, as of when they were told."""

    workers: list[ProcessId]
    until_s: float

    @property
    def is_over(self) -> bool:
        """Whether they have ended, or must."""
        return time.monotonic() >= self.until_s or not any(map(is_alive, self.workers))


@dataclass
class _Watched:
    """What the machine remembers of a fragment between two looks at it."""

    lease: _TraceLease = field(default_factory=_TraceLease)
    notice: _Notice | None = None


def watch(holders: Path, lease_s: float) -> None:
    """Play all fragments of a pilot until there has been none for ``ENDS_AFTER_S``.

    A fragment is a node that the pilot holds, with a folder in ``holders``.
    """
    last_active_s = last_sweep_s = time.monotonic()
    watched: dict[str, _Watched] = {}
    while time.monotonic() - last_active_s < ENDS_AFTER_S:
        for folder in fragment_folders(holders):
            # A driver may have started a worker just as its fragment went: gone ones are swept
            # while they have folders.
            if not (folder / "gone").exists():
                last_active_s = time.monotonic()
                play(folder, lease_s, watched.setdefault(folder.name, _Watched()))
            elif time.monotonic() - last_sweep_s > SWEEP_EVERY_S and sweep(id_of(folder.name)):
                last_active_s = time.monotonic()
        if time.monotonic() - last_sweep_s > SWEEP_EVERY_S:
            last_sweep_s = time.monotonic()
        time.sleep(EVERY_S)


def fragment_folders(holders: Path) -> list[Path]:
    """Return the folders of all fragments. One with a hidden name is being made or removed by the
    pilot.
    """
    return sorted(
        p for p in holders.iterdir() if is_fragment_name(p.name) and not p.name.startswith(".")
    )


def make_mark(folder: Path, name: str, text: str = "") -> None:
    """Write a mark into a fragment's folder, by rename. A folder that has been removed stays away:
    it gets no new mark.
    """
    part = folder / f".{name}.{os.getpid()}"
    with suppress(FileNotFoundError):
        part.write_text(text, encoding="utf-8")
        part.replace(folder / name)


def play(folder: Path, lease_s: float, watched: _Watched) -> None:
    """Play one poll of a fragment: mark it ready, or end it if it is time.

    It ends once it is preempted (its idle time in the log is over) or released, or the pilot has
    not renewed its lease: its workers are killed, and it is marked gone. Workers of a preempted
    fragment may save first: ``watched`` keeps their time from poll to poll.
    """
    try:
        ends_s = float(json.loads((folder / "fragment.json").read_bytes())["ends_s"])
        silent_s = watched.lease.look((folder / "lease").stat().st_mtime_ns)
    except (OSError, ValueError, KeyError):
        return  # being created or deleted
    if not (folder / "ready").exists() and not (folder / "leaving").exists():
        make_mark(folder, "ready")
    # The first reason counts: workers of a preempted fragment may save, whatever else holds.
    if time.time() >= ends_s:
        reason = "preempted"
    # Renewals are up to ``lease_s / RENEWALS`` apart, and may come a little late.
    elif silent_s > lease_s + lease_s / RENEWALS + _GRACE_S:
        reason = "the pilot's lease lapsed"
    elif (folder / "release").exists():
        reason = "released"
    else:
        return
    if reason == "preempted":
        watched.notice = watched.notice or let_save(id_of(folder.name))
        if not watched.notice.is_over:
            return
    make_mark(folder, "leaving", reason)
    while sweep(id_of(folder.name)):
        time.sleep(0.01)
    make_mark(folder, "gone", reason)


def let_save(fragment_id: str) -> _Notice:
    """Tell the drivers of a preempted fragment's workers to save; return how long the workers may.

    The payload of a batch job does the same. Workers are found by a variable of their environment;
    one with a notice of 0 s is not told.
    """
    notices_s: dict[ProcessId, float] = {}
    folders: set[str] = set()
    for process in with_variable(FRAGMENT, fragment_id):
        variables = environment_of(process)
        notice_s = _notice_s(variables)
        if notice_s > 0:
            notices_s[process] = notice_s
            folders.add(variables.get(TRAINER_DIR, ""))
    for folder in sorted(folders):
        _write_notice(TrainerDirectory(Path(folder)), fragment_id)
    pids = {process.pid for process in notices_s}
    # Children of workers die with them.
    workers = [process for process in notices_s if parent_of(process) not in pids]
    return _Notice(workers, time.monotonic() + max(notices_s.values(), default=0.0))


def _notice_s(variables: Mapping[str, str]) -> float:
    """Return the seconds that a worker may take to save; 0 if it may not."""
    try:
        notice_s = float(variables.get(NOTICE_S, "0"))
    except ValueError:
        return 0.0
    return min(notice_s, MAX_NOTICE_S) if notice_s > 0 else 0.0


def _write_notice(directory: TrainerDirectory, fragment_id: str) -> None:
    """Append a line to a trainer's file of preemptions, for its driver to read."""
    line = json.dumps({"fragment": fragment_id}).encode() + b"\n"
    with suppress(OSError):  # a trainer that cannot be told repeats work
        descriptor = os.open(
            directory.preempted,
            # The folder is the trainer's: no link is followed, and a pipe does not block.
            os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
        )
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def sweep(fragment_id: str) -> int:
    """Send SIGKILL to all processes of a fragment; return their number."""
    processes = list(with_variable(FRAGMENT, fragment_id))
    for process in processes:
        with suppress(PermissionError):
            send(process, signal.SIGKILL)
    return len(processes)


def ensure_running(holders: Path, lease_s: float) -> None:
    """Start the machine, a process of its own, unless it runs already.

    The machine keeps the lock on ``LOCK``, which it inherits from this process, as long as it runs.
    """
    _machines[:] = [machine for machine in _machines if machine.poll() is None]
    lock = os.open(holders / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not try_lock(lock, holders / LOCK):
        os.close(lock)
        return
    with (holders / "machine.log").open("ab") as log:
        machine = subprocess.Popen(  # noqa: S603  # our own program
            module_command("bftrainer_replay.playback.trace_machine", str(holders), f"{lease_s}"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=holders,
            start_new_session=True,
            pass_fds=(lock,),
        )
    os.close(lock)
    _machines.append(machine)


if __name__ == "__main__":
    watch(Path(sys.argv[1]), float(sys.argv[2]))
