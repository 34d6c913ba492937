"""Worker processes: started through the prefix, logged, watched, killed the way their kind wants it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bftrainer.protocol.events import WorkerExited, WorkerStarted
from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer_adapters.drivers.common.command_line import filled_prefix, inside_step, worker_environment
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.logs import CappedLog, Pump
from bftrainer_adapters.drivers.common.reaper import Reaper


@dataclass(slots=True)
class WorkerProcess:
    """One started process; ``planned`` is set before it is ended on purpose."""

    place: HostSlots
    slot: int
    log: Path
    process: subprocess.Popen[bytes]
    pump: Pump
    as_group: bool
    planned: bool = False

    def wait_until_marked(self, timeout_s: float) -> bool:
        """Whether the marker has come within the time."""
        return self.pump.marked.wait(timeout_s)

    def status(self) -> int | None:
        """Its status (minus the signal's number, if one ended it), None while it runs.

        It is not reaped for that: until :meth:`WorkerStarter.wait` its number is its group's, and its children can be ended.
        """
        if self.process.returncode is not None:
            return self.process.returncode
        try:
            found = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return self.process.wait()  # somebody else has just waited for it
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def kill(self) -> None:
        """SIGKILL: a local worker with all of its session's group; through a prefix, only the prefix's process.

        Killing srun's whole group would orphan the step (see ``reaper.kill``).
        """
        if self.process.returncode is None:
            try:
                (os.killpg if self.as_group else os.kill)(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    def end_group_with_leader(self) -> None:
        """Block until a local worker ends, then end its children too: they hold its node's memory, or go on by themselves."""
        if not self.as_group:
            return
        try:
            # Not reaped yet, so its number cannot be another group's.
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ChildProcessError, ProcessLookupError):
            return  # somebody else has waited for it

    def send(self, line: bytes) -> bool:
        """Write to its standard input and close it; False if it does not listen any more."""
        assert self.process.stdin is not None, "started with a pipe"
        try:
            self.process.stdin.write(line)
            self.process.stdin.close()
        except OSError:
            return False
        return True


class WorkerStarter:
    """Starts workers of one incarnation and reports their start and exit. Safe to use from several threads."""

    def __init__(
        self, directory: TrainerDirectory, trainer: TrainerMessage, settings: DriverSettings, events: EventWriter
    ) -> None:
        self._directory = directory
        self._trainer = trainer
        self._settings = settings
        self._events = events
        self._lock = threading.Lock()
        self._live: list[WorkerProcess] = []
        self._reaper = Reaper()

    def start(
        self,
        place: HostSlots,
        slot: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        marker: bytes = b"",
        inherited: Mapping[str, str] = os.environ,
    ) -> WorkerProcess:
        """Start one worker. With a ``marker`` its standard input is a pipe (see :meth:`Worker.send`), else empty."""
        own = {
            "BFTRAINER_TRAINER_DIR": str(self._directory.path),
            "BFTRAINER_INCARNATION": str(self._events.incarnation),
            "BFTRAINER_FRAGMENT": place.fragment,
            "BFTRAINER_NODE": place.host,
        }
        log = self._directory.worker_log(self._events.incarnation, place.host, place.fragment, slot)
        prefix = filled_prefix(self._settings.prefix, place)
        process = subprocess.Popen(  # noqa: S603 - the user's own command
            [*prefix, *inside_step(self._trainer.setup, command)],
            cwd=self._trainer.cwd,
            env=worker_environment(inherited, self._settings, self._trainer, {**environment, **own}),
            stdin=subprocess.PIPE if marker else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        pump = Pump(os.dup(process.stdout.fileno()), CappedLog(log, self._settings.log_bytes), marker)
        process.stdout.close()
        pump.start()
        worker = WorkerProcess(place, slot, log, process, pump, as_group=not prefix)
        self._reaper.watch(process.pid, worker.as_group)
        with self._lock:
            self._live.append(worker)
        self._events.write(
            WorkerStarted(place.host, place.fragment, slot, process.pid, str(log.relative_to(self._directory.path)))
        )
        return worker

    def wait(self, worker: WorkerProcess) -> int:
        """Block until it ends; report and return its status (minus the signal's number, if one ended it)."""
        worker.end_group_with_leader()
        status = worker.process.wait()
        self._reaper.forget(worker.process.pid)
        if worker.process.stdin is not None and not worker.process.stdin.closed:
            _close(worker)
        worker.pump.join(timeout=1.0)  # a grandchild may hold the pipe for longer
        self._events.write(
            WorkerExited(
                worker.place.host, worker.place.fragment, worker.slot, worker.process.pid, status, worker.planned
            )
        )
        with self._lock:
            self._live.remove(worker)
        return status

    def live(self) -> list[WorkerProcess]:
        """Those whose end nobody has reported."""
        with self._lock:
            return list(self._live)

    def kill_all(self) -> None:
        """SIGKILL every live worker, as planned."""
        for worker in self.live():
            worker.planned = True
            worker.kill()

    def close(self) -> None:
        """Kill what is left, with the reaper last."""
        self.kill_all()
        self._reaper.close()


def _close(worker: WorkerProcess) -> None:
    assert worker.process.stdin is not None
    try:
        worker.process.stdin.close()
    except OSError:
        print(f"stdin of {worker.log.name} was closed by its worker", file=sys.stderr)


def exit_code(status: int) -> int:
    """A shell's way to say it: 128 + signal."""
    return status if status >= 0 else 128 - status
