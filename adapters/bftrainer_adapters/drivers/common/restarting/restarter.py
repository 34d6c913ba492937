"""The life of a driver: one incarnation after the other, until the program is done or fails, or has too few nodes."""

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
    """Follows ``hosts`` and ``control``; each change of nodes starts a new incarnation."""

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
            hosts = self.hosts()
            if self.must_stop() or len(hosts) < self.trainer.min_nodes:
                starter.close()
                reason = (
                    "stop requested"
                    if self.must_stop()
                    else f"{len(hosts)} nodes, but min_nodes is {self.trainer.min_nodes}"
                )
                events.write(Stopped(reason, has_checkpointed(self.directory, 0.0)))
                return STOPPED_STATUS
            ahead, self.ahead = self.ahead, None
            if ahead is not None:
                ahead.aim(hosts)
            status = Incarnation(self, events, starter, hosts, ahead).run()
            if ahead is not None:
                ahead.settle()
            events.close()
            if status is not None:
                self.changes_its_mind()
                return status
            events, starter = self._next()

    def hosts(self) -> tuple[HostSlots, ...]:
        """The hosts file, without withheld fragments."""
        return tuple(p for p in read_hosts(self.directory.hosts) if p.fragment not in self.withheld)

    def must_stop(self) -> bool:
        """Whether SIGTERM or the pilot requests a stop."""
        return self.asked_to_end() or is_stop_requested(self.directory.control)

    def prepares(self, hosts: Sequence[HostSlots]) -> bool:
        """Start warm workers on these hosts; False once they are ready, and where there can be none."""
        if self.program.warm is None or not self.settings.warm or len(hosts) < self.trainer.min_nodes:
            return False
        if self.ahead is None:
            first, lost = self.program.first_variables, self._lost_ahead
            warm = self.program.warm
            self.ahead = Ahead(self.directory, self.trainer, self.settings, warm, first, lost)
        self.ahead.aim(hosts)
        return not self.ahead.is_ready()

    def changes_its_mind(self) -> None:
        """End the workers that were started for the next incarnation."""
        if self.ahead is not None:
            self.ahead.close()
            self.ahead = None

    def withhold(self, host: HostSlots, status: int, events: EventWriter) -> None:
        """Report a fragment once."""
        if host.fragment not in self.withheld:
            self.withheld.add(host.fragment)
            reason = f"a worker ended with status {status}"
            events.write(Withheld(host.node, host.fragment, reason))

    def _next(self) -> tuple[EventWriter, WorkerStarter]:
        """Event writer and starter of the next incarnation, which may have started workers already."""
        if self.ahead is not None:
            return self.ahead.events, self.ahead.starter
        events = EventWriter(self.directory.events, self.directory.new_incarnation())
        return events, WorkerStarter(self.directory, self.trainer, self.settings, events)

    def _lost_ahead(self, host: HostSlots, status: int) -> None:
        assert self.ahead is not None
        self.withhold(host, status, self.ahead.events)


def run_driver(arguments: list[str], make: Make) -> int:
    """Drive the trainer whose directory is the only argument; the exit status."""
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
