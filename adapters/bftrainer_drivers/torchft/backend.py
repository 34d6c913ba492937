"""Replicas under torchft: one for each host slot. They join and leave between two steps, as the
lighthouse's quorum says.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from bftrainer.system.sealed import KEY_BYTES
from bftrainer.wires.control import STOPPED_STATUS
from bftrainer.wires.driver_events import Hung, Warm, Warming
from bftrainer.wires.environment import IN_WORKER
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.replicas import REPLICA, Meeting
from bftrainer.wires.reports import Ending
from bftrainer.wires.typed_json import write_json
from bftrainer_drivers.common import vouching
from bftrainer_drivers.common.command_line import thread_variables
from bftrainer_drivers.common.core import EndNow, GroupFormed, News, Terms, Warmed, WorkerEnded
from bftrainer_drivers.common.crew import end
from bftrainer_drivers.common.group_guards import guard_variables
from bftrainer_drivers.common.legal_sizes import LegalSizes
from bftrainer_drivers.common.membership import Member
from bftrainer_drivers.common.outcome import DriverOutcome
from bftrainer_drivers.common.run_loop import Backend, Run
from bftrainer_drivers.common.workers import WorkerProcess
from bftrainer_drivers.torchft.lighthouse import Lighthouse
from bftrainer_drivers.torchft.quorum import Quorum, StepQuorum

T = TypeVar("T")


class ReplicaBackend(Backend):
    """Starts a replica for each host slot. The lighthouse has an event loop in a thread of its own,
    where all of the quorum is read and changed.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        trainer, hang_s = run.trainer, run.settings.hang_s
        self.terms = Terms(
            is_elastic=True,
            sizes=LegalSizes.of(trainer),
            stop_s=trainer.stop_s,
            hang_s=hang_s,
            samples=trainer.samples_total,
            first_step_s=run.first_step_s,
        )
        self._quorum = Quorum(self.terms.sizes)
        self._loop = asyncio.new_event_loop()
        self._key = secrets.token_bytes(KEY_BYTES)
        self._lighthouse = Lighthouse(
            self._quorum, self._key, self._report_warm, self._report_group
        )
        self._replicas: dict[str, tuple[Member, WorkerProcess]] = {}
        self._warm: set[Member] = set()
        self._missing_since_s: dict[str, float] = {}
        self._n_started = 0

    def open(self) -> None:
        threading.Thread(target=self._loop.run_forever, name="lighthouse", daemon=True).start()
        settings = self.run.settings
        place = self._in_loop(
            lambda: self._lighthouse.open(settings.interface, settings.allow_from)
        )
        write_json(self.run.directory.meeting, Meeting(*place, self._key.hex()), 0o600)

    def _in_loop(self, call: Callable[[], T]) -> T:
        """Call a function in the lighthouse's event loop and return its result; then the next
        step's quorum is formed, if it can begin.
        """

        async def call_and_tick() -> T:
            result = call()
            self._lighthouse.tick()
            return result

        return asyncio.run_coroutine_threadsafe(call_and_tick(), self._loop).result()

    def start(self, member: Member) -> None:
        """Start a replica per slot of a member; they join whenever they are ready."""
        host = member.host
        names: list[str] = []
        self.run.events.write(Warming(host.node, host.fragment))
        for slot in range(host.slots):
            self._n_started += 1
            name = f"{self._n_started:06d}"  # sorted by name, the oldest replica has rank 0
            names.append(name)
            worker = self.run.crew.join(member, slot, self._replica_environment(host, slot, name))
            self._replicas[name] = member, worker
        self._in_loop(lambda: self._quorum.admit(names, member.label))
        self.run.tell(Warmed(member, is_cold=True))

    def announce(self, members: Sequence[Member]) -> None:
        self._in_loop(lambda: self._remove_replicas([]))

    def drop(self, member: Member) -> None:
        """End the replicas of a member that is lost or not needed. The quorum forgets them first,
        so that no step waits for them.
        """
        names = [name for name, (other, _) in self._replicas.items() if other == member]
        self._in_loop(lambda: self._remove_replicas(names))
        end([self._replicas[name][1] for name in names])

    def _remove_replicas(self, names: Sequence[str]) -> None:
        """Take the ended replicas ``names`` out of the quorum and, in the same moment, dismiss the
        members that the core announces no longer: between the two, a group of another size would
        form. Called in the lighthouse's event loop.
        """
        announced = self.run.state.membership.announced
        for name in names:
            self._quorum.lose(name)
        others = [name for name, (member, _) in self._replicas.items() if member not in announced]
        self._quorum.dismiss({*others} & {*self._quorum.group})

    def note(self, news: News) -> None:
        """Take a replica that has ended out of the quorum. If it has saved after a stop request,
        end the driver.
        """
        if not isinstance(news, WorkerEnded):
            return
        ended_worker = news.member, news.exit.slot
        ended = [
            name
            for name, (member, worker) in self._replicas.items()
            if (member, worker.slot) == ended_worker
        ]
        for name in ended:
            del self._replicas[name]
        self._in_loop(lambda: self._remove_replicas(ended))
        if (leaving := self.run.state.leaving) is not None and news.exit.status == STOPPED_STATUS:
            # Rank 0 has saved; the others wait for it.
            self.run.tell(EndNow(DriverOutcome(Ending.STOPPED, leaving.reason)))

    def tick(self, now_s: float) -> None:
        """Kill replicas for which the others have waited for ``hang_s``; but not rank 0 once it
        reports, because its silence is the trainer's.
        """
        self._quorum.any_size = self.run.state.leaving is not None
        waited_for = self._in_loop(lambda: self._quorum.missing() if self._quorum.asked else set())
        if self.run.state.silence.last_report_s is not None:
            waited_for -= {*self._quorum.group[:1]}
        self._missing_since_s = {
            name: self._missing_since_s.get(name, now_s) for name in waited_for
        }
        for name, since_s in self._missing_since_s.items():
            member, worker = self._replicas.get(name, (None, None))
            if member is not None and worker is not None and now_s - since_s >= self.terms.hang_s:
                self.run.events.write(
                    Hung(member.host.node, member.host.fragment, round(now_s - since_s, 1))
                )
                worker.kill()

    def is_over(self) -> bool:
        return self._n_started > 0 and not self._replicas

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._lighthouse.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _report_warm(self, replica: str) -> None:
        """Report a member as warm when a replica asks for its first step; called in the
        lighthouse's thread.
        """
        member, _ = self._replicas.get(replica, (None, None))
        if member is not None and member not in self._warm:
            self._warm.add(member)
            self.run.events.write(Warm(member.host.node, member.host.fragment))

    def _report_group(self, quorum: StepQuorum) -> None:
        """Record a quorum of other replicas, and end those that were released; called in the
        lighthouse's thread.
        """
        replicas = {
            name: self._replicas[name]
            for name in (*quorum.replicas, *quorum.released)
            if name in self._replicas
        }
        end([replicas[name][1] for name in quorum.released if name in replicas])
        labels = {replicas[name][0].label for name in quorum.replicas if name in replicas}
        self.run.tell(GroupFormed(tuple(sorted(labels))))

    def _replica_environment(self, host: HostSlots, slot: int, replica: str) -> dict[str, str]:
        """Return the variables of a replica; those that the trainer sets itself are left out."""
        trainer, settings = self.run.trainer, self.run.settings
        variables = {
            REPLICA: replica,
            **guard_variables(settings),
            IN_WORKER: str(Path(vouching.__file__).resolve()),
            "GLOO_SOCKET_IFNAME": settings.interface,
            "NCCL_SOCKET_IFNAME": settings.interface,
            "LOCAL_RANK": str(slot),
            "LOCAL_WORLD_SIZE": str(host.slots),
        }
        variables |= self.run.visible_gpus(host) | thread_variables(host, trainer.environment)
        return {name: value for name, value in variables.items() if name not in trainer.environment}
