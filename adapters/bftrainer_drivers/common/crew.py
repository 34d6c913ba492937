"""The workers of a trainer by member and slot: those that wait for their ranks, and those that have
joined a group.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Mapping, Sequence

from bftrainer.wires.hosts_file import HostSlots
from bftrainer_drivers.common.core import Heard, Joined, WaitingEnded, Warmed, WorkerEnded
from bftrainer_drivers.common.membership import Member
from bftrainer_drivers.common.outcome import exit_of
from bftrainer_drivers.common.warm_start import MARKER
from bftrainer_drivers.common.workers import WorkerProcess, WorkerStarter

Key = tuple[str, int]
"""A worker: label of its member, slot."""


class Crew:
    """Starts workers and tells of their ends. Safe to use from several threads; ``tell`` is called
    from any of them.
    """

    def __init__(self, starter: WorkerStarter, tell: Callable[[Heard], None]) -> None:
        self._starter = starter
        self._tell = tell
        self._lock = threading.Lock()
        self._waiting: dict[Key, WorkerProcess] = {}
        self.joined: dict[Key, WorkerProcess] = {}

    def warm_up(
        self, member: Member, command: Sequence[str], first: Mapping[str, str], incarnation: int
    ) -> None:
        """Start all workers of a member; they do their imports and wait for :meth:`join`. Once all
        have printed the marker, the member is told as warm.
        """
        unmarked = set(range(member.host.slots))

        def marked(slot: int) -> None:
            with self._lock:
                unmarked.discard(slot)
                is_last = not unmarked
            if is_last:
                self._tell(Warmed(member))

        for slot in range(member.host.slots):
            on_marked = functools.partial(marked, slot)
            worker = self._starter.start(
                member.host, slot, command, first, MARKER.encode(), incarnation, on_marked
            )
            with self._lock:
                self._waiting[member.label, slot] = worker
            self._follow(member, slot, worker)

    def join(
        self,
        member: Member,
        slot: int,
        environment: Mapping[str, str],
        if_cold: Mapping[str, str] = {},
        host: HostSlots | None = None,
    ) -> WorkerProcess:
        """Let a worker of this member and slot train: the waiting one gets its environment, or
        another is started, with ``if_cold`` as well. ``host``: where, if not on the member's own
        host.
        """
        with self._lock:
            worker = self._waiting.pop((member.label, slot), None)
            if worker is not None and worker.status() is None:
                self._joins(member, slot, worker)
            else:
                worker = None  # none waits, or its end is just being told
        if worker is None:
            at = (member.host, slot) if host is None else (host, host.slots + slot)
            worker = self._starter.start(
                *at, self._starter.trainer.command, {**environment, **if_cold}
            )
            with self._lock:
                self._joins(member, slot, worker)
            self._follow(member, slot, worker)
        else:
            # If the worker has just ended, its end will be told.
            worker.send(json.dumps(dict(environment)).encode() + b"\n")
        return worker

    def _joins(self, member: Member, slot: int, worker: WorkerProcess) -> None:
        worker.waits = False
        self.joined[member.label, slot] = worker
        self._tell(Joined(member, worker.log))

    def drop(self, member: Member) -> None:
        """End the member's waiting workers."""
        with self._lock:
            dropped = [
                self._waiting.pop(key) for key in list(self._waiting) if key[0] == member.label
            ]
        end(dropped)

    def kill_joined(self) -> None:
        """End all workers of the group."""
        with self._lock:
            workers = list(self.joined.values())
        end(workers)

    def _follow(self, member: Member, slot: int, worker: WorkerProcess) -> None:
        threading.Thread(
            target=self._wait, args=(member, slot, worker), name=f"wait {member.label}", daemon=True
        ).start()

    def _wait(self, member: Member, slot: int, worker: WorkerProcess) -> None:
        """Wait for a worker's end in a thread, forget the worker, and tell how it ended."""
        status = self._starter.wait(worker)
        ended = exit_of(status, worker.planned, worker.log, worker.host.node, slot)
        with self._lock:
            waits = worker.waits
            if self._waiting.get((member.label, slot)) is worker:
                del self._waiting[member.label, slot]
            if self.joined.get((member.label, slot)) is worker:
                del self.joined[member.label, slot]
        self._tell(WaitingEnded(member, ended) if waits else WorkerEnded(member, ended))


def end(workers: Sequence[WorkerProcess]) -> None:
    """End workers at once; the ends of those that still run are planned."""
    for worker in workers:
        worker.planned = worker.planned or worker.status() is None
        worker.kill()
