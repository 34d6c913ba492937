"""One trainer of the pilot: its row of the registry, its driver, its meter and usage; and which
fragments trainers occupy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bftrainer.decide.domain.state import Nodes
from bftrainer.pilot.memo import Memoized
from bftrainer.pilot.persistence.registry import TrainerRecord, Usage
from bftrainer.pilot.trainers.meter import TrainerMeter
from bftrainer.pilot.trainers.outcomes import samples_of
from bftrainer.pilot.trainers.steps import TrainerState, occupied_nodes
from bftrainer.times import PilotS
from bftrainer.wires.metrics import Metric

LENGTH_TOLERANCE = 0.01
"""A smaller change of the length that a script reports, relative, is not worth a write."""


@dataclass(slots=True)
class ManagedTrainer:
    """A trainer of this pilot. ``fault`` is why this pilot has killed its driver. ``held_node_s``
    and what follows is not in the registry yet.
    """

    record: TrainerRecord
    state: TrainerState
    meter: TrainerMeter = field(default_factory=TrainerMeter)
    fault: str = ""
    trained_sizes: frozenset[int] = frozenset()
    """Sizes at which it has trained under this pilot."""
    held_node_s: float = 0.0
    trained_node_s: float = 0.0
    stalled_node_s: float = 0.0
    unreported_node_s: float = 0.0
    """Node-seconds in which the driver said that it trains and the program has reported nothing."""
    repeated_samples: float = 0.0
    metrics: tuple[Metric, ...] = ()
    """The metrics that were written last."""
    sent_total: float | None = None
    """The length of the training that this pilot has sent to the core."""
    killed_nodes: tuple[str, ...] = ()
    """Nodes that were not lost when a worker was killed there, since the last progress."""
    killed_incarnation: int = 0
    """The incarnation of the kill that was counted last."""
    certain_nodes: tuple[Nodes, ...] = ()
    """The nodes of each failure under this pilot that will come again on every node."""
    judged_record: TrainerRecord | None = None
    """The record with which the last report was compared."""

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def samples(self) -> float:
        return samples_of(self.record, self.state.view)

    def new_length(self) -> float | None:
        """Return the number of samples of the whole training that the script reports, if the core
        was not told it yet; None if it was.

        A length in the submission has priority. A change below ``LENGTH_TOLERANCE`` does not count.
        """
        reported_total = self.state.view.samples_total
        if reported_total is None or self.record.spec.samples_total is not None:
            return None
        sent = self.sent_total
        if sent is None or abs(reported_total - sent) > LENGTH_TOLERANCE * sent:
            return reported_total
        return None

    def account(self, passed_s: float) -> None:
        """Count the node-seconds of the last ``passed_s`` seconds as held, and also as trained, as
        stalled, or as unreported.

        Trained: rank 0 has reported since the last change of size. Unreported: the driver says that
        the trainer trains, but rank 0 has reported nothing at all yet. Nothing is counted while no
        driver runs.
        """
        view = self.state.view
        node_s = len(self.state.ordered) * passed_s
        if not view.alive:
            return
        self.held_node_s += node_s
        # The script does report, so the time before was its start, in which nothing was trained.
        if view.rank_0_reported_s:
            self.classify_unreported(has_trained=False)
        if view.trains:
            self.trained_node_s += node_s
        elif view.on and not view.rank_0_reported_s:
            self.unreported_node_s += node_s
        else:
            self.stalled_node_s += node_s

    def classify_unreported(self, *, has_trained: bool) -> None:
        """Count the time before the first report as trained or as stalled.

        It was the start of a program that reports later, or a program that never reports, which has
        trained unless it failed.
        """
        if has_trained:
            self.trained_node_s += self.unreported_node_s
        else:
            self.stalled_node_s += self.unreported_node_s
        self.unreported_node_s = 0.0

    def take_usage(self) -> Usage | None:
        """Return the usage that is not in the registry yet, for the caller to write; None if no
        driver runs and there is none. The counts start at 0 again.
        """
        metrics = self.state.view.metrics
        # The same object as long as no new line was read.
        changed = metrics if metrics and metrics is not self.metrics else ()
        held, trained, stalled = self.held_node_s, self.trained_node_s, self.stalled_node_s
        repeated = self.repeated_samples
        if not (self.state.view.alive or held or trained or stalled or repeated or changed):
            return None
        self.held_node_s = self.trained_node_s = self.stalled_node_s = self.repeated_samples = 0.0
        self.metrics = metrics
        return Usage(self.name, self.samples, held, trained, stalled, changed, repeated)


@dataclass(frozen=True, slots=True)
class NodeUnion:
    """The union of sets. ``is_disjoint``: no two of them have a member in common."""

    nodes: Nodes = frozenset()
    is_disjoint: bool = True


def _united_nodes(sets: tuple[Nodes, ...]) -> NodeUnion:
    nodes = frozenset().union(*sets)
    return NodeUnion(nodes, len(nodes) == sum(map(len, sets)))


def _nodes_outside(nodes: Nodes, pool: Nodes) -> Nodes:
    return nodes - pool


class Occupancy:
    """Tells which fragments trainers were given, and which they occupy. The unions are computed
    only when a set has changed.
    """

    def __init__(self, trainers: Mapping[str, ManagedTrainer]) -> None:
        self._trainers = trainers
        self._occupied = Memoized(_united_nodes)
        self._desired = Memoized(_united_nodes)
        self._used = Memoized(_united_nodes)
        self._outside = Memoized(_nodes_outside)

    def occupied_by_trainer(self, now_s: PilotS) -> tuple[Nodes, ...]:
        """Return the fragments on which each trainer has processes, in the order of the
        trainers.
        """
        return tuple([_occupied_by(trainer.state, now_s) for trainer in self._trainers.values()])

    def occupied(self, now_s: PilotS) -> NodeUnion:
        """Return the union of the fragments (held nodes) on which trainers have processes, and
        whether no two trainers share one.
        """
        return self._occupied(self.occupied_by_trainer(now_s))

    def desired(self) -> Nodes:
        """Fragments that the core gave to trainers."""
        return self._desired(
            tuple([trainer.state.desired for trainer in self._trainers.values()])
        ).nodes

    def classes(self) -> tuple[str | None, ...]:
        """Return the class of each trainer's nodes; None for a trainer without nodes."""
        return tuple([trainer.state.class_in_use for trainer in self._trainers.values()])

    def used(self, now_s: PilotS) -> Nodes:
        """Return the fragments that were given to trainers, or on which trainers have processes."""
        return self._used((self.desired(), self.occupied(now_s).nodes)).nodes

    def keep_within(self, pool: Nodes) -> None:
        """Take from all trainers the nodes that are no longer in the ``pool``, and remember them as
        lost.
        """
        lost = self._outside(self.desired(), pool)
        if not lost:
            return
        for trainer in self._trainers.values():
            state = trainer.state
            if not state.desired.isdisjoint(lost):
                state.lost |= state.desired & lost
                state.desired -= lost


def _occupied_by(state: TrainerState, now_s: PilotS) -> Nodes:
    """Return the fragments on which one trainer has processes (:func:`.steps.occupied_nodes`). The
    first case is the common one, and is decided here because the function runs for every trainer in
    every tick.
    """
    return state.ordered if state.view.alive and not state.leaving else occupied_nodes(state, now_s)
