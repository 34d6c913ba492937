"""The pilot's records, as one stream of typed facts for its log, its metrics and its notices.

Times are those of the host's clock. Subscribers of the :mod:`~bftrainer.pilot.recorder` get a fact
once it is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.node_stages import NodeStage
from bftrainer.decide.domain.state import Plan, State
from bftrainer.pilot.persistence.registry import Usage
from bftrainer.pilot.persistence.registry_writer import TrainerChange
from bftrainer.times import HostS


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """The plan for an event, decided on ``state`` in ``took_s`` seconds."""

    at_s: HostS
    event: Event
    state: State
    plan: Plan
    took_s: float


@dataclass(frozen=True, slots=True)
class NoteAdded:
    """A line of the event log. ``subject`` is what it is about."""

    at_s: HostS
    kind: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class TrainerChanged:
    """A trainer was submitted, or its columns changed."""

    at_s: HostS
    name: str
    change: TrainerChange


@dataclass(frozen=True, slots=True)
class UsageAdded:
    """Node-seconds of one trainer since the last heartbeat."""

    at_s: HostS
    usage: Usage


class FragmentEvent(Enum):
    """An event in the life of a fragment."""

    ASKED = "asked"
    TAKEN = "taken"
    ASKED_BACK = "asked_back"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class FragmentChanged:
    """A step in the life of a fragment was written to the audit."""

    at_s: HostS
    name: str
    event: FragmentEvent
    reason: str = ""


class TickStage(Enum):
    """A stage of a tick of the loop."""

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

    at_s: HostS
    stages: tuple[tuple[TickStage, float], ...]

    @property
    def total_s(self) -> float:
        """The seconds of the whole tick."""
        return sum(seconds for _, seconds in self.stages)

    @property
    def longest_stage(self) -> tuple[TickStage, float]:
        """The stage of the tick that took longest, with its seconds."""
        return max(self.stages, key=lambda stage: stage[1])


@dataclass(frozen=True, slots=True)
class FragmentTimed:
    """A fragment (held node) has come from idle to training, or from its notice to its release: the
    seconds of each stage, by the instant that ends it.
    """

    at_s: HostS
    name: str
    seconds: tuple[tuple[NodeStage, float], ...]


@dataclass(frozen=True, slots=True)
class MainJobDelayed:
    """A main job for which this pilot released nodes has started, at most ``delay_s`` seconds after
    held nodes began to block it.
    """

    at_s: HostS
    job: str
    delay_s: float


PilotFact = (
    FragmentTimed
    | MainJobDelayed
    | DecisionMade
    | NoteAdded
    | TrainerChanged
    | UsageAdded
    | FragmentChanged
    | TickTook
)
Subscriber = Callable[[PilotFact], None]
