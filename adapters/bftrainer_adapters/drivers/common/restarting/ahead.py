"""The next incarnation's workers, started while the present one trains: they do their imports and wait."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from bftrainer.protocol.events import Warm, Warming, WarmingCanceled
from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.restarting.cause import was_taken
from bftrainer_adapters.drivers.common.warm_start import MARKER
from bftrainer_adapters.drivers.common.workers import WorkerProcess, WorkerStarter

PATIENCE_S = 60.0
"""How long a worker may take to warm up; then the rescale does not wait for it."""


class Ahead:
    """Warming workers. Not safe to share between threads. ``on_taken`` is told of a host whose worker was killed."""

    def __init__(
        self,
        directory: TrainerDirectory,
        trainer: TrainerMessage,
        settings: DriverSettings,
        command: Sequence[str],
        first_variables: Callable[[HostSlots], Mapping[str, str]],
        on_taken: Callable[[HostSlots, int], None],
    ) -> None:
        self.events = EventWriter(directory.events, directory.new_incarnation())
        self.starter = WorkerStarter(directory, trainer, settings, self.events)
        self._command = command
        self._first_variables = first_variables
        self._on_taken = on_taken
        self._waiting: dict[tuple[HostSlots, int], WorkerProcess] = {}
        self._begun_s: dict[HostSlots, float] = {}
        self._told: set[HostSlots] = set()
        self._ending: list[threading.Thread] = []
        self._broken = False

    def aim(self, hosts: Sequence[HostSlots]) -> None:
        """Set the hosts: start workers on new ones, and end those on hosts that are no longer listed."""
        for host in set(self._begun_s) - set(hosts):
            self._drop(host)
        for host in hosts:
            if host not in self._begun_s:
                self._begun_s[host] = time.monotonic()
                self.events.write(Warming(host.node, host.fragment))
                first = self._first_variables(host)
                for slot in range(host.slots):
                    self._waiting[host, slot] = self.starter.start(host, slot, self._command, first, MARKER.encode())

    def is_ready(self) -> bool:
        """Whether all workers are warm, or cannot become so."""
        self._collect()
        now = time.monotonic()
        ready = True
        for host, begun_s in self._begun_s.items():
            mine = [worker for (where, _), worker in self._waiting.items() if where == host]
            if all(worker.pump.marked.is_set() for worker in mine):
                if host not in self._told:
                    self._told.add(host)
                    self.events.write(Warm(host.node, host.fragment))
            elif now - begun_s < PATIENCE_S:
                ready = False
        return ready or self._broken

    def take(self, host: HostSlots, slot: int, environment: Mapping[str, str]) -> WorkerProcess | None:
        """The worker that waits there (it may still be warming), after sending it its environment; None if there is none."""
        worker = self._waiting.pop((host, slot), None)
        if worker is None or worker.status() is not None:
            return None
        return worker if worker.send(json.dumps(dict(environment)).encode() + b"\n") else None

    def settle(self) -> None:
        """Wait until dropped workers have ended and their exits are reported."""
        for thread in self._ending:
            thread.join()

    def close(self) -> None:
        """End all workers: the next incarnation is not needed."""
        for host in list(self._begun_s):
            self._drop(host)
        self.settle()
        self.starter.close()
        self.events.close()

    def _drop(self, host: HostSlots) -> None:
        del self._begun_s[host]
        self._told.discard(host)
        dropped = [self._waiting.pop(key) for key in list(self._waiting) if key[0] == host]
        for worker in dropped:
            worker.planned = worker.status() is None
            worker.kill()
            self._ending.append(threading.Thread(target=self.starter.wait, args=(worker,), daemon=True))
            self._ending[-1].start()
        if dropped:
            self.events.write(WarmingCanceled(host.node, host.fragment))

    def _collect(self) -> None:
        """Note exits. A killed worker has lost its node; one that exited will do so again, and shows why after a cold start."""
        for (host, slot), worker in list(self._waiting.items()):
            if worker.status() is None:
                continue
            del self._waiting[host, slot]
            status = self.starter.wait(worker)
            if was_taken(status):
                self._on_taken(host, status)
            else:
                self._broken = True
