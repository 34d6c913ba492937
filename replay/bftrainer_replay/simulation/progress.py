"""How a trainer's samples grow between events, and what a rescale costs: the cost models of a
replay.

``stall`` (physical): after a rescale a trainer makes no progress for R_up (it grew, or started) or
R_dw (it shrank, preempted or planned). An event causes one stall per trainer, the longer one; a
stall ends at max(old end, now + R).

``paper``: lumps of samples instead of time. A planned rescale costs O_j(C_j) * R_j, with C_j after
any preemption; a preemption costs O_j(N_j before) * R_dw, once per trainer and event; a start from
0 costs nothing. Lumps are subtracted from the trainer's progress.

``delay`` ([ModelArts 5.5]): a trainer that grows stays on its old nodes for R_up, a trainer that
starts waits for R_up; shrinking is free.

``overlap`` (what drivers with warm workers do): new nodes start for S while the old ones train on,
then all stall for the switch, W^up; shrinking and losses stall for W^dw
(:mod:`bftrainer.decide.domain.rescaling`). A trainer without S has S = 0.

``stall`` and ``delay`` are ``overlap`` with S = 0, W = R, and with S = R_up, W = 0.

A trainer makes no progress on a number of nodes that is not one of its legal sizes: old nodes that
a loss left at such a size wait for the new ones.

A loss that leaves fewer nodes than N_j^min kills the training; any loss kills a ``rigid`` trainer,
an ordinary job. It writes a checkpoint at the notice of the scheduler. With ``checkpoint_s`` there
is none: it repeats the work since its last checkpoint (one every ``checkpoint_s`` of training). A
planned stop loses nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from bftrainer.decide.domain.model import Trainer, rates
from bftrainer.decide.domain.rescaling import Rescaling, rescaled
from bftrainer.decide.domain.state import Nodes


class CostModel(Enum):
    """See the module's docstring."""

    STALL = "stall"
    PAPER = "paper"
    DELAY = "delay"
    OVERLAP = "overlap"

    def costs_of(self, trainer: Trainer) -> Trainer:
        """Return the trainer with the costs that this model charges, as its policy is told."""
        if self is CostModel.OVERLAP:
            return trainer if trainer.start_s is not None else replace(trainer, start_s=0.0)
        if trainer.start_s is None and trainer.from_zero_s is None:
            return trainer
        return replace(trainer, scale_up_s=trainer.growth_s, start_s=None, from_zero_s=None)


def too_long_s(model: CostModel, trainers: Iterable[Trainer]) -> float:
    """Return the longest rescale of the trainers under ``overlap``; below 0 under other cost
    models.

    T_fwd (the time that a decision looks ahead) has to exceed it for growth ever to pay. Under
    other cost models, any T_fwd will do.
    """
    if model is not CostModel.OVERLAP:
        return -1.0
    charged = [model.costs_of(trainer) for trainer in trainers]
    return max((max(trainer.growth_s, trainer.scale_down_s) for trainer in charged), default=-1.0)


