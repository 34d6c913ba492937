"""The state between two events, and decisions on it. All frozen."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.domain.measurements import Measurements
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.problem import Answer
from bftrainer.decide.domain.rescaling import Rescaling
from bftrainer.slots import Grain

Nodes = frozenset[str]
Classes = tuple[tuple[str, Nodes], ...]
"""(name of a node class, its nodes of the pool), sorted by name."""


@dataclass(frozen=True, slots=True)
class Losses:
    """What a trainer has reported of its evaluation function E: the first and the latest value, and
    the slope.

    ``per_sample`` is |change of E| / samples over the last two reports at different samples; None
    before the second.
    """

    first: float
    latest: float
    at_samples: float
    per_sample: float | None = None

    def after_report(self, samples: float, loss: float) -> Losses:
        """Return the losses after one more report: ``loss`` at ``samples`` samples. A report
        without new samples has no slope and only replaces the latest value.
        """
        if samples <= self.at_samples:
            return Losses(self.first, loss, samples, self.per_sample)
        return Losses(
            self.first, loss, samples, abs(loss - self.latest) / (samples - self.at_samples)
        )


@dataclass(frozen=True, slots=True)
class Active:
    """An admitted trainer: its nodes (none: it waits) and its reports up to the last event.

    ``run_s`` is its training time so far (seconds with at least one node), ``node_s`` its
    node-seconds. With learning, ``trainer`` has the estimated curve and costs, ``submitted`` the
    user's. ``sized_s`` is the time of its last change of size. ``rescaling`` is the rest of its
    rescales, as expected.
    """

    trainer: Trainer
    nodes: Nodes = frozenset()
    samples_done: float = 0.0
    admitted_s: float = 0.0
    run_s: float = 0.0
    node_s: float = 0.0
    losses: Losses | None = None
    submitted: Trainer | None = None
    sized_s: float = 0.0
    rescaling: Rescaling | None = None

    @property
    def remaining_samples(self) -> float | None:
        """Samples left, or None if ``samples_total`` is unknown."""
        total = self.trainer.samples_total
        return None if total is None else max(total - self.samples_done, 0.0)


@dataclass(frozen=True, slots=True)
class State:
    """Pool, admitted trainers in admission order, queue in submission order, and the policy's
    memory.

    ``measurements`` are by key (:func:`~bftrainer.decide.estimation.update.key_of`), the most
    recently updated last.

    ``classes`` are the non-empty node classes of the pool; nodes in none form a class of their own.
    ``window_ends`` has (node, time) for every node with a known window end.

    Invariants: the node sets of trainers are disjoint, within the pool, and each within one class.
    At most ``max_parallel`` (P_jmax) trainers are admitted (None: all); when it is lowered,
    admitted trainers stay.

    ``kept`` is the error of the policy, if the last decision kept the sizes, and ``blamed`` are the
    trainers that cause it. ``grain`` is GPU once a GPU of a node has joined the pool.
    """

    max_parallel: int | None
    at_s: float = 0.0
    pool: Nodes = frozenset()
    active: tuple[Active, ...] = ()
    queue: tuple[Trainer, ...] = ()
    memory: object = None
    wake_at_s: float | None = None
    classes: Classes = ()
    window_ends: tuple[tuple[str, float], ...] = ()
    measurements: tuple[tuple[str, Measurements], ...] = ()
    kept: str = ""
    blamed: tuple[str, ...] = ()
    grain: Grain = Grain.NODE


@dataclass(frozen=True, slots=True)
class ClassMemories:
    """The memory of a policy that decides for several node classes independently: (class,
    memory).
    """

    by_class: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a policy: one count N_j (Eqn 2) per admitted trainer, in the order of
    ``State.active``.

    ``wake_at_s`` requests a :class:`~bftrainer.decide.domain.events.TimerDue` event at that time.
    ``answer`` is the answer of the solver, if there was one. ``kept`` is the error of the policy if
    the counts are not its own but the present ones, and ``blamed`` are the trainers that cause it.

    ``nodes`` has (trainer id, its nodes) for trainers whose nodes the policy names; the others are
    placed by the core. A named set is as large as the count, a superset or subset of the present
    one (Eqn 6), and takes nodes only that are free or given up by another named trainer
    (:func:`~bftrainer.decide.allocation.check_decision.check_decision`).
    """

    counts: tuple[int, ...]
    wake_at_s: float | None = None
    answer: Answer | None = None
    kept: str = ""
    blamed: tuple[str, ...] = ()
    nodes: tuple[tuple[str, Nodes], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision with node sets, one per trainer: the loop carries it out and the journal records
    it.
    """

    decision: Decision
    nodes: tuple[Nodes, ...]
    memory: object


@dataclass(frozen=True, slots=True)
class Rescale:
    """A change of the node set of one trainer; ``forced`` if nodes left the pool."""

    trainer_id: str
    before: Nodes
    after: Nodes
    forced: bool
