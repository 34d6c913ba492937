"""What can happen.

An :class:`Event` is an instant with everything that happened at it, so one decision answers all of it.

Times are seconds of the driving world's own clock (live: the scheduler's epoch; replay: the log's).
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.domain.model import Trainer
from bftrainer.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class PoolChanged:
    """Nodes joined or left the pool of idle, unfillable nodes (paper 2.1).

    ``classes`` puts joined nodes into classes: (class, its nodes). Nodes in none are alike.
    """

    joined: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    classes: tuple[tuple[str, frozenset[str]], ...] = ()

    def __post_init__(self) -> None:
        if not self.joined.isdisjoint(self.left):
            both = ", ".join(sorted(self.joined & self.left)[:3])
            raise InvalidValueError(f"a node cannot join and leave at the same instant: {both}")
        classed = [node for _, nodes in self.classes for node in nodes]
        if len(classed) != len(self.joined.intersection(classed)):
            raise InvalidValueError("a node has one class, which is told when it joins")


@dataclass(frozen=True, slots=True)
class TrainerSubmitted:
    """A user handed in a trainer; it queues until one of the P_jmax places is free."""

    trainer: Trainer


@dataclass(frozen=True, slots=True)
class TrainerFinished:
    """A trainer reached its samples; its nodes are free."""

    trainer_id: str


@dataclass(frozen=True, slots=True)
class TimerDue:
    """The time has come at which the policy asked to be woken."""


@dataclass(frozen=True, slots=True)
class ParallelChanged:
    """Whoever runs the pilot has changed P_jmax. Trainers that are admitted stay; only the queue feels a lower one."""

    max_parallel: int


Change = PoolChanged | TrainerSubmitted | TrainerFinished | TimerDue | ParallelChanged


@dataclass(frozen=True, slots=True)
class RateSeen:
    """A trainer was measured: ``samples_per_s`` over ``seconds`` of steady training on ``nodes`` nodes."""

    trainer_id: str
    nodes: int
    samples_per_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class StallSeen:
    """A trainer stood still for ``seconds`` after it grew (or started), or shrank: R_j^up or R_j^dw."""

    trainer_id: str
    grew: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Event:
    """All changes of one instant, and what the trainers had reported by then.

    ``samples_done`` has one entry per trainer that runs or has run and is not finished: (id, samples). ``losses`` has one
    per trainer that has reported its evaluation function: (id, value), the lower the better. ``window_ends`` has one per
    node of the pool whose backfill window is known to end: (node, when).
    """

    at_s: float
    changes: tuple[Change, ...]
    samples_done: tuple[tuple[str, float], ...] = ()
    losses: tuple[tuple[str, float], ...] = ()
    window_ends: tuple[tuple[str, float], ...] = ()
    measured: tuple[RateSeen | StallSeen, ...] = ()
