"""Worker processes: started through the prefix, watched and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from pathlib import Path

from bftrainer.system.processes import end_all, identify
from bftrainer.system.umask import users_umask
from bftrainer.wires.driver_events import WorkerExited, WorkerStarted
from bftrainer.wires.environment import NOTICE_S, PART, worker_variables
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.messages import DriverSettings, TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.stacks import VARIABLE as FAULT_HANDLER
from bftrainer_drivers.common import behind_relay
from bftrainer_drivers.common.command_line import (
    EXPORTS,
    SETUP,
    VISIBLE_GPUS,
    container,
    exports_after_profiles,
    filled_prefix,
    setup_script,
    step_command,
    worker_environment,
)
from bftrainer_drivers.common.event_writer import EventWriter
from bftrainer_drivers.common.keyed_store import KEYED_STORE
from bftrainer_drivers.common.reaper import Reaper
from bftrainer_drivers.common.warm_command import relayed_command
from bftrainer_drivers.common.worker_log import CappedLog, Pump


@dataclass(slots=True)
class WorkerProcess:
    """A started worker."""

    host: HostSlots
    slot: int
    log: Path
    process: subprocess.Popen[bytes]
    pump: Pump
    end_signal: signal.Signals | None
    """Signal that ends the prefix's process and, through it, the worker; None: a local worker,
    whose group is killed.
    """
    incarnation: int
    is_planned: bool = False
    """Set before the driver ends it."""
    is_waiting: bool = False
    """It has not been sent its rank."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set once its exit has been reported."""

    def status(self) -> int | None:
        """Return the exit status, or minus the number of the signal that ended the worker; None
        while it runs.

        The worker is not reaped: until :meth:`WorkerStarter.wait` its pid cannot be reused, so its
        group can be killed.
        """
        if self.process.returncode is not None:
            return self.process.returncode
        try:
            ending = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return self.process.wait()  # another thread has just reaped it
        if ending is None:
            return None
        return ending.si_status if ending.si_code == os.CLD_EXITED else -ending.si_status

    def kill(self) -> None:
        """End the worker now: SIGKILL to the whole group of a local worker, a signal to the
        prefix's process alone.

        Killing the whole group of srun would orphan the step: without srun's helper process Slurm
        does not end it (22.05.8).
        """
        if self.process.returncode is not None:
            return
        if self.end_signal is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        elif (process := identify(self.process.pid)) is not None:
            name = f"end {self.process.pid}"
            threading.Thread(
                target=end_all, args=([process], self.end_signal), name=name, daemon=True
            ).start()

    def end_group_with_leader(self) -> None:
        """Wait until a local worker ends, then kill its children, which would keep the node's
        memory or continue. Return at once for a worker behind a prefix: Slurm ends its step.
        """
        if self.end_signal is not None:
            return
        try:
            # Not reaped yet, so its pid cannot be another group's.
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ChildProcessError, ProcessLookupError):
            return  # another thread has reaped it

    def send(self, line: bytes) -> bool:
        """Write a line to the worker's standard input and close it; return False if the worker no
        longer reads it.
        """
        assert self.process.stdin is not None, "started with a pipe"
        try:
            self.process.stdin.write(line)
            self.process.stdin.close()
        except OSError:
            return False
        return True


