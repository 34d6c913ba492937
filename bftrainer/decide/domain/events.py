"""Events. An :class:`Event` holds everything that happened at one instant, so one decision answers
all of it.

Times are seconds on the clock of the world: the epoch of the scheduler (live) or of the log
(replay).
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.domain.model import Trainer
from bftrainer.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class PoolChanged:
    """Nodes joined or left the pool of idle, unfillable nodes (paper 2.1).

    ``classes`` assigns joined nodes to node classes: (class, its nodes). Nodes in none are alike.
    """

    joined: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    classes: tuple[tuple[str, frozenset[str]], ...] = ()

    def __post_init__(self) -> None:
        """Raise :class:`InvalidValueError` for a node that joins and leaves, or has several
        classes.
        """
        if not self.joined.isdisjoint(self.left):
            both = ", ".join(sorted(self.joined & self.left)[:3])
            raise InvalidValueError(f"a node cannot join and leave at the same instant: {both}")
        classed = [node for _, nodes in self.classes for node in nodes]
        # A node in two classes, or one that did not join, makes the list longer than the set.
        if len(classed) != len(self.joined.intersection(classed)):
            raise InvalidValueError("a node must be in at most one class, and have joined")


@dataclass(frozen=True, slots=True)
class TrainerSubmitted:
    """A trainer was submitted; it is queued until fewer than P_jmax trainers are admitted."""

    trainer: Trainer


@dataclass(frozen=True, slots=True)
class TrainerFinished:
    """A trainer has ended; its nodes are free."""

    trainer_id: str


@dataclass(frozen=True, slots=True)
class TimerDue:
    """The time ``Decision.wake_at_s`` has come."""


@dataclass(frozen=True, slots=True)
class ParallelChanged:
    """P_jmax was reconfigured (None: all trainers). Admitted trainers stay; a lower value affects
    only the queue.
    """

    max_parallel: int | None


Change = PoolChanged | TrainerSubmitted | TrainerFinished | TimerDue | ParallelChanged


@dataclass(frozen=True, slots=True)
class RateSeen:
    """A measurement: ``samples_per_s`` over ``seconds`` of steady training on ``nodes`` nodes."""

    trainer_id: str
    nodes: int
    samples_per_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class StallSeen:
    """A measured stall of ``seconds`` after a trainer grew or started (R_j^up), or shrank (R_j^dw).

    Where its old nodes trained on while new ones started, ``seconds`` is the stall at the switch
    (W_j^up) and ``start_s`` the time from the decision to the switch (S_j). ``from_zero``: it had
    no nodes, and ``seconds`` are those from the decision.
    """

    trainer_id: str
    grew: bool
    seconds: float
    start_s: float | None = None
    from_zero: bool = False


@dataclass(frozen=True, slots=True)
class WorkLost:
    """A trainer lost all its nodes and has resumed from its last checkpoint: it does ``samples``
    again.
    """

    trainer_id: str
    samples: float


@dataclass(frozen=True, slots=True)
class LengthSeen:
    """A training script has reported the samples of its whole training, which its submission does
    not have.
    """

    trainer_id: str
    samples_total: float


Measured = RateSeen | StallSeen | WorkLost | LengthSeen


@dataclass(frozen=True, slots=True)
class Event:
    """All changes of one instant, and the reports of the trainers up to then.

    ``samples_done`` has (id, samples) for every unfinished trainer that has run. ``losses`` has
    (id, value) for every trainer that has reported its evaluation function; lower is better.
    ``window_ends`` has (node, time) for every node of the pool with a known window end.
    ``measured`` are the new measurements. ``all_joined``: every node that was requested is in the
    pool, and no other is about to be; False where the world cannot tell.
    """

    at_s: float
    changes: tuple[Change, ...]
    samples_done: tuple[tuple[str, float], ...] = ()
    losses: tuple[tuple[str, float], ...] = ()
    window_ends: tuple[tuple[str, float], ...] = ()
    measured: tuple[Measured, ...] = ()
    all_joined: bool = False
