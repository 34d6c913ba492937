"""Warm workers: started when their host is listed, and sent their ranks when Horovod takes them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence

from bftrainer_adapters.drivers.common.warm_start import MARKER
from bftrainer_adapters.drivers.common.workers import WorkerProcess, WorkerStarter
from bftrainer_adapters.drivers.horovod.membership import Member


class WaitingWorkers:
    """Waiting workers by member and slot. ``on_warm`` and ``on_lost`` are called from their own threads."""

    def __init__(
        self,
        starter: WorkerStarter,
        command: Sequence[str],
        environment: Mapping[str, str],
        on_warm: Callable[[Member], None],
        on_lost: Callable[[Member, WorkerProcess], None],
    ) -> None:
        self._starter = starter
        self._command = command
        self._environment = environment
        self._on_warm = on_warm
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, int], WorkerProcess] = {}

    def start(self, member: Member) -> None:
        """Start all the member's workers."""
        for slot in range(member.host.slots):
            worker = self._starter.start(member.host, slot, self._command, self._environment, MARKER.encode())
            with self._lock:
                self._waiting[member.label, slot] = worker
        threading.Thread(target=self._watch, args=(member,), name=f"warm {member.label}", daemon=True).start()

    def take(self, label: str, slot: int, environment: Mapping[str, str]) -> WorkerProcess | None:
        """The waiting worker, after sending it its environment; None if there is none."""
        with self._lock:
            worker = self._waiting.pop((label, slot), None)
        if worker is None or not worker.send(json.dumps(dict(environment)).encode() + b"\n"):
            return None
        return worker

    def drop(self, member: Member) -> None:
        """End the member's waiting workers."""
        for slot in range(member.host.slots):
            with self._lock:
                worker = self._waiting.pop((member.label, slot), None)
            if worker is not None:
                worker.planned = worker.status() is None
                worker.kill()
                threading.Thread(target=self._starter.wait, args=(worker,), daemon=True).start()

    def _watch(self, member: Member) -> None:
        """Watch until all are warm, then until all are taken; a worker that ends before that is lost."""
        told = False
        while mine := self._of(member):
            if ended := [worker for worker in mine if worker.status() is not None]:
                self.drop(member)
                self._on_lost(member, ended[0])
                return
            if not told and all(worker.pump.marked.is_set() for worker in mine):
                told = True
                self._on_warm(member)
            mine[0].pump.marked.wait(0.05) if not told else threading.Event().wait(0.1)

    def _of(self, member: Member) -> list[WorkerProcess]:
        with self._lock:
            return [worker for (label, _), worker in self._waiting.items() if label == member.label]
