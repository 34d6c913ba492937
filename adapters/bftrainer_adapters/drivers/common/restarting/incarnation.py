"""One start of the program on a fixed set of hosts, until its last worker has ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import Protocol

from bftrainer.protocol.control import STOPPED_STATUS, ControlMessage, ControlRequest
from bftrainer.protocol.events import Done, Failed, Hung, Running, Stopped, Stopping
from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.log_tail import last_exception, last_lines
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.progress_line import Phase, ProgressLine, parse_progress
from bftrainer.protocol.typed_json import write_json
from bftrainer.system.json_tail import JsonTail
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.reported import latest_progress
from bftrainer_adapters.drivers.common.restarting.ahead import Ahead
from bftrainer_adapters.drivers.common.restarting.cause import Ended, cause, was_taken
from bftrainer_adapters.drivers.common.restarting.program import Program
from bftrainer_adapters.drivers.common.silence import ReportSilence, longest_silence_s
from bftrainer_adapters.drivers.common.workers import WorkerProcess, WorkerStarter

GATHER_S = 2.0
"""How long the other workers may take to end after one ended unexpectedly: this tells lost nodes from lost peers."""


class Orders(Protocol):
    """The driver, as an incarnation sees it."""

    directory: TrainerDirectory
    trainer: TrainerMessage
    settings: DriverSettings
    program: Program

    def hosts(self) -> tuple[HostSlots, ...]:
        """The hosts to use now."""

    def must_stop(self) -> bool:
        """Whether the trainer is to stop."""

    def prepares(self, hosts: Sequence[HostSlots]) -> bool:
        """Prepare a start on other hosts; whether to wait for the preparation."""

    def changes_its_mind(self) -> None:
        """Drop what was prepared: the present hosts are to be used."""

    def withhold(self, host: HostSlots, status: int, events: EventWriter) -> None:
        """Do not use this host's fragment again: a worker there was killed."""


