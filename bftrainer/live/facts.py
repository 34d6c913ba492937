"""What the pilot writes down, as one stream of typed facts for its log, its metrics and its notices.

A listener hears of a fact once it is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from bftrainer.domain.events import Event
from bftrainer.domain.node_stages import NodeStage
from bftrainer.domain.state import Plan, State
from bftrainer.live.time_lines import TimeLineBook
from bftrainer.persistence.journal import LiveJournal, TimedPolicy
from bftrainer.persistence.registry import Registry, Submission, TrainerChange, TrainerStatus, Usage
from bftrainer.persistence.stages import StageReached
from bftrainer.persistence.store import Store
from bftrainer.persistence.time_lines import time_lines
from bftrainer.protocol.worker_times import TrainingTimes


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """The plan for an event, decided on ``state`` in ``took_s`` seconds."""

    at_s: float
    event: Event
    state: State
    plan: Plan
    took_s: float


@dataclass(frozen=True, slots=True)
class NoteAdded:
    """A line of the event log. ``subject`` is what it is about."""

    at_s: float
    kind: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class TrainerChanged:
    """A trainer was submitted, or its columns changed."""

    at_s: float
    name: str
    change: TrainerChange


@dataclass(frozen=True, slots=True)
class UsageAdded:
    """Node-seconds of one trainer since the last heartbeat."""

    at_s: float
    usage: Usage


class FragmentEvent(Enum):
    """What happened to a fragment."""

    ASKED = "asked"
    TAKEN = "taken"
    ASKED_BACK = "asked_back"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class FragmentChanged:
    """A step in the audit of a fragment."""

    at_s: float
    name: str
    what: FragmentEvent
    reason: str = ""


class TickStage(Enum):
    """What a tick of the loop is made of."""

    JOURNAL = "journal"
    HOLDERS = "holders"
    DRIVERS = "drivers"
    RELEASES = "releases"
    REQUESTS = "requests"
    POLLS = "polls"
    NODES = "nodes"
    STEPS = "steps"
    EVENTS = "events"
    DECISION = "decision"


@dataclass(frozen=True, slots=True)
class TickTook:
    """One tick of the loop: the seconds of each stage."""

    at_s: float
    stages: tuple[tuple[TickStage, float], ...]

    @property
    def whole_s(self) -> float:
        return sum(seconds for _, seconds in self.stages)

    @property
    def largest(self) -> tuple[TickStage, float]:
        """The stage that took most of it."""
        return max(self.stages, key=lambda stage: stage[1])


@dataclass(frozen=True, slots=True)
class FragmentTimed:
    """A fragment's way to training, or back, is complete: the seconds of its stages."""

    at_s: float
    name: str
    seconds: tuple[tuple[NodeStage, float], ...]


Fact = FragmentTimed | DecisionMade | NoteAdded | TrainerChanged | UsageAdded | FragmentChanged | TickTook
Listener = Callable[[Fact], None]
_TIMES = frozenset({"admitted_s", "started_s", "finished_s", "not_before_s"})


