"""Horovod's ``create_worker``: one call per worker, in its own thread, until the worker has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars

from bftrainer.protocol.control import STOPPED_STATUS
from bftrainer.protocol.environment import IN_WORKER
from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer_adapters.drivers.common.workers import WorkerProcess, WorkerStarter, exit_code
from bftrainer_adapters.drivers.horovod.membership import Member
from bftrainer_adapters.drivers.horovod.rendezvous import RendezvousServer
from bftrainer_adapters.drivers.horovod.waiting_workers import WaitingWorkers

Key = tuple[str, int]
IN_THE_WORKER = {IN_WORKER: str(Path(__file__).resolve().with_name("in_worker.py"))}
"""A worker that starts cold runs the file in ``bftrainer.progress.track``, a waiting one before it is warm."""


class WorkerLauncher:
    """Callable with Horovod's signature. The callbacks are called from Horovod's threads."""

    def __init__(
        self,
        starter: WorkerStarter,
        waiting: WaitingWorkers,
        rendezvous: RendezvousServer,
        trainer: TrainerMessage,
        settings: DriverSettings,
        members: Callable[[str], Member],
        refuge: Callable[[Member], HostSlots | None],
        on_started: Callable[[Key, WorkerProcess, Sequence[threading.Event]], None],
        on_exited: Callable[[Member, Key, WorkerProcess, int], None],
    ) -> None:
        self._starter = starter
        self._waiting = waiting
        self._rendezvous = rendezvous
        self._trainer = trainer
        self._settings = settings
        self._members = members
        self._refuge = refuge
        self._on_started = on_started
        self._on_exited = on_exited

    def __call__(self, slot: Any, told_to_end: Sequence[threading.Event]) -> tuple[int, float]:
        """Exit code and time, as Horovod expects them."""
        member = self._members(slot.hostname)
        group = self._rendezvous.group
        environment = self._environment(slot)
        worker = self._waiting.take(slot.hostname, slot.local_rank, environment)
        if worker is None:
            worker = self._starter.start(
                member.host, slot.local_rank, self._trainer.command, environment | IN_THE_WORKER
            )
        status = self._follow(member, slot, worker, told_to_end)
        if status not in (0, STOPPED_STATUS) and not worker.planned:
            stand_in = self._stand_in(member, slot, group, environment)
            if stand_in is not None:
                status = self._follow(member, slot, stand_in, told_to_end)
        return 0 if status == STOPPED_STATUS else exit_code(status), time.time()

    def _follow(self, member: Member, slot: Any, worker: WorkerProcess, told_to_end: Sequence[threading.Event]) -> int:
        key = (member.label, int(slot.local_rank))
        self._on_started(key, worker, told_to_end)
        status = self._starter.wait(worker)
        self._on_exited(member, key, worker, status)
        return status

    def _stand_in(self, member: Member, slot: Any, group: int, environment: dict[str, str]) -> WorkerProcess | None:
        """Another worker of the same rank, on a node of the group, for a worker that died before it joined.

        The others already wait for this rank in Gloo, which cannot be interrupted: after its timeout they would abort and
        lose all work since the last checkpoint (seen with Horovod 0.28.1). So the rank joins, and leaves in the rescale
        that follows, because its fragment is withheld.
        """
        if self._rendezvous.group != group or self._rendezvous.has_joined(slot.rank):
            return None
        refuge = self._refuge(member)
        if refuge is None:
            return None
        own = environment | IN_THE_WORKER
        return self._starter.start(refuge, refuge.slots + slot.local_rank, self._trainer.command, own)

    def _environment(self, slot: Any) -> dict[str, str]:
        interface = self._settings.interface
        found = {
            **create_run_env_vars(
                self._rendezvous.address_for_workers, [interface], self._rendezvous.port, elastic=True
            ),
            **create_slot_env_vars(slot),
        }
        return {name: str(value) for name, value in found.items()}