class Incarnation:
    """The workers of one start. ``ahead`` may hold warm ones."""

    def __init__(
        self,
        orders: Orders,
        events: EventWriter,
        starter: WorkerStarter,
        hosts: tuple[HostSlots, ...],
        ahead: Ahead | None,
    ) -> None:
        self._orders = orders
        self._events = events
        self._hosts = hosts
        self._ahead = ahead
        self._workers: list[WorkerProcess] = []
        self._exits: list[tuple[WorkerProcess, int]] = []
        self._starter = starter
        self._progress = JsonTail(orders.directory.progress)
        self._progress.skip()
        self._silence = ReportSilence(orders.settings.hang_s, longest_silence_s(latest_progress(orders.directory)))
        self._leave_s: float | None = None
        self._crashed_s: float | None = None
        self._asked_s = 0.0
        self._stop_is_final = False
        self._killed = self._taken = self._hung = False

    def run(self) -> int | None:
        """The driver's exit status, or None for another incarnation."""
        try:
            self._start()
            while self._workers:
                time.sleep(self._orders.settings.poll_s / 4)
                self._collect()
                self._follow_orders()
                self._watch()
            return self._outcome()
        finally:
            self._starter.close()
            self._orders.program.end()

    def _start(self) -> None:
        for host, slot, environment in self._orders.program.begin(self._events.incarnation, self._hosts):
            worker = None if self._ahead is None else self._ahead.take(host, slot, environment)
            if worker is None:
                worker = self._starter.start(host, slot, self._orders.trainer.command, environment)
            self._workers.append(worker)
        self._events.write(Running(sum(it.slots for it in self._hosts), tuple(it.fragment for it in self._hosts)))

    def _collect(self) -> None:
        """Note the exits of workers."""
        for worker in [w for w in self._workers if w.status() is not None]:
            self._workers.remove(worker)
            worker.planned |= self._leave_s is not None
            status = self._starter.wait(worker)
            self._exits.append((worker, status))
            if status == STOPPED_STATUS:
                continue  # it obeyed `control` before this driver read it
            if status != 0 and not worker.planned and self._crashed_s is None:
                self._crashed_s = time.monotonic()
            # Killed while it was exiting, and not by this driver: its node was taken too.
            if was_taken(status) and not self._killed and not (worker.planned and status == -self._stop_signal()):
                self._taken = True
                self._orders.withhold(worker.host, status, self._events)

    def _follow_orders(self) -> None:
        if self._leave_s is None and self._orders.must_stop():
            self._stop_is_final = True
            self._leave("stop requested")
        hosts = self._orders.hosts()
        if {p.fragment for p in hosts} == {p.fragment for p in self._hosts}:
            self._orders.changes_its_mind()
        elif not self._stop_is_final and not self._orders.prepares(hosts) and self._leave_s is None:
            self._leave("other nodes")
        if self._leave_s is not None and time.monotonic() - self._leave_s > self._orders.trainer.stop_s:
            self._kill_all()

    def _watch(self) -> None:
        """Kill the peers of a dead worker, and workers that hang."""
        now = time.monotonic()
        waits = self._leave_s is None or self._orders.program.collective  # workers that need no peers may still save
        if self._crashed_s is not None and now - self._crashed_s > GATHER_S and waits:
            self._kill_all()
        if any(line.incarnation == self._events.incarnation for line in map(parse_progress, self._progress.read())):
            self._silence.heard(now)
        if self._leave_s is None and not self._hung and self._silence.is_hung(now):
            for worker in self._workers:
                self._events.write(Hung(worker.host.node, worker.host.fragment, round(self._silence.seconds(now), 1)))
            self._hung = True
            self._kill_all()

    def _leave(self, reason: str) -> None:
        self._leave_s = time.monotonic()
        self._asked_s = time.time()
        self._events.write(Stopping(reason))
        write_json(self._orders.directory.leave, ControlMessage(ControlRequest.STOP, self._events.incarnation))
        if signum := self._stop_signal():
            for worker in self._workers:
                worker.process.send_signal(signum)

    def _kill_all(self) -> None:
        self._killed = True
        for worker in self._workers:
            worker.planned = True
            worker.kill()

    def _ended_early(self) -> bool:
        """Whether a worker of a collective program completed while the others were silent until they were killed."""
        completed = any(status == 0 and not worker.planned for worker, status in self._exits)
        return self._hung and completed and self._orders.program.collective

    def _stop_signal(self) -> int:
        """The signal that requests a stop, which kills a program without a handler; 0: no signal is sent."""
        name = self._orders.trainer.stop_signal
        return signal.Signals[f"SIG{name.removeprefix('SIG')}"] if name else 0

    def _says_done(self) -> bool:
        """Whether the program reported its end, perhaps at the moment of the stop request."""
        return any(line.phase is Phase.DONE for line in self._own_latest())

    def _ends_with_a_checkpoint(self) -> bool:
        """Whether the last report is a checkpoint: the script may have obeyed `control` before this driver read it."""
        lines = self._own_latest()
        return bool(lines) and lines[-1].phase is Phase.CHECKPOINTED

    def _own_latest(self) -> list[ProgressLine]:
        return [
            line
            for line in latest_progress(self._orders.directory)[-50:]
            if line.incarnation == self._events.incarnation
        ]

    def _outcome(self) -> int | None:
        if self._stop_is_final and not self._says_done():
            checkpointed = has_checkpointed(self._orders.directory, self._asked_s) or self._ends_with_a_checkpoint()
            self._events.write(Stopped("stop requested", checkpointed))
            return STOPPED_STATUS
        failed = any(s not in (0, STOPPED_STATUS) and not w.planned for w, s in self._exits)
        finished = self._leave_s is None or self._says_done()
        if finished and all(status == 0 for _, status in self._exits):
            self._events.write(Done())
            return 0
        if (failed or self._ended_early()) and not self._taken and not self._orders.must_stop():
            first = cause([Ended(w.host.node, w.slot, s, w.planned, last_exception(w.log)) for w, s in self._exits])
            worker, status = self._exits[first.number]
            self._events.write(Failed(first.reason, status or 1, tuple(last_lines(worker.log))))
            return 1
        if self._hung and not self._orders.must_stop():
            self._events.write(Failed(self._silence.reason, 1, tuple(last_lines(self._exits[0][0].log))))
            return 1
        return None


def has_checkpointed(directory: TrainerDirectory, since_s: float) -> bool:
    """Whether the program reported a checkpoint, or its end, since a time (seconds since 1970)."""
    saved = (Phase.CHECKPOINTED, Phase.DONE)
    return any(line.phase in saved and line.at_s >= since_s for line in latest_progress(directory)[-50:])