@dataclass(slots=True)
class ReplayedTrainer:
    """A trainer's progress: a line that bends only at rescales, so nothing is computed between
    them.

    Samples at time t are ``samples + rate * (t - max(since_s, ready_s))``, and ``slow_rate`` per
    second between ``stalled_until_s`` and ``switch_s`` while new nodes start. Values that depend on
    the line alone are kept from one bend to the next: ``rate``, ``steady_s`` and ``finishes_s``.

    ``lost_to_preemption`` and ``lost_to_rescale`` are in samples: lumps, or the samples that the
    trainer would have processed during its stalls. Where stalls overlap, the loss counts as the
    preemption's.
    """

    trainer: Trainer
    cost_model: CostModel
    since_s: float
    """The start of the line: the time of the last bend."""
    stops_after_s: float = math.inf
    """When the trainer ends by itself, from its first start."""
    checkpoint_s: float | None = None
    """The time between two checkpoints; None: it writes one at the notice of a preemption."""
    rigid: bool = False
    """An ordinary job, which any loss of nodes kills."""
    samples: float = 0.0
    """Samples done at ``since_s``."""
    saved: float = 0.0
    """Samples of the last checkpoint."""
    node_names: Nodes = frozenset()
    nodes: int = 0
    """The number of ``node_names``."""
    slow_rate: float = 0.0
    trains_since_s: float = -math.inf
    """The time from which ``checkpoint_s`` counts."""
    stalled_until_s: float = -math.inf
    """The end of an earlier stall, after which the old nodes train while new nodes start."""
    switch_s: float = -math.inf
    """When the new nodes have started, and all nodes stall; minus infinity if none start."""
    ready_s: float = -math.inf
    """The end of the last stall."""
    preempted_until_s: float = -math.inf
    """The end of the last stall that a preemption has caused."""
    lost_to_preemption: float = 0.0
    lost_to_rescale: float = 0.0
    preemptions: int = 0
    rescales: int = 0
    admitted_s: float | None = None
    started_s: float | None = None
    finished_s: float | None = None
    stopped: bool = False
    node_s: float = 0.0
    stalled_node_s: float = 0.0
    """The part of ``node_s`` in stalls or on nodes that start."""
    waits_since_s: float | None = None
    """Since when a trainer that has run has had no nodes."""
    waited_s: float = 0.0
    """The longest time at 0 nodes that has ended."""
    total: float = field(init=False)
    """The samples at which the training is done; infinity if unknown."""
    rate: float = field(init=False)
    """Samples per second on the present nodes after any stall."""
    steady_s: float = field(init=False)
    """max(since_s, ready_s)."""
    finishes_s: float = field(init=False)
    """When it reaches its samples or ends by itself, if nothing changes; infinity if never."""
    _rates: tuple[float, ...] = field(init=False)
    """Samples per second by number of nodes."""
    _costs: Trainer = field(init=False)
    """The trainer with its costs as the cost model charges them as stalls."""
    _rescaling: Rescaling | None = None
    """The last rescale that caused a stall."""

    def __post_init__(self) -> None:
        self._rates = rates(self.trainer)
        self._costs = _with_stall_costs(self.trainer, self.cost_model)
        self.total = math.inf if self.trainer.samples_total is None else self.trainer.samples_total
        self.refresh()

    def samples_at(self, at_s: float) -> float:
        """Return the samples done by ``at_s``, less those lost at once (``paper`` costs, killed
        jobs).

        They grow at ``rate`` once all stalls are over, and at ``slow_rate`` while the old nodes
        train and new nodes start.
        """
        samples = self.samples
        if at_s > self.steady_s:
            samples += self.rate * (at_s - self.steady_s)
        if self.slow_rate:
            samples += self.slow_rate * max(
                min(at_s, self.switch_s) - max(self.since_s, self.stalled_until_s), 0.0
            )
        return samples

    def refresh(self) -> None:
        """Compute the values that hold until the next change of nodes, samples or stalls.

        They are ``rate``, ``steady_s`` and ``finishes_s``. Every such change ends with this call.
        """
        self.rate = self._rates[self.nodes]
        self.steady_s = max(self.since_s, self.ready_s)
        self.finishes_s = self._finishes_at()

    def _finishes_at(self) -> float:
        """Return when the trainer ends if nothing changes; infinity if never.

        It ends when it reaches its samples, or by itself some time after its start.
        """
        stops_s = math.inf if self.started_s is None else self.started_s + self.stops_after_s
        if self.rate <= 0 or self.total == math.inf:
            return stops_s
        remaining = max(self.total - self.samples, 0.0)
        if self.slow_rate:
            begin_s = max(self.since_s, self.stalled_until_s)
            slow_samples = self.slow_rate * max(self.switch_s - begin_s, 0.0)
            if remaining <= slow_samples:
                return min(stops_s, begin_s + remaining / self.slow_rate)
            remaining -= slow_samples
        return min(stops_s, self.steady_s + remaining / self.rate)

    def settle(self, at_s: float) -> None:
        """Credit the samples done up to ``at_s``, and count those lost to stalls.

        The trainer's line (its samples over time) then begins at ``at_s``. Node-time is counted as
        well, and the last checkpoint before ``at_s``.
        """
        samples = self.samples_at(at_s)
        preempted_s = max(min(at_s, self.preempted_until_s) - self.since_s, 0.0)
        slow_s = max(min(at_s, self.switch_s) - max(self.since_s, self.stalled_until_s), 0.0)
        # The time in which nothing trained: all of the stall, less what the old nodes trained in
        # it.
        stalled_s = max(min(at_s, self.ready_s) - self.since_s, 0.0) - slow_s
        self.lost_to_preemption += self.rate * preempted_s
        self.lost_to_rescale += (
            self.rate * max(stalled_s - preempted_s, 0.0) + (self.rate - self.slow_rate) * slow_s
        )
        self.node_s += self.nodes * (at_s - self.since_s)
        self.stalled_node_s += self.nodes * stalled_s + len(self._starting_nodes()) * slow_s
        if self.checkpoint_s is not None and self.rate > 0:
            # The time since the last checkpoint; it counts if it was written after the line began.
            behind_s = (at_s - self.trains_since_s) % self.checkpoint_s
            if at_s - behind_s > self.since_s:
                self.saved = self.samples_at(at_s - behind_s)
        self.samples, self.since_s = samples, at_s
        self.refresh()

    def lose_nodes(self, lost: Nodes, at_s: float) -> None:
        """Take the nodes ``lost`` from the trainer, as the scheduler does in a preemption; charge
        the cost.

        The cost is a lump of samples under ``paper`` costs, else a stall, and the work since the
        last checkpoint if the trainer is killed.
        """
        self.settle(at_s)
        self.preemptions += 1
        kept = self.node_names - lost
        if self.cost_model is CostModel.PAPER and not self.rigid:
            self._charge_preemption(self.rate * self.trainer.scale_down_s)
        if self.checkpoint_s is not None and (self.rigid or len(kept) < self.trainer.min_nodes):
            # Killed: the work since the last checkpoint is repeated.
            self._charge_preemption(self.samples - self.saved)
        if (
            self.cost_model is not CostModel.PAPER
            and not self.rigid
            # A loss of nodes that only start stalls nobody.
            and not self._starting_nodes().issuperset(lost)
        ):
            self.preempted_until_s = max(self.preempted_until_s, at_s + self._costs.scale_down_s)
        self._set_nodes(kept, at_s, stalls=not self.rigid)
        if not self.nodes:
            self.waits_since_s = at_s

    def rescale(self, after: Nodes, at_s: float) -> None:
        """Move the trainer to the nodes ``after`` by a planned rescale, and charge its cost.

        Under ``paper`` costs, that is a lump of samples, else a stall.
        """
        self.settle(at_s)
        self.rescales += 1
        self.waited_s = self.longest_wait_s(at_s)
        if self.cost_model is CostModel.PAPER:
            grows = len(after) > self.nodes
            lump = self.rate * (self.trainer.scale_up_s if grows else self.trainer.scale_down_s)
            self.samples -= lump
            self.lost_to_rescale += lump
        if self.started_s is None:
            self.started_s = at_s
        # From here on nothing is to be repeated: a start has no work, a planned stop loses none.
        restarts_checkpoints = self.rigid or self.rate == 0 or not after
        self._set_nodes(after, at_s)
        self.waits_since_s = None if after else at_s
        if restarts_checkpoints:
            self.saved = self.samples
            self.trains_since_s = max(at_s, self.ready_s)

    def finish(self, at_s: float) -> None:
        """End the trainer, whose nodes are then free.

        It has reached its samples (the excess is discarded), or ended by itself.
        """
        self.settle(at_s)
        self.stopped = self.started_s is not None and at_s >= self.started_s + self.stops_after_s
        if self.trainer.samples_total is not None:
            self.samples = min(self.samples, self.total) if self.stopped else self.total
        self.finished_s = at_s
        self.node_names, self.nodes = frozenset(), 0
        self.refresh()

    def longest_wait_s(self, at_s: float) -> float:
        """Return the longest time without nodes between the trainer's admission and ``at_s``, or
        its end.
        """
        since_s = self.admitted_s if self.started_s is None else self.waits_since_s
        if self.nodes or self.finished_s is not None or since_s is None:
            return self.waited_s
        return max(self.waited_s, at_s - since_s)

    def _charge_preemption(self, lump: float) -> None:
        """Take ``lump`` samples from the trainer, and count them as lost to a preemption."""
        self.samples -= lump
        self.lost_to_preemption += lump

    def _starting_nodes(self) -> Nodes:
        """Return the nodes of the trainer that do not train yet."""
        pending = self._rescaling
        if pending is None or pending.switch_s is None:
            return frozenset()
        return self.node_names - pending.training

    def _set_nodes(self, after: Nodes, at_s: float, *, stalls: bool = True) -> None:
        """Set the trainer's nodes to ``after``, and compute the stall that follows.

        No stall follows under ``paper`` costs, which are lumps of samples, or without ``stalls``: a
        rigid job that loses nodes is killed.
        """
        if stalls and self.cost_model is not CostModel.PAPER:
            rescaling = rescaled(self._costs, self._rescaling, self.node_names, after, at_s)
            switch_s = rescaling.switch_s
            self.stalled_until_s, self.ready_s = rescaling.stalled_until_s, rescaling.ready_s
            self.switch_s = -math.inf if switch_s is None else switch_s
            self.slow_rate = 0.0 if switch_s is None else self._rates[len(rescaling.training)]
            self._rescaling = rescaling
        self.node_names, self.nodes = after, len(after)
        self.refresh()


