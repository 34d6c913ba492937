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
from bftrainer.console.rehearsal.scenario import LEAVES, Act, ActKind
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
LEAVES_WITHIN_S = 15.0
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

    ``steps`` are waited for after each change; ``window_s`` is the duration of a speed measurement.
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
        directory = TrainerDirectory(self.folder)
        self.lines: list[Line] = []
        self.events: list[Line] = []
        workers = WorkersConfig(allow_stock_horovodrun=options.allow_stock_horovodrun)
        self._launcher = DirectoryLauncher(root, driver_settings(workers, DRIVER_POLL_S))
        self._options = options
        self._patience_s = max(options.patience_s, 1.25 * (spec.hang_s or 0.0))
        self._meter = TrainerMeter()
        self._stalls: list[float] = []
        self._measured = False
        self._places: tuple[HostSlots, ...] = ()
        self._count = 0
        self._event_tail = JsonTail(directory.events)
        self._line_tail = JsonTail(directory.progress)
        self._ranks = directory.ranks
        self._rank_tails: dict[Path, JsonTail] = {}
        self.ranks: list[RankLine] = []
        self._pids: set[ProcessId] = set()

    def play(self, act: Act) -> Played:
        """Play one act until it has taken effect, or until it no longer can."""
        if act.kind in (ActKind.KILL, ActKind.KILL_ALL):
            self._wait_for_unsaved_work()
        at_s = time.time()
        self._stalls, self._measured = [], False
        if act.kind in LEAVES:
            self._ask(act)
            ended = self._follow(lambda: False, self.spec.stop_s + LEAVES_WITHIN_S, renewed=False)
            ended = TrialOutcome.OK if ended is TrialOutcome.STOPPED else ended
        else:
            self._order(act)
            ended = self._settle(at_s)
        return self._played(act, at_s, ended)

    def run_on(self, step: int) -> None:
        """Let the trainer run to this step, or to its end."""
        self._follow(lambda: (self._last_step() or 0) >= step, self._patience_s)

    def left(self) -> tuple[int, ...]:
        """Return the pids of the trainer's remaining processes, after 2 s for those that are just
        ending.
        """
        give_up = time.monotonic() + 2.0
        while time.monotonic() < give_up and any(map(is_alive, self._processes())):
            time.sleep(POLL_S)
        return tuple(sorted(process.pid for process in self._processes() if is_alive(process)))

    def end(self) -> None:
        """End all processes of the trainer."""
        view = self._launcher.look(self.spec.name)
        self._launcher.kill(self.spec.name)
        while view.alive:
            time.sleep(POLL_S)
            view = self._launcher.look(self.spec.name)
        self._launcher.look(self.spec.name)  # reaps a driver that has just ended
        give_up = time.monotonic() + 10.0
        while time.monotonic() < give_up:
            left = [process for process in self._processes() if is_alive(process)]
            if not left:
                return
            for process in left:
                send(process, signal.SIGKILL)
            time.sleep(POLL_S)

    def look(self) -> DriverView:
        """Return the current state of the driver, and read what it and the workers have written."""
        view = self._launcher.look(self.spec.name)
        measured, _ = self._meter.hear(self.spec.name, view, self._options.window_s)
        for seen in measured:
            if isinstance(seen, StallSeen):
                self._stalls.append(seen.seconds)
            elif isinstance(seen, RateSeen):
                self._measured |= view.on == self._wanted()
        self.events += self._event_tail.read()
        self.lines += self._line_tail.read()
        for path in self._ranks.glob("*.jsonl"):
            self._rank_tails.setdefault(path, JsonTail(path))
        for tail in self._rank_tails.values():
            self.ranks += [line for line in map(parse_rank, tail.read()) if line is not None]
        return view

    def _wanted(self) -> frozenset[str]:
        return frozenset(place.fragment for place in self._places)

    def _order(self, act: Act) -> None:
        """Request the change of an act from the driver, or kill workers, and note the resulting
        places.
        """
        self.look()
        match act.kind:
            case ActKind.START:
                self._places = self._new(act.nodes)
                self._launcher.start(self.spec, self._places)
            case ActKind.GROW:
                self._places += self._new(act.nodes - len(self._places))
                self._launcher.order(self.spec.name, self._places)
            case ActKind.KILL_ALL:
                for place in self._places:
                    self._kill(place)
                self._places = self._new(act.nodes)
            case ActKind.SHRINK:
                self._places = self._places[: act.nodes]
                self._launcher.order(self.spec.name, self._places)
            case ActKind.MOVE:
                self._places = self._new(act.nodes)
                self._launcher.order(self.spec.name, self._places)
            case _:
                self._kill(self._places[-1])
                self._places = self._places[:-1]
                if len(self._places) < self.spec.min_nodes:
                    # Too few are left: the pilot would restart the trainer on other nodes.
                    self._places = self._new(act.nodes)
                elif len(self._places) > act.nodes:
                    self._places = self._places[: act.nodes]
                    self._launcher.order(self.spec.name, self._places)
        # The driver of a pool lives on, and starts others there.
        if self.spec.is_pool and act.kind in (ActKind.KILL, ActKind.KILL_ALL):
            self._launcher.order(self.spec.name, self._places)

    def _new(self, count: int) -> tuple[HostSlots, ...]:
        self._count += count
        numbers = range(self._count - count + 1, self._count + 1)
        return tuple(HostSlots(f"node-{n}", self._options.slots, f"f{n}") for n in numbers)

    def _kill(self, place: HostSlots) -> None:
        """Kill the worker processes of one place, as when its node is lost."""
        events = [e for e in self.events if e.get("fragment") == place.fragment]
        ended = {e["pid"] for e in events if e["event"] == DriverEvent.WORKER_EXITED}
        for pid in {e["pid"] for e in events if e["event"] == DriverEvent.WORKER_STARTED} - ended:
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == pid:  # with its children, as when a node is lost
                    os.killpg(pid, signal.SIGKILL)
                else:
                    os.kill(pid, signal.SIGKILL)

    def _ask(self, act: Act) -> None:
        if act.kind is ActKind.STOP:
            self._launcher.ask_to_stop(self.spec.name)
        else:
            self._launcher.order(self.spec.name, ())
        self._places = ()

    def _settle(self, at_s: float) -> TrialOutcome:
        """Wait until the trainer has made its steps on exactly the places of the act, and its stall
        is measured.

        Returns how that ended. A trainer that had lost all nodes is started again, as by the pilot.
        """

        def holds() -> bool:
            view = self.look()
            # The last "running" line may belong to the previous change: count lines from the later
            # of the two times.
            has_arrived = view.on == self._wanted() and self._made(max(view.said_s, at_s))
            return has_arrived and (self._measured or view.samples is None)

        for _ in range(STARTS):
            ended = self._follow(holds, self._patience_s)
            if ended is not TrialOutcome.STOPPED:
                return ended
            # The trainer had lost all nodes: restart it, as the pilot does.
            self._launcher.start(self.spec, self._places)
        return ended

    def _follow(
        self, holds: Callable[[], bool], patience_s: float, renewed: bool = True
    ) -> TrialOutcome:
        """Wait until ``holds()`` or the driver's end, for ``patience_s`` at most; return how that
        ended.

        ``renewed``: each step restarts the patience, up to ``LONGEST`` times.
        """
        last, since = None, time.monotonic()
        give_up = since + LONGEST * patience_s
        while (now_s := time.monotonic()) - since < patience_s and now_s < give_up:
            if holds():
                return TrialOutcome.OK
            view = self.look()
            if view.ending is not None and not view.alive:
                return _OUTCOMES[view.ending]
            if renewed and (now := (view.incarnation, view.step)) != last:
                last, since = now, time.monotonic()
            time.sleep(POLL_S)
        return TrialOutcome.TIMEOUT

    def _played(self, act: Act, at_s: float, outcome: TrialOutcome) -> Played:
        """Build the record of an act that was played, with the reason if it did not end as
        expected.
        """
        view, until_s = self.look(), time.time()
        reasons = {
            TrialOutcome.FAILED: view.reason,
            TrialOutcome.TIMEOUT: f"timed out after {until_s - at_s:.0f} s",
            TrialOutcome.DIED: view.reason
            or f"its driver ended without a report; see {_DRIVER_LOG}",
            TrialOutcome.STOPPED: f"all its workers ended, {STARTS} times",
        }
        reason = reasons.get(outcome, "")
        tail, hung = view.tail, ""
        if outcome is TrialOutcome.TIMEOUT and act.kind not in LEAVES:
            tail, hung = self._hung()
        # A stall within the noise of the speed counts as 0.
        measured = self._measured and act.kind in (ActKind.GROW, ActKind.SHRINK)
        stalls_s = tuple(self._stalls) or ((0.0,) if measured else ())
        return Played(act, at_s, until_s, outcome, reason, tail, stalls_s, hung)

    def _hung(self) -> tuple[tuple[str, ...], str]:
        """End hung workers; return their last output, and where one of them was."""
        logs = TrainerDirectory(self.folder).latest_logs()
        request_stacks([process for process in self._processes() if is_alive(process)])
        outputs = filter(None, map(output_before_stack, logs))
        return tuple(next(outputs, [])), hung_at(logs)

    def _made(self, since_s: float) -> bool:
        """Whether more steps than the options ask for were reported since then."""
        steps: set[int] = set()
        for line in reversed(self.lines):
            if line["time"] < since_s or len(steps) > self._options.steps:
                break
            if is_whole(line.get("step")):
                steps.add(line["step"])
        return len(steps) > self._options.steps

    def _last_step(self) -> int | None:
        self.look()
        steps = [line["step"] for line in self.lines[-50:] if is_whole(line.get("step"))]
        return steps[-1] if steps else None

    def _wait_for_unsaved_work(self) -> None:
        """Wait until some steps after a checkpoint, for ``UNSAVED_S`` at most.

        A kill just after or just before a checkpoint would lose nothing, and so would show nothing.
        """
        self.look()
        seen, give_up = len(self.lines), time.monotonic() + UNSAVED_S
        while time.monotonic() < give_up:
            self.look()
            new = self.lines[seen:]
            saved = [
                number for number, line in enumerate(new) if line.get("phase") == Phase.CHECKPOINTED
            ]
            if saved and len(new) - saved[-1] > UNSAVED_STEPS:
                return
            time.sleep(POLL_S / 4)

    def _processes(self) -> set[ProcessId]:
        """Return the processes of this trainer's workers, found by their environment, with those
        found before.
        """
        self._pids |= set(with_variable(TRAINER_DIR, str(self.folder)))
        return self._pids
