"""The one loop of all drivers: hear of files, processes and time, ask the core, and carry out its
steps.
"""

from __future__ import annotations

import math
import os
import queue
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from bftrainer.errors import BFTrainerError, InputFileError
from bftrainer.system.json_tail import JsonTail
from bftrainer.system.regular import stamp_of
from bftrainer.system.umask import private_files
from bftrainer.wires.control import ControlMessage, ControlRequest, is_stop_requested
from bftrainer.wires.driver_events import Started, Stopping, Warming
from bftrainer.wires.driver_pid import write_own_pid
from bftrainer.wires.hosts_file import HostSlots, read_hosts
from bftrainer.wires.messages import DriverSettings, TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import parse_progress
from bftrainer.wires.reports import Ending
from bftrainer.wires.typed_json import read_json, write_json
from bftrainer_drivers.common import core
from bftrainer_drivers.common.command_line import visible_gpus
from bftrainer_drivers.common.crew import Crew
from bftrainer_drivers.common.event_writer import EventWriter
from bftrainer_drivers.common.hung_workers import request_stacks, with_stack
from bftrainer_drivers.common.membership import Announce, Drop, Member, StartWarming
from bftrainer_drivers.common.outcome import DriverOutcome
from bftrainer_drivers.common.reaper import Reaper
from bftrainer_drivers.common.silence import (
    longest_silence_s,
    mentions_reports,
    reported_progress,
)
from bftrainer_drivers.common.workers import WorkerStarter

LAST_EXITS_S = 5.0
"""How long processes may take to end after SIGKILL."""


class Backend:
    """How one launcher starts, announces and ends workers. All methods are called in the run's
    thread.
    """

    terms: core.Terms

    def open(self) -> None:
        """Open what the workers need. An error that it raises ends the driver."""

    def start(self, member: Member) -> None:
        """Start a joining member's workers, and tell :class:`Warmed` when they could join."""

    def begin(self, members: Sequence[Member]) -> None:
        """Start an incarnation on these members."""

    def announce(self, members: Sequence[Member]) -> None:
        """Let the group use these members, and no others."""

    def drop(self, member: Member) -> None:
        """Forget a member that is not needed; its waiting workers have been ended."""

    def retry(self, member: Member, slot: int) -> None:
        """Start another worker in this slot."""

    def note(self, news: core.News) -> None:
        """Take note of what the core has just heard."""

    def tick(self, now_s: float) -> None:
        """Do what time has made due."""

    def is_over(self) -> bool:
        """Whether no worker of the group is left, and none follows."""
        return False

    def shut(self) -> None:
        """Let no further worker start: the remaining ones are ended now."""

    def close(self) -> None:
        """Close what ``open`` has opened."""


BackendFactory = Callable[["Run"], Backend]


