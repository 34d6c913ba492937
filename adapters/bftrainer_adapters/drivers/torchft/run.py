"""One incarnation under torchft: follows the hosts file, and starts, watches and ends one replica for each host slot.

One event loop takes all decisions: it answers the replicas' requests, and hears of files and of processes that ended.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from bftrainer.errors import InputFileError
from bftrainer.protocol.control import STOPPED_STATUS, ControlMessage, ControlRequest, is_stop_requested
from bftrainer.protocol.events import Hung, Running, Stopping, Warm, Warming, WarmingCanceled, Withheld
from bftrainer.protocol.hosts import HostSlots, read_hosts
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.progress_line import Phase, parse_progress
from bftrainer.protocol.reports import Ending
from bftrainer.protocol.typed_json import write_json
from bftrainer.system.json_tail import JsonTail
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
from bftrainer_adapters.drivers.common.workers import WorkerProcess, WorkerStarter
from bftrainer_adapters.drivers.torchft.lighthouse import Lighthouse
from bftrainer_adapters.drivers.torchft.quorum import Formed, Quorum

ENDS_S = 5.0
"""How long processes may take to end after SIGKILL."""


@dataclass(slots=True)
class Stay:
    """A host as long as the trainer uses it: its replicas by name."""

    host: HostSlots
    replicas: dict[str, WorkerProcess] = field(default_factory=dict)
    asked: bool = False
    leaves: bool = False


class ReplicaRun:
    """``run()`` returns when the trainer is done, stopped or failed; all workers have ended then."""

    def __init__(
        self, directory: TrainerDirectory, trainer: TrainerMessage, settings: DriverSettings, events: EventWriter
    ) -> None:
        self.directory = directory
        self.trainer = trainer
        self.settings = settings
        self.events = events
        self.checkpointed = False
        self.starter = WorkerStarter(directory, trainer, settings, events)
        self.progress = JsonTail(directory.progress)
        self.progress.skip()
        self.lighthouse = Lighthouse(Quorum(trainer.min_nodes), self._asked, self._formed)
        self.address = ""
        self.secret = secrets.token_hex(16)
        self.stays: list[Stay] = []
        self.started = 0
        self.withheld: set[str] = set()
        self.exits: list[Exit] = []
        self.errors = ScriptErrors(settings.hang_s)
        self.unreported = False
        self.completing = False
        """Whether a worker has come to the end of the script: no more are started."""
        self.missing_since: dict[str, float] = {}
        self.silence = ReportSilence(settings.hang_s, longest_silence_s(latest_progress(directory)))
        self.leave_reason: str | None = None
        self.leave_by_s = math.inf
        self.ended: DriverOutcome | None = None
        self.complaint = ""
        self.loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> DriverOutcome:
        return asyncio.run(self._run())

    def end(self, reason: str) -> None:
        """Stop at once, without a checkpoint; called from a signal handler."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self._finish, DriverOutcome(Ending.STOPPED, reason))
        else:
            self._finish(DriverOutcome(Ending.STOPPED, reason))

    async def _run(self) -> DriverOutcome:
        self.loop = asyncio.get_running_loop()
        self.address = await self.lighthouse.open(self.settings.interface, self.settings.allow_from)
        try:
            while self.ended is None:
                self._follow_orders()
                self._follow_progress()
                self._watch()
                self.lighthouse.tick()
                await asyncio.sleep(self.settings.poll_s)
        finally:
            self.starter.kill_all()
            deadline_s = time.monotonic() + ENDS_S
            while self.starter.live() and time.monotonic() < deadline_s:
                await asyncio.sleep(0.02)
            await self.lighthouse.close()
            self.starter.close()
        return self.ended

    # --- inputs -------------------------------------------------------------------------------------------------------

    def _follow_orders(self) -> None:
        try:
            if self.leave_reason is None and is_stop_requested(self.directory.control):
                self._ask_to_leave("the pilot requested a stop")
            hosts = read_hosts(self.directory.hosts)
        except InputFileError as error:  # edited by hand, or missing: the last one stays in force
            if str(error) != self.complaint:
                self.complaint = str(error)
                print(f"hosts or control: {error}", flush=True)
            return
        wanted = [host for host in hosts if host.fragment not in self.withheld]
        if self.leave_reason is None and len(wanted) < self.trainer.min_nodes:
            self._ask_to_leave(f"{len(wanted)} nodes, but min_nodes is {self.trainer.min_nodes}")
        if self.leave_reason is not None or self.completing:
            return
        known = [stay.host for stay in self.stays if not stay.leaves]
        for host in wanted:
            if host not in known:
                self._start(host)
        group = set(self.lighthouse.quorum.group)
        staying = [stay for stay in self.stays if stay.host in wanted]
        if any(group & stay.replicas.keys() for stay in self.stays) and not any(
            group & stay.replicas.keys() for stay in staying
        ):
            self._ask_to_leave("none of its nodes is left")  # nobody could pass the weights on in time
            return
        for stay in self.stays:
            if stay.host not in wanted and not stay.leaves:
                self._dismiss(stay)

    def _follow_progress(self) -> None:
        for line in map(parse_progress, self.progress.read()):
            if line.incarnation == self.events.incarnation:
                self.silence.heard(time.monotonic())
                self.checkpointed |= line.phase is Phase.CHECKPOINTED and self.leave_reason is not None

    def _watch(self) -> None:
        """Kill workers that hang: their peers wait for them at the lighthouse, or nobody has reported for as long."""
        now = time.monotonic()
        if now >= self.leave_by_s:
            self._finish(DriverOutcome(Ending.STOPPED, f"{self.leave_reason}; killed after {self.trainer.stop_s:g} s"))
        if self.leave_reason is None and self.silence.is_hung(now):
            for stay in self.stays:
                self.events.write(Hung(stay.host.node, stay.host.fragment, round(self.silence.seconds(now), 1)))
            log = next((worker.log for stay in self.stays for worker in stay.replicas.values()), None)
            self._finish(DriverOutcome(Ending.FAILED, self.silence.reason, 1, log))
            return
        missing = self.lighthouse.quorum.missing() if self.lighthouse.quorum.asked else set()
        if self.silence.heard_s is not None:
            missing -= {*self.lighthouse.quorum.group[:1]}  # rank 0, which reports: its silence is the trainer's
        self.missing_since = {replica: self.missing_since.get(replica, now) for replica in missing}
        hung = {replica for replica, since_s in self.missing_since.items() if now - since_s >= self.settings.hang_s}
        for stay in self.stays:
            for replica, worker in stay.replicas.items():
                if replica in hung and not worker.planned:
                    silent_s = round(now - self.missing_since[replica], 1)
                    self.events.write(Hung(stay.host.node, stay.host.fragment, silent_s))
                    worker.kill()

    # --- what happened -------------------------------------------------------------------------------------------------

    def _asked(self, replica: str) -> None:
        """A replica asks for its first step."""
        stay = self._stay(replica)
        if stay is not None and not stay.asked:
            stay.asked = True
            self.events.write(Warm(stay.host.node, stay.host.fragment))

    def _formed(self, formed: Formed) -> None:
        now = time.monotonic()
        self.errors.formed(now)
        self.exits.clear()  # workers that ended before this group do not explain its end
        self.unreported = True
        for replica in formed.released:
            self._kill(replica)
        self._report()

    def _wait(self, stay: Stay, replica: str, worker: WorkerProcess) -> None:
        """In a thread of its own, since a death must be known at once."""
        status = self.starter.wait(worker)
        assert self.loop is not None
        with suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self._worker_ended, stay, replica, worker, status)

    def _worker_ended(self, stay: Stay, replica: str, worker: WorkerProcess, status: int) -> None:
        stay.replicas.pop(replica)
        if not stay.replicas:
            self.stays.remove(stay)
        self.lighthouse.quorum.lose(replica)
        self._exited(stay, exit_of(status, worker.planned, worker.log))
        self._report()
        self.lighthouse.tick()

    def _exited(self, stay: Stay, end: Exit) -> None:
        self.exits.append(end)
        self.completing |= end.status == 0 and not end.planned
        if end.lost or end.failed:
            if stay.host.fragment not in self.withheld:
                self.withheld.add(stay.host.fragment)
                self.events.write(Withheld(stay.host.node, stay.host.fragment, f"a worker {end.told}"))
            for replica in stay.replicas:  # the node's other workers may be as badly off
                self.lighthouse.quorum.lose(replica)  # before it asks for a step that it will not live to make
                self._kill(replica)
        if end.status in CANNOT_START:
            self._finish(
                DriverOutcome(Ending.FAILED, f"the command cannot be started: a worker {end}", end.status, end.log)
            )
        elif self.leave_reason is None and self.errors.ended(end, time.monotonic()):
            reason = f"workers of {MOST_ERRORS} groups in succession failed; the last one {end}"
            self._finish(DriverOutcome(Ending.FAILED, reason, end.status, end.log))
        elif not self.stays:
            self._finish(outcome(self.exits, self.leave_reason))
        elif self.leave_reason is not None and end.status == STOPPED_STATUS:
            self._finish(DriverOutcome(Ending.STOPPED, self.leave_reason))  # rank 0 has saved; the others wait for it

    def _report(self) -> None:
        """Report the group, once all workers outside of it have ended."""
        group = set(self.lighthouse.quorum.group)
        used = [stay for stay in self.stays if group & stay.replicas.keys()]
        outside = any(stay.leaves and not group & stay.replicas.keys() for stay in self.stays)
        if self.unreported and used and not outside:
            self.unreported = False
            self.events.write(Running(len(group), tuple(sorted(stay.host.fragment for stay in used))))

    # --- actions ------------------------------------------------------------------------------------------------------

    def _start(self, host: HostSlots) -> None:
        """Start the replicas of a host. They join between two steps, whenever they are ready."""
        stay = Stay(host)
        self.stays.append(stay)
        self.events.write(Warming(host.node, host.fragment))
        for slot in range(host.slots):
            self.started += 1
            replica = f"{self.secret}-{self.started:06d}"
            worker = self.starter.start(host, slot, self.trainer.command, self._environment(host, slot, replica))
            stay.replicas[replica] = worker
            arguments = (stay, replica, worker)
            threading.Thread(target=self._wait, args=arguments, name=f"wait {replica[-6:]}", daemon=True).start()
        self.lighthouse.quorum.admit(stay.replicas)

    def _environment(self, host: HostSlots, slot: int, replica: str) -> dict[str, str]:
        """``torchft.Manager`` reads most of it; the time-outs are in whole seconds there."""
        quorum_s = math.ceil(2 * self.settings.hang_s + self.trainer.stop_s)  # longer than anything that is waited for
        given = {
            "TORCHFT_LIGHTHOUSE": self.address,
            "TORCHFT_REPLICA_ID": replica,
            "TORCHFT_TIMEOUT_SEC": str(max(1, math.ceil(self.settings.hang_s / 2))),
            "TORCHFT_QUORUM_TIMEOUT_SEC": str(quorum_s),
            "TORCHFT_CONNECT_TIMEOUT_SEC": "30",
            "GLOO_SOCKET_IFNAME": self.settings.interface,
            "NCCL_SOCKET_IFNAME": self.settings.interface,
            "LOCAL_RANK": str(slot),
            "LOCAL_WORLD_SIZE": str(host.slots),
        }
        if host.slots > 1:
            given["OMP_NUM_THREADS"] = "1"  # as torchrun sets it: workers on one node share its cores
        return {name: value for name, value in given.items() if name not in dict(self.trainer.environment)}

    def _dismiss(self, stay: Stay) -> None:
        """Let a host's replicas leave between two steps; those that have never asked leave at once."""
        stay.leaves = True
        group = set(self.lighthouse.quorum.group)
        if not group & stay.replicas.keys():
            if not stay.asked:
                self.events.write(WarmingCanceled(stay.host.node, stay.host.fragment))
            for replica in stay.replicas:
                self.lighthouse.quorum.lose(replica)
                self._kill(replica)
        else:
            self.lighthouse.quorum.dismiss(stay.replicas)

    def _kill(self, replica: str) -> None:
        stay = self._stay(replica)
        worker = None if stay is None else stay.replicas.get(replica)
        if worker is not None:
            worker.planned = True
            worker.kill()

    def _ask_to_leave(self, reason: str) -> None:
        """Rank 0 saves between two steps and leaves; the others then wait for the next step, and are ended."""
        self.leave_reason = reason
        self.leave_by_s = time.monotonic() + self.trainer.stop_s
        self.events.write(Stopping(reason))
        write_json(self.directory.leave, ControlMessage(ControlRequest.STOP, self.events.incarnation))
        if not self.stays:
            self._finish(DriverOutcome(Ending.STOPPED, reason))

    def _finish(self, how: DriverOutcome) -> None:
        self.ended = self.ended or how

    def _stay(self, replica: str) -> Stay | None:
        return next((stay for stay in self.stays if replica in stay.replicas), None)
