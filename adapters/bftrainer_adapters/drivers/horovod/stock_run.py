"""One incarnation under stock ``horovodrun``: its discovery script, its ssh, and workarounds from outside.

It cannot be made safe: its server listens on every interface and executes what it receives (docs/security-horovod.md). It
knows hosts, not fragments, polls once a second, starts workers cold and sends one notice of a change, whether rank 0 listens
or not. So a change waits here until rank 0 has reported that it trains. If rank 0 continues as before all the same, the change
is withdrawn and made again: horovodrun sends a second notice in no other way.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time

from bftrainer.errors import InputFileError
from bftrainer.protocol.control import ControlMessage, ControlRequest, is_stop_requested
from bftrainer.protocol.environment import INCARNATION, TRAINER_DIR
from bftrainer.protocol.events import Running, Stopping, Withheld, WorkerExited, parse_event
from bftrainer.protocol.hosts import HostSlots, read_hosts, write_hosts
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.progress_line import Phase, parse_progress
from bftrainer.protocol.reports import Ending
from bftrainer.protocol.typed_json import write_json
from bftrainer.system.files import write_atomically
from bftrainer.system.json_tail import JsonTail
from bftrainer_adapters.drivers.common.command_line import worker_environment
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.outcome import DriverOutcome, Exit, exit_of, outcome
from bftrainer_adapters.drivers.common.reaper import Reaper
from bftrainer_adapters.drivers.common.reported import latest_progress
from bftrainer_adapters.drivers.common.silence import ReportSilence, longest_silence_s
from bftrainer_adapters.drivers.horovod.ssh_shim import announced_path

SETTLE_S = 10.0
"""How long a change waits for rank 0: a script may report nothing, or start later (then the notice is lost)."""
NOTICE_S = 3.0
"""Within this time horovodrun, which polls once a second, has seen a change or its withdrawal."""
DEAF_COMMITS = 2
"""Reports of the unchanged group, NOTICE_S after a change: each is a commit, and a commit obeys a notice that has arrived."""


class StockRun:
    """``run()`` returns when the trainer is done, stopped or failed."""

    def __init__(
        self, directory: TrainerDirectory, trainer: TrainerMessage, settings: DriverSettings, events: EventWriter
    ) -> None:
        self.directory = directory
        self.trainer = trainer
        self.settings = settings
        self.events = events
        self.reports = JsonTail(directory.events)
        self.progress = JsonTail(directory.progress)
        self.reports.skip()
        self.progress.skip()
        self.announced: tuple[HostSlots, ...] = ()
        self.announced_s = 0.0
        self.settled = True
        self.group: tuple[HostSlots, ...] = ()  # the hosts on which it trains, as far as is known
        self.deaf_commits = 0
        self.taken_back_s: float | None = None
        self.withheld: set[str] = set()
        self.exits: list[Exit] = []
        self.leave_reason: str | None = None
        self.leave_by_s = 0.0
        self.checkpointed = False
        self.told_to_end: str | None = None
        self.silence = ReportSilence(settings.hang_s, longest_silence_s(latest_progress(directory)))
        self.process: subprocess.Popen[bytes] | None = None
        self.reaper = Reaper()

    def run(self) -> DriverOutcome:
        try:
            while self.told_to_end is None:
                self._follow_orders()  # first: a checkpoint counts if it was reported after the stop request
                self._follow_reports()
                if self.process is not None and self.process.poll() is not None:
                    self._follow_reports()
                    return outcome(self.exits, self.leave_reason)
                if self.leave_reason is not None and (self.process is None or time.monotonic() >= self.leave_by_s):
                    return DriverOutcome(Ending.STOPPED, self.leave_reason)
                if self.leave_reason is None and self.silence.is_hung(time.monotonic()):
                    return DriverOutcome(Ending.FAILED, self.silence.reason, 1)
                time.sleep(self.settings.poll_s)
            return DriverOutcome(Ending.STOPPED, self.told_to_end)
        finally:
            self._end()

    def end(self, reason: str) -> None:
        """Stop at once, without a checkpoint."""
        self.told_to_end = reason

    def _follow_orders(self) -> None:
        try:
            hosts = [host for host in read_hosts(self.directory.hosts) if host.fragment not in self.withheld]
            if is_stop_requested(self.directory.control):
                self._ask_to_leave("the pilot requested a stop")
        except InputFileError as error:
            print(f"hosts or control: {error}", flush=True)
            return
        if self.leave_reason is not None:
            return
        if self.process is not None and not set(hosts) & set(self.announced):
            if any(host.fragment not in self.withheld for host in self.announced):
                self._ask_to_leave("no nodes" if not hosts else "none of its nodes is left")
        elif self.taken_back_s is not None:
            if time.monotonic() - self.taken_back_s > NOTICE_S:
                self._announce(tuple(hosts))
        elif set(hosts) != set(self.announced) and (self.settled or time.monotonic() - self.announced_s > SETTLE_S):
            self._announce(tuple(hosts))
        elif not self.settled and self.deaf_commits >= DEAF_COMMITS:
            self._take_back()

    def _announce(self, hosts: tuple[HostSlots, ...]) -> None:
        self._tell(hosts)
        self.announced, self.announced_s, self.settled = hosts, time.monotonic(), False
        self.deaf_commits, self.taken_back_s = 0, None
        self.exits.clear()
        if self.process is None and hosts:
            self.group = hosts
            self._start()

    def _take_back(self) -> None:
        """Show horovodrun the hosts of its group; the same change follows as a new one."""
        there = tuple(host for host in self.group if host.fragment not in self.withheld)
        print("rank 0 has not received the notice of the last change; the change is repeated", flush=True)
        self._tell(there)
        self.announced, self.taken_back_s = there, time.monotonic()

    def _tell(self, hosts: tuple[HostSlots, ...]) -> None:
        write_hosts(announced_path(self.directory), hosts)

    def _follow_reports(self) -> None:
        for report in map(parse_event, self.reports.read()):
            if report is None or report.incarnation != self.events.incarnation:
                continue
            if isinstance(event := report.event, WorkerExited):
                log = self.directory.worker_log(report.incarnation, event.host, event.fragment, event.slot)
                end = exit_of(event.status, event.planned, log)
                self.exits.append(end)
                if (end.lost or end.failed) and event.fragment not in self.withheld:
                    self.withheld.add(event.fragment)
                    self.events.write(Withheld(event.host, event.fragment, f"a worker {end.told}"))
        for line in map(parse_progress, self.progress.read()):
            if line.incarnation != self.events.incarnation:
                continue
            self.silence.heard(time.monotonic())
            self.checkpointed |= line.phase is Phase.CHECKPOINTED and self.leave_reason is not None
            if self.settled or self.taken_back_s is not None or line.phase is Phase.BUSY:
                continue
            if line.world_size != sum(host.slots for host in self.announced):
                self.deaf_commits += time.monotonic() - self.announced_s > NOTICE_S
            else:
                self.settled, self.group = True, self.announced
                fragments = tuple(sorted(host.fragment for host in self.announced))
                self.events.write(Running(line.world_size, fragments))

    def _start(self) -> None:
        work = self.directory.path / "horovodrun"
        (work / "bin").mkdir(parents=True, exist_ok=True)
        hosts = shlex.quote(str(announced_path(self.directory)))
        discover = self._program("discover_hosts.sh", f"exec sed 's/:[^:]*$//' {hosts}")
        shim = [sys.executable, "-m", "bftrainer_adapters.drivers.horovod.ssh_shim"]
        where = [str(self.directory.path), str(self.events.incarnation)]
        self._program("bin/ssh", f'exec {shlex.join([*shim, *where])} "$@"')
        environment = worker_environment(os.environ, self.settings, self.trainer, {})
        environment["PATH"] = f"{work / 'bin'}:{environment.get('PATH', os.defpath)}"
        environment |= {
            TRAINER_DIR: str(self.directory.path),
            INCARNATION: str(self.events.incarnation),
        }
        launch = [sys.executable, "-c", "from horovod.runner.launch import run_commandline; run_commandline()"]
        # Cooldown 1 to 1 s: without it a host that lost a worker is never used again. No reset limit.
        options = ["-np", "1", "--min-np", "1", "--network-interfaces", self.settings.interface]
        options += ["--host-discovery-script", discover, "--blacklist-cooldown-range", "1", "1"]
        with (self.directory.incarnation_logs(self.events.incarnation) / "horovodrun.log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - the user's own command
                [*launch, *options, *self.trainer.command], cwd=self.trainer.cwd, env=environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.reaper.watch(self.process.pid, as_group=True)

    def _program(self, name: str, line: str) -> str:
        path = self.directory.path / "horovodrun" / name
        write_atomically(path, f"#!/bin/sh\n{line}\n".encode())
        path.chmod(0o700)
        return str(path)

    def _ask_to_leave(self, reason: str) -> None:
        if self.leave_reason is None:
            self.leave_reason = reason
            self.leave_by_s = time.monotonic() + self.trainer.stop_s
            self.events.write(Stopping(reason))
            write_json(self.directory.leave, ControlMessage(ControlRequest.STOP, self.events.incarnation))

    def _end(self) -> None:
        """SIGTERM first: horovodrun then ends its ssh processes, and these end their workers."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.reaper.close()
