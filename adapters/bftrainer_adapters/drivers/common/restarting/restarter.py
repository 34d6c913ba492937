"""The life of one driver process: incarnation after incarnation until the program is done, fails, or has no nodes."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.errors import BFTrainerError
from bftrainer.protocol.control import STOPPED_STATUS, is_stop_requested
from bftrainer.protocol.driver_pid import write_own_pid
from bftrainer.protocol.events import Failed, Started, Stopped, Withheld
from bftrainer.protocol.hosts import HostSlots, read_hosts
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.typed_json import read_json
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.restarting.ahead import Ahead
from bftrainer_adapters.drivers.common.restarting.incarnation import Incarnation, has_checkpointed
from bftrainer_adapters.drivers.common.restarting.program import Program
from bftrainer_adapters.drivers.common.workers import WorkerStarter

Make = Callable[[TrainerDirectory, TrainerMessage, DriverSettings], Program]


@dataclass
class Restarter:
    """Follows ``hosts`` and ``control``; every change of nodes is another incarnation."""

    directory: TrainerDirectory
    trainer: TrainerMessage
    settings: DriverSettings
    program: Program
    asked_to_end: Callable[[], bool]
    withheld: set[str] = field(default_factory=set)
    ahead: Ahead | None = None

    def run(self) -> int:
        """The driver's exit status."""
        events, starter = self._next()
        events.write(Started(self.program.name, write_own_pid(self.directory.driver_pid)))
        while True:
            places = self.places()
            if self.must_stop() or len(places) < self.trainer.min_nodes:
                starter.close()
                reason = "asked to" if self.must_stop() else f"{len(places)} nodes, needs {self.trainer.min_nodes}"
                events.write(Stopped(reason, has_checkpointed(self.directory, 0.0)))
                return STOPPED_STATUS
            ahead, self.ahead = self.ahead, None
            if ahead is not None:
                ahead.aim(places)
            status = Incarnation(self, events, starter, places, ahead).run()
            if ahead is not None:
                ahead.settle()
            events.close()
            if status is not None:
                self.changes_its_mind()
                return status
            events, starter = self._next()

    def places(self) -> tuple[HostSlots, ...]:
        """The order, without what was withheld."""
        return tuple(p for p in read_hosts(self.directory.hosts) if p.fragment not in self.withheld)

    def must_stop(self) -> bool:
        """A signal, or the pilot's word."""
        return self.asked_to_end() or is_stop_requested(self.directory.control)

    def prepares(self, places: Sequence[HostSlots]) -> bool:
        """Warm workers for these places; False once they are ready, or cannot be had."""
        if self.program.warm is None or not self.settings.warm or len(places) < self.trainer.min_nodes:
            return False
        if self.ahead is None:
            self.ahead = Ahead(self.directory, self.trainer, self.settings, self.program.warm, self._lost_ahead)
        self.ahead.aim(places)
        return not self.ahead.is_ready()

    def changes_its_mind(self) -> None:
        """What was prepared is not wanted."""
        if self.ahead is not None:
            self.ahead.close()
            self.ahead = None

    def withhold(self, place: HostSlots, status: int, events: EventWriter) -> None:
        """Said once per fragment."""
        if place.fragment not in self.withheld:
            self.withheld.add(place.fragment)
            reason = f"a worker ended with status {status}"
            events.write(Withheld(place.host, place.fragment, reason))

    def _next(self) -> tuple[EventWriter, WorkerStarter]:
        """The next incarnation's, which may have begun already."""
        if self.ahead is not None:
            return self.ahead.events, self.ahead.starter
        events = EventWriter(self.directory.events, self.directory.new_incarnation())
        return events, WorkerStarter(self.directory, self.trainer, self.settings, events)

    def _lost_ahead(self, place: HostSlots, status: int) -> None:
        assert self.ahead is not None
        self.withhold(place, status, self.ahead.events)


def run_driver(arguments: list[str], make: Make) -> int:
    """Drive the trainer whose directory is the only argument; the process's exit status."""
    if len(arguments) != 1:
        print(f"usage: python -m {Path(sys.argv[0]).stem} TRAINER_DIR", file=sys.stderr)
        return 2
    directory = TrainerDirectory(Path(arguments[0]).absolute())
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda signum, _: ended.append(signum))
    try:
        trainer = read_json(TrainerMessage, directory.trainer)
        settings = read_json(DriverSettings, directory.driver)
        program = make(directory, trainer, settings)
        return Restarter(directory, trainer, settings, program, lambda: bool(ended)).run()
    except BFTrainerError as error:
        events = EventWriter(directory.events, directory.new_incarnation())
        events.write(Failed(f"{shlex.join(arguments)}: {error}"))
        return 1