class Run:
    """One trainer's driver. It shares nothing with other runs in its process but the interpreter
    and its limits.
    """

    def __init__(
        self,
        directory: TrainerDirectory,
        events: EventWriter,
        make: BackendFactory,
        reaper: Reaper | None = None,
    ) -> None:
        self.directory = directory
        self.events = events
        self.trainer = read_json(TrainerMessage, directory.trainer)
        self.settings = read_json(DriverSettings, directory.driver)
        self._next_incarnation: int | None = None
        """The number of the next incarnation, once workers are warmed up for it."""
        self._has_begun = False
        """Whether an incarnation has begun."""
        self._last_complaint = ""
        """The last printed error of a file, which is not printed again."""
        self._read_stamps: tuple[object, object] | None = None
        """The stamps of ``control`` and ``hosts`` as they were read last; None: read them again."""
        self._file_news: list[core.News] = []
        """What ``control`` and ``hosts`` said then; the core hears it at every poll."""
        self._news: queue.SimpleQueue[core.News] = queue.SimpleQueue()
        self._progress = JsonTail(directory.progress)
        self._progress.skip()
        self._notices = JsonTail(directory.preempted)
        self._notices.skip()
        self._preempted: frozenset[str] = frozenset()
        self.starter = WorkerStarter(directory, self.trainer, self.settings, events, reaper)
        self.crew = Crew(self.starter, self.tell)
        self.backend = make(self)
        self.state = core.RunState.initial(
            self.backend.terms, longest_silence_s(reported_progress(directory))
        )

    @property
    def stop_signal(self) -> int:
        """The signal by which the trainer wants to be asked to stop; 0: none."""
        name = self.trainer.stop_signal
        return signal.Signals[f"SIG{name.removeprefix('SIG')}"] if name else 0

    def tell(self, news: core.News) -> None:
        """Let the run hear something; from any thread, and from signal handlers."""
        self._news.put(news)

    def run(self) -> DriverOutcome:
        """Drive the trainer to its end and return how it ended; all workers have ended then."""
        try:
            self.backend.open()
            while self.state.outcome is None:
                self._read_files()
                self._handle_news(core.TimePassed())
                self.backend.tick(time.monotonic())
                self._wait_for_news()
                if self.backend.is_over():
                    self._handle_news(core.GroupOver())
            return self._with_stack(self.state.outcome)
        finally:
            self.backend.shut()
            self.starter.kill_all()
            deadline_s = time.monotonic() + LAST_EXITS_S
            while self.starter.live() and time.monotonic() < deadline_s:
                time.sleep(0.01)
            self.backend.close()
            self.starter.close()

    def _with_stack(self, outcome: DriverOutcome) -> DriverOutcome:
        """Return the outcome; after a hang, with the place where a worker waits."""
        workers = self.state.joined
        is_hang = outcome.reason == self.state.hang_reason
        if not is_hang or not workers:
            return outcome
        hosts = {worker.member.host.node: worker.member.host for worker in workers}
        request_stacks(hosts.values(), self.settings.prefix, self.directory.path)
        return with_stack(outcome, list(dict.fromkeys(worker.log for worker in workers)))

    @property
    def first_step_s(self) -> float:
        """The longest time from a start to the first report. Unless the trainer sets it, it is
        infinite for scripts that may never report.
        """
        if self.trainer.first_step_s is not None:
            return self.trainer.first_step_s
        reports = bool(reported_progress(self.directory)) or mentions_reports(
            self.trainer.command, self.trainer.cwd
        )
        return self.settings.first_step_s if reports else math.inf

    def warm_up(
        self, member: Member, command: Sequence[str] | None, first: dict[str, str], *, ahead: bool
    ) -> None:
        """Start a member's workers with the variables ``first``, and let them do their imports;
        ``ahead``: for the next incarnation. If ``command`` is None, or the site wants no warm
        starts, no worker is started, and the member counts as warm at once.
        """
        if command is None or not self.settings.warm:
            self.tell(core.Warmed(member, is_cold=True))
            return
        if ahead and self._next_incarnation is None:
            self._next_incarnation = self.directory.new_incarnation()
        number = (
            self._next_incarnation if ahead and self._next_incarnation else self.events.incarnation
        )
        self.events.write(Warming(member.host.node, member.host.fragment), number)
        self.crew.warm_up(member, command, first, number)

    def visible_gpus(self, host: HostSlots) -> dict[str, str]:
        """Return CUDA_VISIBLE_DEVICES for a worker that joins alone: its own GPU first, then those
        that the trainer has in the same holder.
        """
        hosts = {host, *self.state.membership.usable_hosts()}
        return visible_gpus([other for other in hosts if other.part == host.part], host)

    def _wait_for_news(self) -> None:
        """Wait for one poll at most until news is told, then handle all news that has come."""
        try:
            news = self._news.get(timeout=self.settings.poll_s)
            while True:
                self._read_progress()  # a worker has written its last line before it ended
                if self._read_notices():  # and its node the reason of its end
                    self._read_files()
                self._handle_news(news)
                news = self._news.get_nowait()
        except queue.Empty:
            return

    def _handle_news(self, news: core.News) -> None:
        """Pass news to the core, then to the backend, and carry out the core's steps."""
        self.state, steps = core.advance(self.state, news, time.monotonic())
        self.backend.note(news)
        for step in steps:
            self._carry_out(step)

    def _read_files(self) -> None:
        """Read progress, notices, ``control`` and ``hosts``, and let the core hear of them. While a
        file cannot be understood, its last content stays in force.
        """
        self._read_progress()
        self._read_notices()
        stamps = stamp_of(self.directory.control), stamp_of(self.directory.hosts)
        try:
            if stamps != self._read_stamps:
                self._file_news = []
                if is_stop_requested(self.directory.control):
                    self._file_news.append(core.StopRequested())
                kept = (
                    host
                    for host in read_hosts(self.directory.hosts)
                    if host.fragment not in self._preempted
                )
                self._file_news.append(core.HostsListed(tuple(kept), self._preempted))
                self._read_stamps = stamps
        except InputFileError as error:  # edited by hand, or missing: the last one stays in force
            if str(error) != self._last_complaint:
                self._last_complaint = str(error)
                print(f"hosts or control: {error}", flush=True)
        for news in self._file_news:
            self._handle_news(news)

    def _read_notices(self) -> bool:
        """Read new notices of preempted nodes; return whether there were any.

        From then on, such a node counts as one that ``hosts`` no longer lists, so its workers are
        asked to stop and may save. The pilot gives notice of nodes that a main job waits for.
        """
        fragments = {line.get("fragment") for line in self._notices.read()}
        if fragments:
            self._preempted |= {name for name in fragments if isinstance(name, str)}
            self._read_stamps = None  # ``hosts`` is read again, and these fragments are left out
        return bool(fragments)

    def _read_progress(self) -> None:
        """Let the core hear new lines of progress of this incarnation; ignore earlier ones'."""
        for line in map(parse_progress, self._progress.read()):
            if line.incarnation == self.events.incarnation:
                self._handle_news(core.Reported(line))

    def _carry_out(self, step: core.DriverStep) -> None:
        """Carry out one step that the core has decided."""
        match step:
            case core.Report(event):
                self.events.write(event)
            case StartWarming(member):
                self.backend.start(member)
            case Drop(member):
                self.crew.drop(member)
                self.backend.drop(member)
            case Announce(members):
                self.backend.announce(members)
            case core.Retry(member, slot):
                self.backend.retry(member, slot)
            case core.KillGroup():
                self.crew.kill_joined()
            case core.AskWorkersToStop(reason):
                self.events.write(Stopping(reason))
                write_json(
                    self.directory.leave,
                    ControlMessage(ControlRequest.STOP, self.events.incarnation),
                )
                if signum := self.backend.terms.stop_signal:
                    for worker in list(self.crew.joined.values()):
                        worker.process.send_signal(signum)
            case core.Begin(members):
                # The first incarnation has the number with which the driver began to write events.
                if self._has_begun:
                    self.events.incarnation = (
                        self._next_incarnation or self.directory.new_incarnation()
                    )
                    self._next_incarnation = None
                self._has_begun = True
                self.backend.begin(members)


