"""The workers of a trainer by member and slot: those that wait for their ranks, and those that have
joined a group.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Mapping, Sequence

from bftrainer.wires.hosts_file import HostSlots
from bftrainer_drivers.common.core import Joined, News, WaitingEnded, Warmed, WorkerEnded
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

    def __init__(self, starter: WorkerStarter, tell: Callable[[News], None]) -> None:
        self._starter = starter
        self._tell = tell
        self._lock = threading.Lock()
        self._waiting: dict[Key, WorkerProcess] = {}
        self.joined: dict[Key, WorkerProcess] = {}

    def warm_up(
        self, member: Member, command: Sequence[str], variables: Mapping[str, str], incarnation: int
    ) -> None:
        """Start all workers of a member with these environment ``variables``; they do their imports
        and wait for :meth:`join`. Once all have printed the marker, :class:`Warmed` is told.
        """
        unmarked = set(range(member.host.slots))

        def note_marker(slot: int) -> None:
            with self._lock:
                unmarked.discard(slot)
                is_last = not unmarked
            if is_last:
                self._tell(Warmed(member))

        for slot in range(member.host.slots):
            on_marked = functools.partial(note_marker, slot)
            worker = self._starter.start(
                member.host, slot, command, variables, MARKER.encode(), incarnation, on_marked
            )
            with self._lock:
                self._waiting[member.label, slot] = worker
            self._start_waiting(member, slot, worker)

    def join(
        self,
        member: Member,
        slot: int,
        environment: Mapping[str, str],
        cold_variables: Mapping[str, str] = {},
        host: HostSlots | None = None,
    ) -> WorkerProcess:
        """Let a worker of this member and slot train, and return it: the waiting worker is sent
        ``environment``, or another one is started with ``environment`` and ``cold_variables``.

        ``host``: where to start it, if not on the member's own host; its slot there follows those
        of the host's own workers.
        """
        with self._lock:
            worker = self._waiting.pop((member.label, slot), None)
            if worker is not None and worker.status() is None:
                self._note_joined(member, slot, worker)
            else:
                worker = None  # none waits, or its end is just being told
        if worker is not None:
            # If the worker has just ended, its end will be told.
            worker.send(json.dumps(dict(environment)).encode() + b"\n")
            return worker
        worker = self._starter.start(
            member.host if host is None else host,
            slot if host is None else host.slots + slot,
            self._starter.trainer.command,
            {**environment, **cold_variables},
        )
        with self._lock:
            self._note_joined(member, slot, worker)
        self._start_waiting(member, slot, worker)
        return worker

    def _note_joined(self, member: Member, slot: int, worker: WorkerProcess) -> None:
        """Count the worker as one of the group and tell that; called with the lock held."""
        worker.is_waiting = False
        self.joined[member.label, slot] = worker
        self._tell(Joined(member, worker.log))

    def drop(self, member: Member) -> None:
        """End the member's waiting workers; those that have joined go on."""
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

    def _start_waiting(self, member: Member, slot: int, worker: WorkerProcess) -> None:
        """Start a thread that waits for the end of a worker."""
        threading.Thread(
            target=self._wait_for_end,
            args=(member, slot, worker),
            name=f"wait {member.label}",
            daemon=True,
        ).start()

    def _wait_for_end(self, member: Member, slot: int, worker: WorkerProcess) -> None:
        """Wait for a worker's end in a thread, forget the worker, and tell how it ended."""
        status = self._starter.wait(worker)
        ended = exit_of(status, worker.is_planned, worker.log, worker.host.node, slot)
        key = (member.label, slot)
        with self._lock:
            is_waiting = worker.is_waiting
            # By now another worker may have the same member and slot: that one stays.
            if self._waiting.get(key) is worker:
                del self._waiting[key]
            if self.joined.get(key) is worker:
                del self.joined[key]
        self._tell(WaitingEnded(member, ended) if is_waiting else WorkerEnded(member, ended))


def end(workers: Sequence[WorkerProcess]) -> None:
    """End workers at once; the ends of those that still run are planned."""
    for worker in workers:
        worker.is_planned = worker.is_planned or worker.status() is None
        worker.kill()
