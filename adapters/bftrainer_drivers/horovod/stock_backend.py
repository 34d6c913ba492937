"""Stock ``horovodrun``: its discovery script, its ssh, and workarounds from outside.

It cannot be made safe: its server listens on every interface and executes what it receives
(docs/security.md). It knows hosts, not fragments, polls once a second, starts workers cold and
sends one notice of a change, whether rank 0 listens or not. So a change waits here until rank 0 has
reported that it trains. If rank 0 continues as before all the same, the change is withdrawn and
made again: horovodrun sends a second notice in no other way.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence

import horovod.runner  # noqa: F401  # fail now if it is missing

from bftrainer.errors import InvalidValueError
from bftrainer.system.files import write_atomically
from bftrainer.system.json_tail import JsonTail
from bftrainer.system.own_programs import code_command, module_command
from bftrainer.system.umask import users_umask
from bftrainer.wires.driver_events import WorkerExited, WorkerStarted, parse_event
from bftrainer.wires.environment import INCARNATION, TRAINER_DIR
from bftrainer.wires.hosts_file import HostSlots, write_hosts
from bftrainer.wires.progress_line import Phase
from bftrainer_drivers.common.command_line import worker_environment
from bftrainer_drivers.common.core import (
    GroupFormed,
    Joined,
    News,
    Reported,
    Terms,
    Warmed,
    WorkerEnded,
)
from bftrainer_drivers.common.legal_sizes import LegalSizes
from bftrainer_drivers.common.membership import Member
from bftrainer_drivers.common.outcome import exit_of
from bftrainer_drivers.common.run_loop import Backend, Run
from bftrainer_drivers.horovod.discovery_script import DiscoveryScript
from bftrainer_drivers.horovod.ssh_shim import announced_path

SETTLE_S = 10.0
"""How long a change waits for rank 0: a script may report nothing, or start later (then the notice
is lost).
"""
NOTICE_S = 3.0
"""Within this time horovodrun, which polls once a second, has seen a change or its withdrawal."""
MAX_DEAF_COMMITS = 2
"""Reports of the unchanged group, NOTICE_S after a change: each is a commit, and a commit obeys a
notice that has arrived.
"""


class StockBackend(Backend):
    """Runs stock horovodrun. Its workers are not this process's: the events that ``ssh_shim``
    writes say what becomes of them.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        sizes = LegalSizes.of(run.trainer)
        if sizes.has_gaps:
            raise InvalidValueError(
                f"sizes {list(run.trainer.sizes or ())}: after a loss, horovodrun trains on all "
                "nodes that are left; use the launcher horovod, which keeps to them, or list none"
            )
        self.terms = Terms(
            is_elastic=True,
            sizes=sizes,
            stop_s=run.trainer.stop_s,
            hang_s=run.settings.hang_s,
            samples=run.trainer.samples_total,
            first_step_s=run.first_step_s,
        )
        self._script = DiscoveryScript(run.directory)
        self._reports = JsonTail(run.directory.events)
        self._reports.skip()
        self._members: dict[str, Member] = {}
        """Members by fragment."""
        self._wanted: tuple[Member, ...] = ()
        """The members that the core has announced last."""
        self._announced: tuple[Member, ...] = ()
        """The members that horovodrun's discovery script prints."""
        self._group: tuple[Member, ...] = ()
        """The members that train, by the reports of rank 0."""
        self._announced_s = 0.0
        """When ``_announced`` changed."""
        self._now_s = 0.0
        """The time of the last tick."""
        self._is_settled = True
        """Rank 0 has reported the size of ``_announced``."""
        self._n_deaf_commits = 0
        """Commits of the unchanged group since rank 0 should have received the last change."""
        self._withdrawn_s: float | None = None
        """When the last change was withdrawn, until it is made again."""
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        self._script.publish(())

    def start(self, member: Member) -> None:
        self._members[member.host.fragment] = member
        self.run.tell(Warmed(member, is_cold=True))

    def announce(self, members: Sequence[Member]) -> None:
        self._wanted = tuple(members)

    def tick(self, now_s: float) -> None:
        """Make a change of hosts known to horovodrun when rank 0 can hear of it; withdraw and
        repeat one that rank 0 has not heard of.
        """
        self._now_s = now_s
        self._follow_reports()
        if self._withdrawn_s is not None:
            if now_s - self._withdrawn_s > NOTICE_S:
                self._publish_hosts(self._wanted)
        elif set(self._wanted) != set(self._announced) and (
            self._is_settled or now_s - self._announced_s > SETTLE_S
        ):
            self._publish_hosts(self._wanted)
        elif not self._is_settled and self._n_deaf_commits >= MAX_DEAF_COMMITS:
            # Show horovodrun the hosts of its group; the same change follows as a new one.
            withheld = self.run.state.membership.withheld
            trainees = tuple(
                member for member in self._group if member.host.fragment not in withheld
            )
            print(
                "rank 0 has not received the notice of the last change; the change is repeated",
                flush=True,
            )
            self._publish_hosts(trainees)
            self._withdrawn_s = now_s

    def note(self, news: News) -> None:
        """Record by a report of rank 0 whether the group has changed as announced; ignore other
        news, and reports while no change is under way.
        """
        if not isinstance(news, Reported) or self._is_settled or self._withdrawn_s is not None:
            return
        if news.line.world_size == sum(member.host.slots for member in self._announced):
            self._is_settled = True
            self._group = self._announced
            self.run.tell(GroupFormed(tuple(member.label for member in self._announced)))
        elif news.line.phase is not Phase.BUSY and self._now_s - self._announced_s > NOTICE_S:
            self._n_deaf_commits += 1

    def is_over(self) -> bool:
        over = self._process is not None and self._process.poll() is not None
        return over and not self._follow_reports()

    def shut(self) -> None:
        """End horovodrun by SIGTERM: it then ends its ssh processes, and these end their workers.
        After 10 s, kill it.
        """
        self._script.clear()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def _publish_hosts(self, members: tuple[Member, ...]) -> None:
        """Write the hosts, with their fragments for ``ssh_shim`` and then in the discovery script
        for horovodrun; start horovodrun with the first ones.
        """
        hosts: list[HostSlots] = [member.host for member in members]
        write_hosts(announced_path(self.run.directory), hosts)
        self._script.publish(hosts)
        self._announced = members
        self._announced_s = self._now_s
        self._is_settled = False
        self._n_deaf_commits = 0
        self._withdrawn_s = None
        if self._process is None and hosts:
            self._group = members
            self._process = self._start_horovodrun(members)
            self.run.starter.reaper.watch(self._process.pid, None)

    def _follow_reports(self) -> bool:
        """Tell the core of workers that have started or ended, by the events of ``ssh_shim``;
        return whether there were any.
        """
        has_reports = False
        for report in map(parse_event, self._reports.read()):
            if report is None or report.incarnation != self.run.events.incarnation:
                continue
            match report.event:
                case WorkerStarted(_, fragment, _, _, log):
                    self.run.tell(Joined(self._members[fragment], self.run.directory.path / log))
                    has_reports = True
                case WorkerExited(host, fragment, slot, _, status, planned):
                    log_path = self.run.directory.worker_log(
                        report.incarnation, host, fragment, slot
                    )
                    ended = exit_of(status, planned, log_path, host, slot)
                    self.run.tell(WorkerEnded(self._members[fragment], ended))
                    has_reports = True
        return has_reports

    def _start_horovodrun(self, members: Sequence[Member]) -> subprocess.Popen[bytes]:
        """Start horovodrun on members, with the trainer's discovery script and an ``ssh`` of the
        driver's own.
        """
        directory, trainer, settings = self.run.directory, self.run.trainer, self.run.settings
        number = str(self.run.events.incarnation)
        work = directory.path / "horovodrun"
        (work / "bin").mkdir(parents=True, exist_ok=True)
        shim = module_command("bftrainer_drivers.horovod.ssh_shim", str(directory.path), number)
        self._write_program("bin/ssh", f'exec {shlex.join(shim)} "$@"')
        environment = worker_environment(os.environ, settings, trainer, {})
        environment["PATH"] = f"{work / 'bin'}:{environment.get('PATH', os.defpath)}"
        environment |= {TRAINER_DIR: str(directory.path), INCARNATION: number}
        launch = code_command(
            "from horovod.runner.launch import run_commandline; run_commandline()"
        )
        # Cooldown 1 to 1 s: without it a host that lost a worker is never used again. No reset
        # limit.
        workers = str(self.terms.sizes.smallest * min(member.host.slots for member in members))
        options = ["-np", workers, "--min-np", workers]
        options += ["--network-interfaces", settings.interface]
        options += [*self._script.options(), "--blacklist-cooldown-range", "1", "1"]
        with (directory.incarnation_logs(int(number)) / "horovodrun.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - the user's own command
                [*launch, *options, *trainer.command],
                cwd=trainer.cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=users_umask(),
            )

    def _write_program(self, name: str, line: str) -> None:
        path = self.run.directory.path / "horovodrun" / name
        write_atomically(path, f"#!/bin/sh\n{line}\n".encode())
        path.chmod(0o700)
