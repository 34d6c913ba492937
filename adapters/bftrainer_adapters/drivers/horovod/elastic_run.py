"""One incarnation under Elastic Horovod: follows the hosts file and drives Horovod.

One thread takes all decisions. Horovod's threads, and those that wait for workers, only put messages into its queue.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

from bftrainer.errors import InputFileError
from bftrainer.protocol.control import ControlMessage, ControlRequest, is_stop_requested
from bftrainer.protocol.events import Hung, Running, Stopping, Warm, Warming, WarmingCanceled, Withheld
from bftrainer.protocol.hosts import HostSlots, read_hosts
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.progress_line import Phase, parse_progress
from bftrainer.protocol.reports import Ending
from bftrainer.protocol.typed_json import write_json
from bftrainer.system.json_tail import JsonTail
from bftrainer.system.network import interface_address
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.outcome import (
    CANNOT_START,
    MOST_ERRORS,
    DriverOutcome,
    Exit,
    ScriptErrors,
    exit_of,
    outcome,
)
from bftrainer_adapters.drivers.common.reported import latest_progress
from bftrainer_adapters.drivers.common.silence import ReportSilence, longest_silence_s
from bftrainer_adapters.drivers.common.warm_command import warm_command
from bftrainer_adapters.drivers.common.workers import WorkerProcess, WorkerStarter
from bftrainer_adapters.drivers.horovod.elastic_driver import AnnouncedHosts, FragmentDriver
from bftrainer_adapters.drivers.horovod.hang_watch import HangWatch
from bftrainer_adapters.drivers.horovod.membership import Announce, Drop, Leave, Member, Membership, StartWarming
from bftrainer_adapters.drivers.horovod.rendezvous import RendezvousServer
from bftrainer_adapters.drivers.horovod.waiting_workers import WaitingWorkers
from bftrainer_adapters.drivers.horovod.worker_launcher import IN_THE_WORKER, Key, WorkerLauncher

LAST_EXITS_S = 5.0
"""How long processes may take to end after Horovod has ended, which is when the last worker has reported its end."""


class ElasticRun:
    """``run()`` returns when the trainer is done, stopped or failed."""

    def __init__(
        self, directory: TrainerDirectory, trainer: TrainerMessage, settings: DriverSettings, events: EventWriter
    ) -> None:
        self.directory = directory
        self.trainer = trainer
        self.settings = settings
        self.events = events
        self.messages: queue.Queue[Callable[[], None]] = queue.Queue()
        self.membership = Membership()
        self.members: dict[str, Member] = {}
        self.silence = ReportSilence(settings.hang_s, longest_silence_s(latest_progress(directory)))
        self.watch = HangWatch(self.silence)
        self.progress = JsonTail(directory.progress)
        self.progress.skip()
        self.starter = WorkerStarter(directory, trainer, settings, events)
        self.warm = warm_command(trainer.command) if settings.warm else None
        self.waiting = WaitingWorkers(
            self.starter,
            self.warm or [],
            IN_THE_WORKER,
            lambda member: self.messages.put(lambda: self._warmed(member)),
            lambda member, worker: self.messages.put(lambda: self._lost_waiting(member, worker)),
        )
        self.rendezvous = RendezvousServer(interface_address(settings.interface), settings.allow_from)
        self.hosts = AnnouncedHosts()
        self.driver = FragmentDriver(
            self.rendezvous, self.hosts, lambda labels, number: self.messages.put(lambda: self._formed(labels, number))
        )
        self.training: dict[Key, tuple[WorkerProcess, Sequence[threading.Event]]] = {}
        self.launch = WorkerLauncher(
            self.starter, self.waiting, self.rendezvous, trainer, settings, self.members.__getitem__, self._refuge,
            lambda key, worker, events: self.messages.put(lambda: self.training.update({key: (worker, events)})),
            lambda member, key, worker, status: self.messages.put(lambda: self._exited(member, key, worker, status)),
        )  # fmt: skip
        self.exits: list[Exit] = []
        self.errors = ScriptErrors(settings.hang_s)
        self.group = 0
        self.started = False
        self.leave_reason: str | None = None
        self.leave_by_s = 0.0
        self.checkpointed = False
        self.unreported_since_s: float | None = None
        self.ended: DriverOutcome | None = None

    def run(self) -> DriverOutcome:
        """Follow the hosts file to the end; all workers have ended when this returns."""
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
            self.driver._shutdown.set()  # no group may be formed now; stop() would wait for discovery
            self.rendezvous.stop()
            self.starter.kill_all()
            self._wait_for_last_exits(self.starter.live)
            self.starter.close()

    def end(self, reason: str) -> None:
        """Stop at once, without a checkpoint; called from another thread or a signal handler."""
        self.messages.put(lambda: self._finish(DriverOutcome(Ending.STOPPED, reason)))

    # --- inputs -------------------------------------------------------------------------------------------------------

    def _hear(self, timeout_s: float | None = None) -> None:
        """Wait up to one poll for a message, then handle all that have arrived."""
        try:
            self.messages.get(timeout=self.settings.poll_s if timeout_s is None else timeout_s)()
            while True:
                self.messages.get_nowait()()
        except queue.Empty:
            return

    def _follow_orders(self) -> None:
        try:
            if self.leave_reason is None and is_stop_requested(self.directory.control):
                self._ask_to_leave("the pilot requested a stop")
            self._do(self.membership.order(read_hosts(self.directory.hosts), time.monotonic()))
        except InputFileError as error:  # edited by hand, or missing: the last one stays in force
            self._do(self.membership.tick(time.monotonic()))
            if str(error) != getattr(self, "_complaint", ""):
                self._complaint = str(error)
                print(f"hosts or control: {error}", flush=True)

    def _follow_progress(self) -> None:
        now = time.monotonic()
        for line in map(parse_progress, self.progress.read()):
            if line.incarnation != self.events.incarnation:
                continue
            self.silence.heard(now)
            if line.phase is Phase.CHECKPOINTED and self.leave_reason is not None:
                self.checkpointed = True
            if line.world_size == self._group_size():
                self._running()
        if self.silence.heard_s is None and self.unreported_since_s is not None and now - self.unreported_since_s > 10:
            self._running()  # the script reports nothing

    # --- what happened -------------------------------------------------------------------------------------------------

    def _warmed(self, member: Member) -> None:
        self.membership.warmed(member, time.monotonic())
        self.events.write(Warm(member.host.node, member.host.fragment))

    def _lost_waiting(self, member: Member, worker: WorkerProcess) -> None:
        status = worker.status()
        assert status is not None, "it has ended"
        end = exit_of(status, worker.planned, worker.log)
        self._withhold(member, end)
        everywhere = not (self.membership.group or self.membership.warming or self.membership.warm)
        if end.status in CANNOT_START:
            self._finish(
                DriverOutcome(Ending.FAILED, f"the command cannot be started: a worker {end}", end.status, end.log)
            )
        elif everywhere and end.failed and not self.started:
            self._finish(DriverOutcome(Ending.FAILED, f"every worker {end} while it started", end.status, end.log))

    def _formed(self, labels: list[str], number: int) -> None:
        self.membership.formed(labels)
        self.group = number
        self.exits.clear()  # workers that ended before this group do not explain its end
        self.errors.formed(time.monotonic())
        self.watch.regrouped(time.monotonic())
        self.unreported_since_s = time.monotonic()

    def _exited(self, member: Member, key: Key, worker: WorkerProcess, status: int) -> None:
        self.training.pop(key, None)
        end = exit_of(status, worker.planned, worker.log)
        self.exits.append(end)
        if self.leave_reason is None and self.errors.ended(end, time.monotonic()):
            reason = f"workers of {MOST_ERRORS} groups in succession failed; the last one {end}"
            self._finish(DriverOutcome(Ending.FAILED, reason, end.status, end.log))
        if end.lost or end.failed:
            self.watch.member_lost |= member in self.membership.group
            self._withhold(member, end)

    def _withhold(self, member: Member, end: Exit) -> None:
        if self.membership.lost(member):
            host = member.host
            self.events.write(Withheld(host.node, host.fragment, f"a worker {end.told}"))
        self.driver.announce(self.membership.announced)

    def _running(self) -> None:
        """The group trains: reported once, and only after all workers outside of it have ended."""
        labels = {member.label for member in self.membership.group}
        if any(member.host.fragment in self.membership.withheld for member in self.membership.group):
            return  # a stand-in trains until the rescale that follows
        if self.unreported_since_s is not None and all(label in labels for label, _ in self.training):
            self.unreported_since_s = None
            fragments = tuple(sorted(member.host.fragment for member in self.membership.group))
            self.events.write(Running(self._group_size(), fragments))

    def _group_size(self) -> int:
        return sum(member.host.slots for member in self.membership.group)

    # --- actions ------------------------------------------------------------------------------------------------------

    def _do(self, actions: Sequence[StartWarming | Drop | Announce | Leave]) -> None:
        for action in actions:
            match action:
                case StartWarming(member):
                    self._start_warming(member)
                case Drop(member):
                    self.waiting.drop(member)
                    host = member.host
                    self.events.write(WarmingCanceled(host.node, host.fragment))
                case Announce(members):
                    self._announce(members)
                case Leave(reason):
                    self._ask_to_leave(reason)

    def _start_warming(self, member: Member) -> None:
        self.members[member.label] = member
        if self.warm is None:
            self.membership.warmed(member, time.monotonic())
        else:
            self.events.write(Warming(member.host.node, member.host.fragment))
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
        self.events.write(Stopping(reason))
        write_json(self.directory.leave, ControlMessage(ControlRequest.STOP, self.events.incarnation))
        if not self.started:
            self._finish(DriverOutcome(Ending.STOPPED, reason))

    def _finish(self, how: DriverOutcome) -> None:
        self.ended = self.ended or how

    def _end_what_must_end(self) -> None:
        now = time.monotonic()
        if self.leave_reason is not None and now >= self.leave_by_s:
            self._finish(DriverOutcome(Ending.STOPPED, f"{self.leave_reason}; killed after {self.trainer.stop_s:g} s"))
            return
        if self.leave_reason is None and self.silence.is_hung(now):
            self._fail_hung(now)
            return
        stragglers, others_wait = self.driver.stragglers() if self.started else (set(), False)
        if self.watch.must_free(stragglers, others_wait, now):
            self.driver.free_survivors(self.group)
        hung = self.watch.hung(stragglers, others_wait, now, self.driver.freed())
        group = {member.label for member in self.membership.group}
        for (label, slot), (worker, told_to_end) in list(self.training.items()):
            if (label, slot) in hung:
                silent_s = round(self.silence.seconds(now), 1)
                host = worker.host
                self.events.write(Hung(host.node, host.fragment, silent_s))
                if self.watch.member_lost:  # a survivor that could not leave the group: its node is not to blame
                    worker.planned = True
                    self.membership.excused(self.members[label])
                    self.driver.announce(self.membership.announced)
                worker.kill()
            elif (self.unreported_since_s is not None and label not in group) or any(
                event.is_set() for event in told_to_end
            ):
                worker.planned = True
                worker.kill()

    def _fail_hung(self, now_s: float) -> None:
        log = None
        for worker, _ in self.training.values():
            log = log or worker.log
            self.events.write(Hung(worker.host.node, worker.host.fragment, round(self.silence.seconds(now_s), 1)))
        self._finish(DriverOutcome(Ending.FAILED, self.silence.reason, 1, log))

    def _refuge(self, lost: Member) -> HostSlots | None:
        """A host of the group on which a worker still trains; called from Horovod's threads."""
        alive = {label for label, _ in list(self.training)}
        withheld = set(self.membership.withheld)
        for member in self.membership.group:
            if member != lost and member.label in alive and member.host.fragment not in withheld:
                return member.host
        return None

    def _wait_for_last_exits(self, left: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + LAST_EXITS_S
        while (left() or not self.messages.empty()) and time.monotonic() < deadline_s:
            self._hear(0.05)
