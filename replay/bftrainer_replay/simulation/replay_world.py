"""ReplayWorld: nodes from a recorded log, trainers from a workload, and their progress from a cost
model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace
from enum import Enum

from bftrainer.counted import counted
from bftrainer.decide.domain.events import (
    Change,
    Event,
    PoolChanged,
    TimerDue,
    TrainerFinished,
    TrainerSubmitted,
)
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.state import Nodes, Rescale, State
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.losses import LossCurve
from bftrainer_replay.simulation.meter import Meter
from bftrainer_replay.simulation.progress import CostModel, ReplayedPool, ReplayedTrainer


class DecideOn(Enum):
    """Events that cause a decision: pool changes, submissions and completions, or pool changes only
    (the authors' replayer).
    """

    ALL = "all"
    POOL = "pool"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A trainer and when it is submitted, in the log's time.

    ``trainer`` is as its user specifies it. ``actual_samples`` is the number of samples that it
    really takes (None: as specified), ``stops_after_s`` when it ends by itself after its first
    start, ``losses`` how its evaluation function falls. ``actual`` has its true curve and costs if
    its user does not know them; ``user`` is the name of the latter, if there is one.
    """

    at_s: float
    trainer: Trainer
    actual_samples: float | None = None
    stops_after_s: float = math.inf
    losses: LossCurve | None = None
    actual: Trainer | None = None
    user: str = ""

    @property
    def truth(self) -> Trainer:
        """The trainer as it really is."""
        trainer = self.actual or self.trainer
        if self.actual_samples is None:
            return trainer
        return replace(trainer, samples_total=self.actual_samples)


@dataclass(frozen=True, slots=True)
class ReplayTotals:
    """Samples done, lost to preemption, and lost to planned rescales. ``samples`` does not include
    lost ones.
    """

    samples: float = 0.0
    lost_to_preemption: float = 0.0
    lost_to_rescale: float = 0.0


@dataclass(eq=False)
class ReplayWorld:
    """The :class:`~bftrainer.decide.domain.ports.World` of a replay over a log's window. The replay
    ends at ``window.end_s``.

    At each time, in this order: progress is credited, nodes leave (with their cost), trainers that
    have reached their samples finish, trainers are submitted. Then the coordinator admits trainers
    and the policy decides. An event takes O(running trainers + nodes that left): each one's samples
    are computed once. ``until_done``: the replay ends with the last trainer of a known length.

    While ``places`` trainers are unfinished, a submission only lengthens the queue: it waits for
    the next event.
    """

    window: LogWindow
    arrivals: InitVar[Sequence[Arrival]]
    cost_model: CostModel = CostModel.STALL
    decide_on: DecideOn = DecideOn.ALL
    checkpoint_s: float | None = None
    meter: Meter = field(default_factory=Meter)
    places: float = math.inf
    rigid: bool = False
    until_done: bool = False

    def __post_init__(self, arrivals: Sequence[Arrival]) -> None:
        """Begin at the window's start, before its first event."""
        self._curves: dict[str, LossCurve] = {}
        """Loss curves of the submitted trainers that have one."""
        self.now_s = self.window.start_s
        """The time of the last event."""
        self._arrivals = sorted(arrivals, key=lambda arrival: arrival.at_s)
        self._arrival_index = 0
        """The index of the next arrival."""
        self._change_index = -1
        """The index of the next change of the pool; -1: the initial state."""
        self._started: dict[str, ReplayedTrainer] = {}
        """Trainers that have had nodes and have not finished."""
        self._held_nodes: dict[str, Nodes] = {}
        """The node names of the started trainers."""
        self._is_pool_complete = False
        """``all_joined`` of the last change of the pool."""
        self._samples: dict[str, float] = {}
        """Samples of every started trainer at ``now_s``."""
        self._has_ended = False
        self._pool_count = 0
        """Submitted trainers that are pools (``fill``); they never finish."""
        self._finished_count = 0
        """Trainers that have finished."""
        self._finished_totals = ReplayTotals()
        """Outcome and costs of the finished trainers."""
        self.runs: dict[str, ReplayedTrainer] = {}
        """All submitted trainers."""

    def next_event(self, state: State) -> Event | None:
        """Advance to the next event, and return it; None after the end of the window.

        It is the earliest of the next change of the pool, submission, completion and wake-up. With
        ``until_done``, the replay also ends when all trainers are done.
        """
        wake_at_s = state.wake_at_s
        if self._has_ended or (self.until_done and self._is_done()):
            return None
        change_s = self._change_time()
        at_s = min(change_s, math.inf if wake_at_s is None else max(wake_at_s, self.now_s))
        if self.decide_on is DecideOn.ALL:
            unfinished_count = len(self.runs) - self._pool_count - self._finished_count
            if unfinished_count < self.places:
                at_s = min(at_s, self._arrival_time())
            at_s = min(
                at_s, min([run.finishes_s for run in self._started.values()], default=math.inf)
            )
        if at_s > self.window.end_s:
            self._end_replay()
            return None
        self.now_s = at_s
        measured = self.meter.read(self._started, at_s)  # before the runs are changed
        changes: list[Change] = []
        if change_s <= at_s:
            changes.append(self._change_pool())
        self._samples = {name: run.samples_at(at_s) for name, run in self._started.items()}
        changes.extend(self._finish_due(at_s))
        changes.extend(self._submit_due(at_s))
        if wake_at_s is not None and wake_at_s <= at_s:
            changes.append(TimerDue())
        done = tuple(self._samples.items())
        return Event(
            at_s,
            tuple(changes),
            done,
            self._present_losses(done),
            measured=measured,
            all_joined=self._is_pool_complete,
        )

    def apply(self, steps: tuple[Rescale, ...]) -> None:
        """Carry out the planned rescales of a decision.

        Preemptions were carried out when they happened: a forced step only confirms one.
        """
        for step in steps:
            run = self._started.setdefault(step.trainer_id, self.runs[step.trainer_id])
            if not step.forced:
                run.rescale(step.after, self.now_s)
                self._samples[step.trainer_id] = run.samples_at(self.now_s)
            assert run.nodes == len(step.after), (
                f"{step.trainer_id}: {counted(run.nodes, 'node')}, {len(step.after)} planned"
            )
            self._held_nodes[step.trainer_id] = step.after

    def totals(self) -> ReplayTotals:
        """Return the samples of all trainers up to now, done and lost.

        A stall is counted when it ends or is cut short. Pools of tasks do not count.
        """
        done = self._finished_totals
        pairs = [
            (self._samples[name], run)
            for name, run in self._started.items()
            if not run.trainer.fill
        ]
        runs = [run for _, run in pairs]
        return ReplayTotals(
            done.samples + sum([min(samples, run.total) for samples, run in pairs]),
            done.lost_to_preemption + sum([run.lost_to_preemption for run in runs]),
            done.lost_to_rescale + sum([run.lost_to_rescale for run in runs]),
        )

    def _present_losses(self, done: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
        """Return (trainer, loss) as trainers report them now; ``done`` has their samples.

        A trainer without a loss curve, or before its first sample, reports none.
        """
        if not self._curves:
            return ()
        reported = []
        for name, samples in done:
            total = self.runs[name].trainer.samples_total
            if samples > 0 and total is not None and name in self._curves:
                reported.append((name, self._curves[name].at(min(samples / total, 1.0))))
        return tuple(reported)

    def _is_done(self) -> bool:
        """Whether all trainers of a known length have finished."""
        return self._arrival_index == len(self._arrivals) and all(
            run.finished_s is not None or run.total == math.inf for run in self.runs.values()
        )

    def _change_time(self) -> float:
        """Return when the pool changes next; infinite if it does not."""
        if self._change_index < 0:
            return self.window.start_s
        events = self.window.events
        return events[self._change_index].at_s if self._change_index < len(events) else math.inf

    def _arrival_time(self) -> float:
        """Return when the next trainer is submitted; infinite without one."""
        if self._arrival_index == len(self._arrivals):
            return math.inf
        return max(self._arrivals[self._arrival_index].at_s, self.window.start_s)

    def _change_pool(self) -> PoolChanged:
        """Apply the next change of the pool, and return it; trainers lose the nodes that leave."""
        self._change_index += 1
        # The first change is the state at the window's start.
        if self._change_index == 0:
            return PoolChanged(joined=self.window.initial)
        event = self.window.events[self._change_index - 1]
        change, self._is_pool_complete = event.change, event.all_joined
        for name, nodes in self._held_nodes.items():
            if not nodes.isdisjoint(change.left):
                kept = nodes - change.left
                self._started[name].lose_nodes(nodes - kept, self.now_s)
                self._held_nodes[name] = kept
        return change

    def _finish_due(self, at_s: float) -> list[TrainerFinished]:
        """Finish the trainers that have reached their samples or end by themselves.

        Return these changes for the event. Pools never finish.
        """
        started = ((name, run) for name, run in self._started.items() if not run.trainer.fill)
        due = [
            name
            for name, run in started
            if run.finishes_s <= at_s or self._samples[name] >= run.total
        ]
        for name in due:
            run = self._started.pop(name)
            run.finish(at_s)
            done = self._finished_totals
            self._finished_totals = ReplayTotals(
                done.samples + run.samples,
                done.lost_to_preemption + run.lost_to_preemption,
                done.lost_to_rescale + run.lost_to_rescale,
            )
            del self._held_nodes[name], self._samples[name]
            self.meter.forget(name)
        self._finished_count += len(due)
        return [TrainerFinished(name) for name in due]

    def _submit_due(self, at_s: float) -> list[TrainerSubmitted]:
        """Submit the trainers whose time has come; return these changes for the event.

        The policy gets a trainer as its user specifies it; its progress follows the true one.
        """
        submitted = []
        while self._arrival_time() <= at_s:
            arrival = self._arrivals[self._arrival_index]
            self._arrival_index += 1
            if arrival.trainer.fill:
                self.runs[arrival.trainer.id] = ReplayedPool(arrival.trainer, self.cost_model, at_s)
                self._pool_count += 1
                submitted.append(TrainerSubmitted(arrival.trainer))
                continue
            trainer = self.cost_model.costs_of(arrival.trainer)
            if trainer.learning is not None:
                self.meter.add(trainer.id, trainer.learning.window_s)
            if arrival.losses is not None:
                self._curves[trainer.id] = arrival.losses
            self.runs[trainer.id] = ReplayedTrainer(
                arrival.truth,
                self.cost_model,
                at_s,
                arrival.stops_after_s,
                self.checkpoint_s,
                self.rigid,
            )
            submitted.append(TrainerSubmitted(trainer))
        return submitted

    def _end_replay(self) -> None:
        """End the replay: credit all progress up to the end of the window."""
        self.now_s = self.window.end_s
        self._has_ended = True
        for name, run in self._started.items():
            run.settle(self.now_s)
            if run.trainer.fill:
                run.samples = self._samples[name] = run.samples_at(self.now_s)
                continue
            run.samples = self._samples[name] = min(run.samples, run.total)