class TellingRegistry(Registry):
    """A registry that tells listeners of each change once it is committed. ``now_s`` dates changes that carry no time.

    Callers give times of the pilot's clock, which is never set; ``to_wall`` makes them the host's.
    """

    def __init__(
        self,
        store: Store,
        now_s: Callable[[], float],
        listeners: list[Listener],
        to_wall: Callable[[float], float] = lambda at_s: at_s,
    ) -> None:
        super().__init__(store)
        self._to_wall = to_wall
        self._now_s = now_s
        self._listeners = listeners
        self._lines = TimeLineBook(time_lines(self, open_only=True), self._timed)
        listeners.append(self._hear)

    def add_all(self, submissions: Sequence[Submission], at_s: float) -> tuple[bool, ...]:
        at_s = self._to_wall(at_s)
        added = super().add_all(submissions, at_s)
        for one, is_added in zip(submissions, added, strict=True):
            if is_added:
                status: TrainerStatus = self.trainer(one.spec.name).status
                self._tell(TrainerChanged(at_s, one.spec.name, TrainerChange(status=status)))
        return added

    def change(self, name: str, change: TrainerChange) -> None:
        times = {key: at_s for key, at_s in change.columns().items() if key in _TIMES and at_s}
        on_wall: dict[str, Any] = {key: self._to_wall(at_s) for key, at_s in times.items()}
        change = replace(change, **on_wall)
        super().change(name, change)
        self._tell(TrainerChanged(self._now_s(), name, change))

    def add_usage(self, usage: tuple[Usage, ...], beat_s: float) -> None:
        beat_s = self._to_wall(beat_s)
        super().add_usage(usage, beat_s)
        for one in usage:
            self._tell(UsageAdded(beat_s, one))
        super().fragments_reached(self._lines.taken())

    def fragments_reached(self, reached: Sequence[StageReached]) -> None:
        """Written with the next heartbeat: no commit more for each node."""
        for one in reached:
            self._lines.reached(one.fragment, one.stage, one.at_s, one.trainer)

    def fragment_seen(self, name: str, instants: Mapping[NodeStage, float]) -> None:
        super().fragment_seen(name, {stage: self._to_wall(at_s) for stage, at_s in instants.items()})

    def trainer_reported(self, name: str, was: TrainingTimes, now: TrainingTimes) -> None:
        self._lines.trained(name, was, now)

    def fragment_asked(self, name: str, node: str, at_s: float) -> None:
        at_s = self._to_wall(at_s)
        super().fragment_asked(name, node, at_s)
        self._lines.begin(name, at_s)
        self._tell(FragmentChanged(at_s, name, FragmentEvent.ASKED))

    def fragment_taken(self, name: str, at_s: float) -> None:
        at_s = self._to_wall(at_s)
        super().fragment_taken(name, at_s)
        self._lines.audited(name, NodeStage.OFFERED, at_s)
        self._tell(FragmentChanged(at_s, name, FragmentEvent.TAKEN))

    def fragment_asked_back(self, name: str, at_s: float, reason: str) -> None:
        at_s = self._to_wall(at_s)
        super().fragment_asked_back(name, at_s, reason)
        self._lines.audited(name, NodeStage.NOTICE, at_s)
        self._tell(FragmentChanged(at_s, name, FragmentEvent.ASKED_BACK, reason))

    def fragment_released(self, name: str, at_s: float, reason: str) -> None:
        at_s = self._to_wall(at_s)
        super().fragment_released(name, at_s, reason)
        self._tell(FragmentChanged(at_s, name, FragmentEvent.RELEASED, reason))
        self._lines.end(name, at_s)

    def note(self, at_s: float, kind: str, subject: str, text: str) -> None:
        at_s = self._to_wall(at_s)
        super().note(at_s, kind, subject, text)
        self._tell(NoteAdded(at_s, kind, subject, text))

    def _hear(self, fact: Fact) -> None:
        """Decisions come from the journal."""
        if isinstance(fact, DecisionMade):
            self._lines.decided(fact.state, fact.plan, self._to_wall(fact.at_s) + fact.took_s)

    def _timed(self, fragment: str, seconds: dict[NodeStage, float]) -> None:
        self._tell(FragmentTimed(self._now_s(), fragment, tuple(seconds.items())))

    def _tell(self, fact: Fact) -> None:
        for listener in self._listeners:
            listener(fact)


class TellingJournal:
    """Port Journal: tells listeners of each decision once it is on disk."""

    def __init__(self, journal: LiveJournal, policy: TimedPolicy, listeners: list[Listener]) -> None:
        self._journal = journal
        self._policy = policy
        self._listeners = listeners

    def record(self, event: Event, state: State, plan: Plan) -> None:
        self._journal.record(event, state, plan)
        for listener in self._listeners:
            listener(DecisionMade(event.at_s, event, state, plan, self._policy.took_s))