@dataclass(slots=True)
class ReplayedPool(ReplayedTrainer):
    """A pool of independent workers: each node works from S after it joined until it leaves,
    whatever the others do.

    Its length does not end it: the work of a pool lasts. A preempted worker loses nothing but the
    task that it had.

    ``working``: node to the time from which it works; ``starting``: the same of nodes that do not
    work yet, in this order.
    """

    working: dict[str, float] = field(default_factory=dict)
    starting: deque[tuple[float, str]] = field(default_factory=deque)
    working_since_sum_s: float = 0.0
    """The sum of the times in ``working``."""

    def samples_at(self, at_s: float) -> float:
        """Return the samples done by ``at_s``: each working node's time, at the rate of one node.

        Nodes that have started by then move from ``starting`` to ``working``.
        """
        while self.starting and self.starting[0][0] <= at_s:
            ready_s, node = self.starting.popleft()
            self.working[node] = ready_s
            self.working_since_sum_s += ready_s
        # ``_rates[1]`` is the rate of one node; the sum of all working nodes' times is their number
        # times ``at_s``, less the sum of their starts.
        return self.samples + self._rates[1] * (len(self.working) * at_s - self.working_since_sum_s)

    def settle(self, at_s: float) -> None:
        self.node_s += self.nodes * (at_s - self.since_s)
        self.since_s = at_s

    def lose_nodes(self, left: Nodes, at_s: float) -> None:
        self.settle(at_s)
        self.preemptions += 1
        self._replace_nodes(self.node_names - left, at_s)

    def rescale(self, after: Nodes, at_s: float) -> None:
        self.settle(at_s)
        self.rescales += 1
        if self.started_s is None:
            self.started_s = at_s
        self._replace_nodes(after, at_s)

    def _replace_nodes(self, after: Nodes, at_s: float) -> None:
        """Set the pool's nodes to ``after``: those that leave stop working, and new ones start."""
        self.samples_at(at_s)  # moves the nodes that have started to those that work
        left = self.node_names - after
        for node in left:
            if (since_s := self.working.pop(node, None)) is not None:
                # What the leaving node has done stays.
                self.samples += self._rates[1] * (at_s - since_s)
                self.working_since_sum_s -= since_s
        if left:
            self.starting = deque(start for start in self.starting if start[1] not in left)
        self.starting.extend(
            (at_s + self.trainer.growth_s, node) for node in sorted(after - self.node_names)
        )
        self.node_names, self.nodes = after, len(after)


def _with_stall_costs(trainer: Trainer, model: CostModel) -> Trainer:
    """Return the trainer with its costs as the model charges them as stalls.

    ``delay`` has no stalls: new nodes only take time to start.
    """
    charged = model.costs_of(trainer)
    if model is CostModel.DELAY:
        return replace(charged, start_s=charged.scale_up_s, scale_up_s=0.0, scale_down_s=0.0)
    return charged