def drive(name: str, make: BackendFactory, missing: str = "") -> NoReturn:
    """Drive the trainer whose directory is the program's only argument.

    ``missing`` says what to install if an import fails. Threads of Horovod may wait in a barrier
    forever, so the process ends by ``_exit``.
    """
    with private_files():
        status = _drive_to_end(name, make, missing)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _drive_to_end(name: str, make: BackendFactory, missing: str) -> int:
    """Drive the trainer to its end, write the last event, and return the exit status of the
    driver.
    """
    directory = TrainerDirectory(Path(sys.argv[1]).resolve())
    pid = write_own_pid(directory.driver_pid)
    events = EventWriter(directory.events, directory.new_incarnation())
    events.write(Started(name, pid))
    has_saved = False
    try:
        run = Run(directory, events, make)
        over = core.EndNow(DriverOutcome(Ending.STOPPED, "the driver received SIGTERM"))
        signal.signal(signal.SIGTERM, lambda *_: run.tell(over))
        ended = run.run()
        has_saved = run.state.checkpointed
    except ImportError as error:
        ended = DriverOutcome(Ending.FAILED, f"launcher {name}: {error}; {missing}", 1)
    except BFTrainerError as error:
        ended = DriverOutcome(Ending.FAILED, str(error), 1)
    except Exception as error:  # the pilot shows the reason; the driver's log has the rest
        traceback.print_exc()
        ended = DriverOutcome(
            Ending.FAILED, f"the driver has failed: {type(error).__name__}: {error}", 1
        )
    events.write(ended.event(has_saved))
    return ended.exit_status
