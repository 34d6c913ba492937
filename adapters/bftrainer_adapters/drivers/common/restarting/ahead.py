"""The next incarnation's workers, started while the present one still trains: they do their imports and wait."""

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
from bftrainer_adapters.drivers.common.warm_start import MARKER
from bftrainer_adapters.drivers.common.workers import WorkerProcess, WorkerStarter

PATIENCE_S = 60.0
"""A worker that is not warm by then is not waited for."""


class Ahead:
    """Workers for some places. Not safe to share between threads; ``on_taken`` hears of a place whose worker was killed."""

    def __init__(
        self,
        directory: TrainerDirectory,
        trainer: TrainerMessage,
        settings: DriverSettings,
        command: Sequence[str],
        on_taken: Callable[[HostSlots, int], None],
    ) -> None:
        self.events = EventWriter(directory.events, directory.new_incarnation())
        self.starter = WorkerStarter(directory, trainer, settings, self.events)
        self._command = command
        self._on_taken = on_taken
        self._waiting: dict[tuple[HostSlots, int], WorkerProcess] = {}
        self._begun_s: dict[HostSlots, float] = {}
        self._told: set[HostSlots] = set()
        self._ending: list[threading.Thread] = []
        self._broken = False

    def aim(self, places: Sequence[HostSlots]) -> None:
        """These are the places now: workers are started where there are none, and ended where nobody wants them."""
        for place in set(self._begun_s) - set(places):
            self._drop(place)
        for place in places:
            if place not in self._begun_s:
                self._begun_s[place] = time.monotonic()
                self.events.write(Warming(place.host, place.fragment))
                for slot in range(place.slots):
                    self._waiting[place, slot] = self.starter.start(place, slot, self._command, {}, MARKER.encode())

    def is_ready(self) -> bool:
        """Whether there is nothing more to wait for."""
        self._collect()
        now = time.monotonic()
        ready = True
        for place, begun_s in self._begun_s.items():
            mine = [worker for (where, _), worker in self._waiting.items() if where == place]
            if all(worker.pump.marked.is_set() for worker in mine):
                if place not in self._told:
                    self._told.add(place)
                    self.events.write(Warm(place.host, place.fragment))
            elif now - begun_s < PATIENCE_S:
                ready = False
        return ready or self._broken

    def take(self, place: HostSlots, slot: int, environment: Mapping[str, str]) -> WorkerProcess | None:
        """The worker that waits there, with its orders (it may still be warming); None if there is none."""
        worker = self._waiting.pop((place, slot), None)
        if worker is None or worker.status() is not None:
            return None
        return worker if worker.send(json.dumps(dict(environment)).encode() + b"\n") else None

    def settle(self) -> None:
        """Wait until those that were dropped have ended, and their ends are reported."""
        for thread in self._ending:
            thread.join()

    def close(self) -> None:
        """It was not needed: end everything, and leave nothing open."""
        for place in list(self._begun_s):
            self._drop(place)
        self.settle()
        self.starter.close()
        self.events.close()

    def _drop(self, place: HostSlots) -> None:
        del self._begun_s[place]
        self._told.discard(place)
        dropped = [self._waiting.pop(key) for key in list(self._waiting) if key[0] == place]
        for worker in dropped:
            worker.planned = worker.status() is None
            worker.kill()
            self._ending.append(threading.Thread(target=self.starter.wait, args=(worker,), daemon=True))
            self._ending[-1].start()
        if dropped:
            self.events.write(WarmingCanceled(place.host, place.fragment))

    def _collect(self) -> None:
        """One that was killed has lost its node; one that ended by itself would do so again: it is started cold, and seen."""
        for (place, slot), worker in list(self._waiting.items()):
            if worker.status() is None:
                continue
            del self._waiting[place, slot]
            status = self.starter.wait(worker)
            if status < 0 or status > 128:
                self._on_taken(place, status)
            else:
                self._broken = True