@dataclass(eq=False)
class WorkerStarter:
    """Starts the workers of one incarnation and reports their starts and exits. Safe to use from
    several threads.
    """

    directory: TrainerDirectory
    trainer: TrainerMessage
    settings: DriverSettings
    events: EventWriter
    shared: InitVar[Reaper | None] = None

    def __post_init__(self, shared: Reaper | None) -> None:
        self._lock = threading.Lock()
        self._live: list[WorkerProcess] = []
        self._is_shared = shared is not None
        self.reaper = shared or Reaper()

    def start(
        self,
        host: HostSlots,
        slot: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        marker: bytes = b"",
        incarnation: int | None = None,
        on_marked: Callable[[], None] = lambda: None,
    ) -> WorkerProcess:
        """Start one worker through the prefix, report that, and return it. With a ``marker`` its
        standard input is a pipe (see :meth:`WorkerProcess.send`), else empty.

        ``environment``: variables of this worker, beside those of the driver and the trainer.
        ``incarnation``: default, the present one. ``on_marked`` is called from another thread once
        the worker has printed the marker.
        """
        number = incarnation or self.events.incarnation
        own = worker_variables(self.directory.path, number, host.fragment, host.node)
        log = self.directory.worker_log(number, host.node, host.fragment, slot)
        prefix = filled_prefix(self.settings.prefix, host)
        if host.is_gpu:
            own[PART] = host.part[1]
        if self.settings.notice_s:
            own[NOTICE_S] = f"{self.settings.notice_s:g}"
        variables = {FAULT_HANDLER: "1", **environment, **own}
        gpus = environment.get(VISIBLE_GPUS, "") if host.is_gpu else ""
        all_variables = worker_environment(os.environ, self.settings, self.trainer, variables)
        box = container(self.trainer.image, self.trainer.cwd, self.directory.path, all_variables)
        all_variables |= box.variables
        has_setup = bool(self.trainer.setup)
        if has_setup and not box.srun_options:  # in pyxis, the image's environment is to win
            all_variables[EXPORTS] = exports_after_profiles(all_variables, self.trainer.environment)
        # Without a place of the store, the command opens its relay later, or needs none.
        if environment.get(behind_relay.STORE) or environment.get(KEYED_STORE):
            command = relayed_command(command)
        if has_setup:
            all_variables[SETUP] = setup_script(self.trainer.setup)
        inside = step_command([*box.arguments, *command], gpus, box.runtime, has_setup=has_setup)
        process = subprocess.Popen(  # noqa: S603 - the user's own command
            [*prefix, *box.srun_options, *inside],
            cwd=self.trainer.cwd,
            env=all_variables,
            stdin=subprocess.PIPE if marker else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            umask=users_umask(),  # of checkpoints
            start_new_session=True,
        )
        assert process.stdout is not None
        pump = Pump(
            os.dup(process.stdout.fileno()),
            CappedLog(log, self.settings.log_bytes),
            marker,
            on_marked,
        )
        process.stdout.close()
        end_signal = signal.Signals(self.settings.ends_by) if prefix else None
        worker = WorkerProcess(
            host=host,
            slot=slot,
            log=log,
            process=process,
            pump=pump,
            end_signal=end_signal,
            incarnation=number,
            is_waiting=bool(marker),
        )
        self.reaper.watch(process.pid, end_signal)
        with self._lock:
            self._live.append(worker)
        self.events.write(
            WorkerStarted(
                host.node,
                host.fragment,
                slot,
                process.pid,
                str(log.relative_to(self.directory.path)),
            ),
            number,
        )
        pump.start()
        return worker

    def wait(self, worker: WorkerProcess) -> int:
        """Wait until a worker ends; report and return its exit status, or minus the number of the
        signal that ended it.
        """
        worker.end_group_with_leader()
        status = worker.process.wait()
        self.reaper.forget(worker.process.pid)
        if worker.process.stdin is not None and not worker.process.stdin.closed:
            _close_input(worker)
        worker.pump.join(timeout=1.0)  # a grandchild may hold the pipe for longer
        self.events.write(
            WorkerExited(
                worker.host.node,
                worker.host.fragment,
                worker.slot,
                worker.process.pid,
                status,
                worker.is_planned,
            ),
            worker.incarnation,
        )
        with self._lock:
            self._live.remove(worker)
        worker.ended.set()
        return status

    def live(self) -> list[WorkerProcess]:
        """Return the workers whose exits have not been reported."""
        with self._lock:
            return list(self._live)

    def kill_all(self) -> None:
        """End every live worker at once; their exits are planned."""
        for worker in self.live():
            worker.is_planned = True
            worker.kill()

    def close(self) -> None:
        """Kill the remaining workers, then end the reaper, unless it is another's."""
        self.kill_all()
        if not self._is_shared:
            self.reaper.close()


def _close_input(worker: WorkerProcess) -> None:
    """Close the worker's standard input; print a line if the worker had closed it first."""
    assert worker.process.stdin is not None
    try:
        worker.process.stdin.close()
    except OSError:
        print(
            f"bftrainer: {worker.log.name}: the worker closed its standard input", file=sys.stderr
        )


def exit_code(status: int) -> int:
    """Convert a status to that of a shell: minus a signal becomes 128 + signal."""
    return status if status >= 0 else 128 - status
