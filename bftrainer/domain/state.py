"""What the coordinator knows between two events, and what a policy decides on it. All frozen."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.domain.measurements import Measurements
from bftrainer.domain.model import Trainer
from bftrainer.domain.problem import Answer

Nodes = frozenset[str]
Classes = tuple[tuple[str, Nodes], ...]
"""(name of a class, its nodes of the pool), by name."""


@dataclass(frozen=True, slots=True)
class Losses:
    """What a trainer has reported of its evaluation function E: the first and the latest value, and the slope.

    ``per_sample`` is |E - E before| / samples in between, over the last two reports at different samples; None until then.
    """

    first: float
    latest: float
    at_samples: float
    per_sample: float | None = None

    def then(self, samples: float, loss: float) -> Losses:
        """With one more report; one without new samples only replaces the latest value."""
        if samples <= self.at_samples:
            return Losses(self.first, loss, samples, self.per_sample)
        return Losses(self.first, loss, samples, abs(loss - self.latest) / (samples - self.at_samples))


@dataclass(frozen=True, slots=True)
class Active:
    """An admitted trainer: its nodes (maybe none: it waits) and what it had reported by the last event.

    ``run_s`` is its training time so far (seconds with at least one node), ``node_s`` the node-seconds that it has had.
    Of a trainer that is learned ``trainer`` is what is believed, ``submitted`` what its user said. ``sized_s`` is since
    when it has had its nodes.
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

    @property
    def remaining_samples(self) -> float | None:
        """What is left of its work, or None where nobody said how much there is."""
        total = self.trainer.samples_total
        return None if total is None else max(total - self.samples_done, 0.0)


@dataclass(frozen=True, slots=True)
class State:
    """Pool, admitted trainers in admission order, queue in submission order, and the policy's memory.

    ``measurements`` are by key (:func:`~bftrainer.estimation.update.key_of`), the most recently updated last.

    ``classes`` are the pool's, without empty ones; nodes in none are a class of their own. ``window_ends`` has one entry per
    node whose backfill window is known to end: (node, when).

    Invariants: the trainers' node sets are disjoint, within the pool, and each within one class; at most ``max_parallel``
    (P_jmax) are admitted, and those who were when it was lowered.
    """

    max_parallel: int
    at_s: float = 0.0
    pool: Nodes = frozenset()
    active: tuple[Active, ...] = ()
    queue: tuple[Trainer, ...] = ()
    memory: object = None
    wake_at_s: float | None = None
    classes: Classes = ()
    window_ends: tuple[tuple[str, float], ...] = ()
    measurements: tuple[tuple[str, Measurements], ...] = ()


@dataclass(frozen=True, slots=True)
class ClassMemories:
    """A policy's memory where nodes are of several classes: it decides for each by itself, with a memory for each."""

    by_class: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's answer: one count per admitted trainer, in the order of ``State.active``.

    ``wake_at_s`` asks for a :class:`~bftrainer.domain.events.TimerDue` event then. ``answer`` is the solver's evidence, if any.
    """

    counts: tuple[int, ...]
    wake_at_s: float | None = None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision with node names: what the loop carries out and the journal records."""

    decision: Decision
    nodes: tuple[Nodes, ...]
    memory: object


@dataclass(frozen=True, slots=True)
class Rescale:
    """One trainer goes from one node set to another; ``forced`` where nodes were taken from it."""

    trainer_id: str
    before: Nodes
    after: Nodes
    forced: bool
