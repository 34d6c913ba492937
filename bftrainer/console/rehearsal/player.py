"""Plays the acts of a rehearsal with the trainer's real driver: hosts are only names, workers are
local processes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bftrainer.config.pilot import WorkersConfig
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.console.rehearsal.record import Line, Played, TrialOutcome, is_whole
from bftrainer.console.rehearsal.scenario import ENDING_ACTS, Act, ActKind
from bftrainer.decide.domain.events import RateSeen, StallSeen
from bftrainer.pilot.trainers.launcher import DirectoryLauncher
from bftrainer.pilot.trainers.meter import TrainerMeter
from bftrainer.pilot.trainers.trainer_message import driver_settings
from bftrainer.system.json_tail import JsonTail
from bftrainer.system.processes import ProcessId, is_alive, send, with_variable
from bftrainer.wires.driver_events import DriverEvent
from bftrainer.wires.environment import TRAINER_DIR
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import Phase
from bftrainer.wires.rank_line import RankLine, parse_rank
from bftrainer.wires.reports import DriverView, Ending
from bftrainer.wires.stacks import hung_at, output_before_stack, request_stacks

POLL_S, DRIVER_POLL_S = 0.02, 0.05
END_GRACE_S = 15.0
"""Within this time after ``stop_s``, a driver kills the remaining workers and ends."""
LONGEST = 10
"""Limit, in multiples of the patience, for a script that makes steps but never on the right
nodes.
"""
UNSAVED_S = 3.0
"""Longest wait of a kill for unsaved work."""
UNSAVED_STEPS = 3
STARTS = 3
"""Number of times that a driver without nodes is restarted in one act."""
_DRIVER_LOG = TrainerDirectory(Path()).driver_log
_OUTCOMES = {
    Ending.STOPPED: TrialOutcome.STOPPED,
    Ending.DONE: TrialOutcome.DONE,
    Ending.FAILED: TrialOutcome.FAILED,
    Ending.KILLED: TrialOutcome.DIED,
}


@dataclass(frozen=True, slots=True)
class Options:
    """How a rehearsal is played.

    ``quick``: play only the start, stop, grow and kill acts.
    ``in_place``: train in the trainer's own working directory.
    ``slots``: workers per node.
    ``steps``: steps that are waited for after each change.
    ``window_s``: duration of a speed measurement.
    ``patience_s``: timeout of one step.
    ``copy_bytes``: size of the largest working directory that is copied.
    """

    quick: bool = False
    in_place: bool = False
    slots: int = 1
    steps: int = 5
    window_s: float = 1.0
    patience_s: float = 150.0
    copy_bytes: int = 1_000_000_000
    allow_stock_horovodrun: bool = False


class Player:
    """Plays acts (:class:`Act`) on one trainer, with a driver as a pilot has it.

    After each change, it waits for the steps and the measurement of the options.
    """

    def __init__(
        self,
        root: Path,
        spec: TrainerSpec,
        options: Options,
    ) -> None:
        self.spec = spec
        self.folder = root / spec.name
        # What the trainer has written so far: lines of progress, of the driver, and of each rank.
        self.lines: list[Line] = []
        self.events: list[Line] = []
        self.ranks: list[RankLine] = []
        directory = TrainerDirectory(self.folder)
        self._event_tail = JsonTail(directory.events)
        self._line_tail = JsonTail(directory.progress)
        self._ranks_folder = directory.ranks
        self._rank_tails: dict[Path, JsonTail] = {}
        workers = WorkersConfig(allow_stock_horovodrun=options.allow_stock_horovodrun)
        self._launcher = DirectoryLauncher(root, driver_settings(workers, DRIVER_POLL_S))
        self._options = options
        # A hang that the trainer file allows is no timeout.
        self._patience_s = max(options.patience_s, 1.25 * (spec.hang_s or 0.0))
        self._meter = TrainerMeter()
        # Measurements in the present act: stalls, and whether a speed was measured on its nodes.
        self._stalls_s: list[float] = []
        self._has_rate = False
        self._hosts: tuple[HostSlots, ...] = ()  # those that the trainer has, or shall have
        self._host_count = 0  # all that it has ever had
        self._process_ids: set[ProcessId] = set()

    def play(self, act: Act) -> Played:
        """Play one act until it has taken effect, or until it no longer can."""
        if act.kind in (ActKind.KILL, ActKind.KILL_ALL):
            self._wait_for_unsaved_work()
        start_s = time.time()
        self._stalls_s, self._has_rate = [], False
        if act.kind in ENDING_ACTS:
            self._request_end(act)
            # These acts take effect when the driver ends, which ends the wait; there is nothing
            # else to wait for.
            outcome = self._wait_until(
                lambda: False, self.spec.stop_s + END_GRACE_S, is_renewed=False
            )
            if outcome is TrialOutcome.STOPPED:
                outcome = TrialOutcome.OK
        else:
            self._request_change(act)
            outcome = self._wait_for_steps(start_s)
        return self._act_record(act, start_s, outcome)

    def run_to(self, step: int) -> None:
        """Let the trainer run to this step, or to its end."""
        self._wait_until(lambda: (self._last_step() or 0) >= step, self._patience_s)

    def remaining_pids(self) -> tuple[int, ...]:
        """Return the pids of the trainer's remaining processes, after 2 s for those that are just
        ending.
        """
        deadline_s = time.monotonic() + 2.0
        while time.monotonic() < deadline_s and any(map(is_alive, self._worker_processes())):
            time.sleep(POLL_S)
        return tuple(
            sorted(process.pid for process in self._worker_processes() if is_alive(process))
        )

    def end(self) -> None:
        """End all processes of the trainer; wait up to 10 s for those of its workers."""
        view = self._launcher.look(self.spec.name)
        self._launcher.kill(self.spec.name)
        while view.alive:
            time.sleep(POLL_S)
            view = self._launcher.look(self.spec.name)
        self._launcher.look(self.spec.name)  # reaps a driver that has just ended
        deadline_s = time.monotonic() + 10.0
        while time.monotonic() < deadline_s:
            remaining = [process for process in self._worker_processes() if is_alive(process)]
            if not remaining:
                return
            for process in remaining:
                send(process, signal.SIGKILL)
            time.sleep(POLL_S)

    def read_view(self) -> DriverView:
        """Return the current state of the driver, after reading all that it and the workers have
        written: lines, events and measurements.
        """
        view = self._launcher.look(self.spec.name)
        measurements, _ = self._meter.hear(self.spec.name, view, self._options.window_s)
        for measurement in measurements:
            if isinstance(measurement, StallSeen):
                self._stalls_s.append(measurement.seconds)
            elif isinstance(measurement, RateSeen):
                self._has_rate |= view.on == self._act_fragments()
        self.events += self._event_tail.read()
        self.lines += self._line_tail.read()
        for path in self._ranks_folder.glob("*.jsonl"):
            self._rank_tails.setdefault(path, JsonTail(path))
        for tail in self._rank_tails.values():
            self.ranks += [line for line in map(parse_rank, tail.read()) if line is not None]
        return view

    def _act_fragments(self) -> frozenset[str]:
        """Return the fragments that the trainer shall be on."""
        return frozenset(host.fragment for host in self._hosts)

    def _request_change(self, act: Act) -> None:
        """Request the change of an act from the driver, or kill workers, and note the resulting
        hosts. Call it for acts after which the trainer runs.
        """
        self.read_view()
        match act.kind:
            case ActKind.START:
                self._hosts = self._new_hosts(act.nodes)
                self._launcher.start(self.spec, self._hosts)
            case ActKind.GROW:
                self._hosts += self._new_hosts(act.nodes - len(self._hosts))
                self._launcher.order(self.spec.name, self._hosts)
            case ActKind.KILL_ALL:
                for host in self._hosts:
                    self._kill_workers(host)
                self._hosts = self._new_hosts(act.nodes)
            case ActKind.SHRINK:
                self._hosts = self._hosts[: act.nodes]
                self._launcher.order(self.spec.name, self._hosts)
            case ActKind.MOVE:
                self._hosts = self._new_hosts(act.nodes)
                self._launcher.order(self.spec.name, self._hosts)
            case _:
                self._kill_workers(self._hosts[-1])
                self._hosts = self._hosts[:-1]
                if len(self._hosts) < self.spec.min_nodes:
                    # Too few are left: the pilot would restart the trainer on other nodes.
                    self._hosts = self._new_hosts(act.nodes)
                elif len(self._hosts) > act.nodes:
                    self._hosts = self._hosts[: act.nodes]
                    self._launcher.order(self.spec.name, self._hosts)
        # The driver of a pool lives on after a kill, and starts other workers there.
        if self.spec.is_pool and act.kind in (ActKind.KILL, ActKind.KILL_ALL):
            self._launcher.order(self.spec.name, self._hosts)

    def _new_hosts(self, count: int) -> tuple[HostSlots, ...]:
        """Return hosts with names that the trainer has not had."""
        first_number = self._host_count + 1
        self._host_count += count
        numbers = range(first_number, self._host_count + 1)
        return tuple(HostSlots(f"node-{n}", self._options.slots, f"f{n}") for n in numbers)

    def _kill_workers(self, host: HostSlots) -> None:
        """Kill the worker processes of one host with their children, as when its node is lost."""
        events = [event for event in self.events if event.get("fragment") == host.fragment]
        started = {event["pid"] for event in events if event["event"] == DriverEvent.WORKER_STARTED}
        exited = {event["pid"] for event in events if event["event"] == DriverEvent.WORKER_EXITED}
        for pid in started - exited:
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == pid:
                    os.killpg(pid, signal.SIGKILL)
                else:
                    os.kill(pid, signal.SIGKILL)

    def _request_end(self, act: Act) -> None:
        """Request the end of the workers: by a stop request, or by a list of no nodes."""
        if act.kind is ActKind.STOP:
            self._launcher.ask_to_stop(self.spec.name)
        else:
            self._launcher.order(self.spec.name, ())
        self._hosts = ()

    def _wait_for_steps(self, start_s: float) -> TrialOutcome:
        """Wait until the trainer has made its steps on exactly the hosts of the act, which began at
        ``start_s``, and its stall is measured; return the outcome.

        A trainer that had lost all nodes is started again, as by the pilot.
        """

        def has_settled() -> bool:
            view = self.read_view()
            # The last "running" line may belong to the previous change: count lines from the later
            # of the two times.
            is_on_hosts = view.on == self._act_fragments()
            has_steps = is_on_hosts and self._has_enough_steps(max(view.driver_reported_s, start_s))
            # Without samples, no speed is measured.
            return has_steps and (self._has_rate or view.samples is None)

        for _ in range(STARTS):
            outcome = self._wait_until(has_settled, self._patience_s)
            if outcome is not TrialOutcome.STOPPED:
                return outcome
            # The trainer had lost all nodes: restart it, as the pilot does.
            self._launcher.start(self.spec, self._hosts)
        return outcome

    def _wait_until(
        self, condition: Callable[[], bool], patience_s: float, is_renewed: bool = True
    ) -> TrialOutcome:
        """Wait for a condition or the driver's end, for ``patience_s`` at most; return the outcome,
        OK if the condition has come true.

        With ``is_renewed``, each step restarts the patience, up to ``LONGEST`` times its length.
        """
        previous_step = None
        start_s = time.monotonic()
        deadline_s = start_s + LONGEST * patience_s
        while (now_s := time.monotonic()) - start_s < patience_s and now_s < deadline_s:
            if condition():
                return TrialOutcome.OK
            view = self.read_view()
            if view.ending is not None and not view.alive:
                return _OUTCOMES[view.ending]
            step = (view.incarnation, view.step)
            if is_renewed and step != previous_step:
                previous_step, start_s = step, time.monotonic()
            time.sleep(POLL_S)
        return TrialOutcome.TIMEOUT

    def _act_record(self, act: Act, start_s: float, outcome: TrialOutcome) -> Played:
        """Build the record of an act that was played, with the reason if it did not end as
        expected.
        """
        view, end_s = self.read_view(), time.time()
        reasons = {
            TrialOutcome.FAILED: view.reason,
            TrialOutcome.TIMEOUT: f"timed out after {end_s - start_s:.0f} s",
            TrialOutcome.DIED: view.reason
            or f"its driver ended without a report; see {_DRIVER_LOG}",
            TrialOutcome.STOPPED: f"all its workers ended, {STARTS} times",
        }
        tail, hang_place = view.tail, ""
        if outcome is TrialOutcome.TIMEOUT and act.kind not in ENDING_ACTS:
            tail, hang_place = self._end_hung_workers()
        stalls_s = tuple(self._stalls_s)
        # A stall within the noise of the speed is not reported, and counts as 0.
        if not stalls_s and self._has_rate and act.kind in (ActKind.GROW, ActKind.SHRINK):
            stalls_s = (0.0,)
        return Played(
            act=act,
            at_s=start_s,
            until_s=end_s,
            outcome=outcome,
            reason=reasons.get(outcome, ""),
            tail=tail,
            stalls_s=stalls_s,
            hung_at=hang_place,
        )

    def _end_hung_workers(self) -> tuple[tuple[str, ...], str]:
        """End hung workers; return the last output of one of them, and where one of them was."""
        logs = TrainerDirectory(self.folder).latest_logs()
        request_stacks([process for process in self._worker_processes() if is_alive(process)])
        outputs = filter(None, map(output_before_stack, logs))
        return tuple(next(outputs, [])), hung_at(logs)

    def _has_enough_steps(self, since_s: float) -> bool:
        """Whether more steps than the options request were reported since a time."""
        steps: set[int] = set()
        for line in reversed(self.lines):
            if line["time"] < since_s or len(steps) > self._options.steps:
                break
            if is_whole(line.get("step")):
                steps.add(line["step"])
        return len(steps) > self._options.steps

    def _last_step(self) -> int | None:
        """Read new lines, and return the last reported step; None if there is none lately."""
        self.read_view()
        steps = [line["step"] for line in self.lines[-50:] if is_whole(line.get("step"))]
        return steps[-1] if steps else None

    def _wait_for_unsaved_work(self) -> None:
        """Wait until some steps after a new checkpoint, for ``UNSAVED_S`` at most.

        A kill just after or just before a checkpoint would lose nothing, and so would show nothing.
        """
        self.read_view()
        old_count, deadline_s = len(self.lines), time.monotonic() + UNSAVED_S
        while time.monotonic() < deadline_s:
            self.read_view()
            new_lines = self.lines[old_count:]
            checkpoint_indices = [
                index
                for index, line in enumerate(new_lines)
                if line.get("phase") == Phase.CHECKPOINTED
            ]
            if checkpoint_indices and len(new_lines) - checkpoint_indices[-1] > UNSAVED_STEPS:
                return
            time.sleep(POLL_S / 4)

    def _worker_processes(self) -> set[ProcessId]:
        """Return all processes that this trainer's workers have had, those of earlier calls
        included; some may have ended. They are recognized by their environment.
        """
        self._process_ids |= set(with_variable(TRAINER_DIR, str(self.folder)))
        return self._process_ids
