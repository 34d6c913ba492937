"""One incarnation of one trainer: the hosts file on one side, Horovod on the other.

All decisions are taken by one thread. Horovod's threads and the workers' waiters only put messages into its queue.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

from bftrainer.errors import InputFileError
from bftrainer.system.json_tail import JsonTail
from bftrainer.system.network import interface_address
from bftrainer_adapters.drivers.common.directory import DriverSettings, HostSlots, TrainerDirectory, TrainerOrder
from bftrainer_adapters.drivers.common.events import DriverEvent, EventWriter
from bftrainer_adapters.drivers.common.warm_command import warm_command
from bftrainer_adapters.drivers.common.workers import WorkerProcess, WorkerStarter
from bftrainer_adapters.drivers.horovod.driver import AnnouncedHosts, FragmentDriver
from bftrainer_adapters.drivers.horovod.launch import Key, WorkerLauncher
from bftrainer_adapters.drivers.horovod.membership import Announce, Drop, Leave, Member, Membership, StartWarming
from bftrainer_adapters.drivers.horovod.outcome import CANNOT_START, DriverOutcome, Exit, outcome
from bftrainer_adapters.drivers.horovod.rendezvous import RendezvousServer
from bftrainer_adapters.drivers.horovod.warm import WaitingWorkers
from bftrainer_adapters.drivers.horovod.watch import HangWatch

LAST_EXITS_S = 5.0
"""Horovod has ended when the last worker has told it so; the processes follow."""


class TrainerRun:
    """``run()`` until the trainer is done, stopped or failed."""

    def __init__(
        self, directory: TrainerDirectory, trainer: TrainerOrder, settings: DriverSettings, events: EventWriter
    ) -> None:
        self.directory = directory
        self.trainer = trainer
        self.settings = settings
        self.events = events
        self.messages: queue.Queue[Callable[[], None]] = queue.Queue()
        self.membership = Membership()
        self.members: dict[str, Member] = {}
        self.watch = HangWatch(settings.hang_s)
        self.progress = JsonTail(directory.progress)
        self.progress.skip()
        self.starter = WorkerStarter(directory, trainer, settings, events)
        self.warm = warm_command(trainer.command) if settings.warm else None
        self.waiting = WaitingWorkers(
            self.starter,
            self.warm or [],
            lambda member: self.messages.put(lambda: self._warmed(member)),
            lambda member, worker: self.messages.put(lambda: self._lost_waiting(member, worker)),
        )
        self.rendezvous = RendezvousServer(interface_address(settings.interface), settings.allow_from)
        self.hosts = AnnouncedHosts()
        self.driver = FragmentDriver(
            self.rendezvous, self.hosts, lambda labels: self.messages.put(lambda: self._formed(labels))
        )
        self.training: dict[Key, tuple[WorkerProcess, Sequence[threading.Event]]] = {}
        self.launch = WorkerLauncher(
            self.starter, self.waiting, self.rendezvous, trainer, settings, self.members.__getitem__, self._refuge,
            lambda key, worker, events: self.messages.put(lambda: self.training.update({key: (worker, events)})),
            lambda member, key, worker, status: self.messages.put(lambda: self._exited(member, key, worker, status)),
        )  # fmt: skip
        self.exits: list[Exit] = []
        self.started = False
        self.leave_reason: str | None = None
        self.leave_by_s = 0.0
        self.checkpointed = False
        self.unreported_since_s: float | None = None
        self.ended: DriverOutcome | None = None

    def run(self) -> DriverOutcome:
        """Follow the hosts file until the end; every worker has ended when this returns."""
        try:
            while self.ended is None:
                self._hear()
                self._follow_orders()
                self._follow_progress()
                self._end_what_must_end()
                if self.ended is None and self.started and self.driver.finished():
                    self._wait_for_last_exits(lambda: self.training)
                    self.ended = outcome(self.exits, self.leave_reason)
            return self.ended
        finally:
            self.driver._shutdown.set()  # no group may be formed any more; stop() would wait for discovery
            self.rendezvous.stop()
            self.starter.kill_all()
            self._wait_for_last_exits(self.starter.live)
            self.starter.close()

    def end(self, reason: str) -> None:
        """From another thread, or a signal: stop now, without a checkpoint."""
        self.messages.put(lambda: self._finish(DriverOutcome(DriverEvent.STOPPED, reason)))

    # --- what comes in ------------------------------------------------------------------------------------------------

    def _hear(self, timeout_s: float | None = None) -> None:
        """Wait for a message, for one poll at most, then take all there are."""
        try:
            self.messages.get(timeout=self.settings.poll_s if timeout_s is None else timeout_s)()
            while True:
                self.messages.get_nowait()()
        except queue.Empty:
            return

    def _follow_orders(self) -> None:
        try:
            if self.leave_reason is None and self.directory.stop_requested():
                self._ask_to_leave("the pilot asked for it")
            self._do(self.membership.order(self.directory.read_hosts(), time.monotonic()))
        except InputFileError as error:  # half-made by hand, or gone: the last order holds
            self._do(self.membership.tick(time.monotonic()))
            if str(error) != getattr(self, "_complaint", ""):
                self._complaint = str(error)
                print(f"hosts or control: {error}", flush=True)

    def _follow_progress(self) -> None:
        now = time.monotonic()
        for line in self.progress.read():
            if line.get("incarnation") != self.events.incarnation:
                continue
            self.watch.heard(now)
            if line.get("phase") == "checkpointed" and self.leave_reason is not None:
                self.checkpointed = True
            if line.get("world_size") == self._group_size():
                self._running()
        if self.watch.heard_s is None and self.unreported_since_s is not None and now - self.unreported_since_s > 10:
            self._running()  # a script that reports nothing

    # --- what has happened --------------------------------------------------------------------------------------------

    def _warmed(self, member: Member) -> None:
        self.membership.warmed(member, time.monotonic())
        self.events.write(DriverEvent.WARM, host=member.place.host, fragment=member.place.fragment)

    def _lost_waiting(self, member: Member, worker: WorkerProcess) -> None:
        status = worker.status()
        assert status is not None, "it has ended"
        end = Exit(status, False, worker.log)
        self._withhold(member, end)
        everywhere = not (self.membership.group or self.membership.warming or self.membership.warm)
        if end.status in CANNOT_START:
            self._finish(
                DriverOutcome(DriverEvent.FAILED, f"the command cannot be started: a worker {end}", end.status, end.log)
            )
        elif everywhere and end.failed and not self.started:
            self._finish(DriverOutcome(DriverEvent.FAILED, f"every worker {end} while it started", end.status, end.log))

    def _formed(self, labels: list[str]) -> None:
        self.membership.formed(labels)
        self.exits.clear()  # whoever ended before this group is not part of its end
        self.watch.regrouped(time.monotonic())
        self.unreported_since_s = time.monotonic()

    def _exited(self, member: Member, key: Key, worker: WorkerProcess, status: int) -> None:
        self.training.pop(key, None)
        end = Exit(status, worker.planned, worker.log)
        self.exits.append(end)
        if end.lost or end.failed:
            self._withhold(member, end)

    def _withhold(self, member: Member, end: Exit) -> None:
        if self.membership.lost(member):
            place = member.place
            self.events.write(DriverEvent.WITHHELD, host=place.host, fragment=place.fragment, reason=f"a worker {end}")
        self.driver.announce(self.membership.announced)

    def _running(self) -> None:
        """The group trains; told once, and not before every worker outside of it has ended."""
        labels = {member.label for member in self.membership.group}
        if any(member.place.fragment in self.membership.withheld for member in self.membership.group):
            return  # a stand-in trains in its place, until the rescale that is on its way
        if self.unreported_since_s is not None and all(label in labels for label, _ in self.training):
            self.unreported_since_s = None
            fragments = sorted(member.place.fragment for member in self.membership.group)
            self.events.write(DriverEvent.RUNNING, world_size=self._group_size(), fragments=fragments)

    def _group_size(self) -> int:
        return sum(member.place.slots for member in self.membership.group)

    # --- what is done about it ----------------------------------------------------------------------------------------

    def _do(self, actions: Sequence[StartWarming | Drop | Announce | Leave]) -> None:
        for action in actions:
            match action:
                case StartWarming(member):
                    self._start_warming(member)
                case Drop(member):
                    self.waiting.drop(member)
                    place = member.place
                    self.events.write(DriverEvent.WARMING_CANCELLED, host=place.host, fragment=place.fragment)
                case Announce(members):
                    self._announce(members)
                case Leave(reason):
                    self._ask_to_leave(reason)

    def _start_warming(self, member: Member) -> None:
        self.members[member.label] = member
        if self.warm is None:
            self.membership.warmed(member, time.monotonic())
        else:
            self.events.write(DriverEvent.WARMING, host=member.place.host, fragment=member.place.fragment)
            self.waiting.start(member)

    def _announce(self, members: tuple[Member, ...]) -> None:
        self.driver.announce(members)
        if not self.started and members:
            self.started = True
            threading.Thread(target=self.driver.start, args=(1, self.launch), name="start", daemon=True).start()

    def _ask_to_leave(self, reason: str) -> None:
        if self.leave_reason is not None:
            return
        self.leave_reason = reason
        self.leave_by_s = time.monotonic() + self.trainer.stop_s
        self.membership.leaving = True
        self.events.write(DriverEvent.STOPPING, reason=reason)
        self.directory.ask_to_leave(self.events.incarnation)
        if not self.started:
            self._finish(DriverOutcome(DriverEvent.STOPPED, reason))

    def _finish(self, how: DriverOutcome) -> None:
        self.ended = self.ended or how

    def _end_what_must_end(self) -> None:
        now = time.monotonic()
        if self.leave_reason is not None and now >= self.leave_by_s:
            self._finish(
                DriverOutcome(DriverEvent.STOPPED, f"{self.leave_reason}; killed after {self.trainer.stop_s:g} s")
            )
            return
        hung = self.watch.hung(*self.driver.stragglers(), now) if self.started else set()
        group = {member.label for member in self.membership.group}
        for (label, slot), (worker, told_to_end) in list(self.training.items()):
            if (label, slot) in hung:
                silent_s = round(now - (self.watch.heard_s or now), 1)
                place = worker.place
                self.events.write(DriverEvent.HUNG, host=place.host, fragment=place.fragment, silent_s=silent_s)
                worker.kill()
            elif (self.unreported_since_s is not None and label not in group) or any(
                event.is_set() for event in told_to_end
            ):
                worker.planned = True
                worker.kill()

    def _refuge(self, lost: Member) -> HostSlots | None:
        """A place of the group where a worker still trains; called from Horovod's threads."""
        alive = {label for label, _ in list(self.training)}
        withheld = set(self.membership.withheld)
        for member in self.membership.group:
            if member != lost and member.label in alive and member.place.fragment not in withheld:
                return member.place
        return None

    def _wait_for_last_exits(self, left: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + LAST_EXITS_S
        while (left() or not self.messages.empty()) and time.monotonic() < deadline_s:
            self._hear(0.05)
