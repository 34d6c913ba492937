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
        """The trainer with the costs that this model charges, as its policy is told."""
        if self is CostModel.OVERLAP:
            return trainer if trainer.start_s is not None else replace(trainer, start_s=0.0)
        if trainer.start_s is None and trainer.from_zero_s is None:
            return trainer
        return replace(trainer, scale_up_s=trainer.growth_s, start_s=None, from_zero_s=None)


def too_long_s(model: CostModel, trainers: Iterable[Trainer]) -> float:
    """Return the longest rescale of the trainers under ``overlap``, which T_fwd has to exceed for
    growth ever to pay; below 0 under other cost models, where any T_fwd will do.
    """
    if model is not CostModel.OVERLAP:
        return -1.0
    charged = [model.costs_of(trainer) for trainer in trainers]
    return max((max(trainer.growth_s, trainer.scale_down_s) for trainer in charged), default=-1.0)


@dataclass(slots=True)
class ReplayedTrainer:
    """A trainer's progress: a line that bends only at rescales, so nothing is computed between
    them.

    Values that depend on the line alone are kept from one bend to the next: ``rate`` (samples per
    second on its present nodes after any stall), ``steady_s`` (max(since_s, ready_s)) and
    ``finishes_s`` (when it reaches its samples or ends by itself, if nothing changes; infinity if
    never).

    Samples at time t are ``samples + rate * (t - max(since_s, ready_s))``, and ``slow_rate`` per
    second between ``stalled_until_s`` and ``switch_s`` while new nodes start.
    ``lost_to_preemption`` and ``lost_to_rescale`` are in samples: lumps, or what the trainer would
    have processed during its stalls. Where stalls overlap, the loss counts as the preemption's.
    ``stalled_node_s``: of ``node_s``, in stalls or on nodes that start. ``saved`` are the samples
    of the last checkpoint.
    """

    trainer: Trainer
    cost_model: CostModel
    since_s: float
    stops_after_s: float = math.inf
    checkpoint_s: float | None = None
    rigid: bool = False
    samples: float = 0.0
    saved: float = 0.0
    held: Nodes = frozenset()
    nodes: int = 0
    slow_rate: float = 0.0
    trains_since_s: float = -math.inf
    stalled_until_s: float = -math.inf
    switch_s: float = -math.inf
    ready_s: float = -math.inf
    preempted_until_s: float = -math.inf
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
    waits_since_s: float | None = None
    waited_s: float = 0.0
    total: float = field(init=False)
    rate: float = field(init=False)
    steady_s: float = field(init=False)
    finishes_s: float = field(init=False)
    _rates: tuple[float, ...] = field(init=False)
    _costs: Trainer = field(init=False)
    _rescaling: Rescaling | None = None

    def __post_init__(self) -> None:
        self._rates = rates(self.trainer)
        self._costs = _stalls(self.trainer, self.cost_model)
        self.total = math.inf if self.trainer.samples_total is None else self.trainer.samples_total
        self._bend()

    def samples_at(self, at_s: float) -> float:
        """Return the samples done by ``at_s``, less those lost at once (``paper`` costs, killed
        jobs).
        """
        done = self.samples
        if at_s > self.steady_s:
            done += self.rate * (at_s - self.steady_s)
        if self.slow_rate:
            done += self.slow_rate * max(
                min(at_s, self.switch_s) - max(self.since_s, self.stalled_until_s), 0.0
            )
        return done

    def _bend(self) -> None:
        """Compute the values that hold until the next change of nodes, samples or stalls (``rate``,
        ``steady_s``, ``finishes_s``).

        Every such change ends with this call.
        """
        self.rate = self._rates[self.nodes]
        self.steady_s = max(self.since_s, self.ready_s)
        self.finishes_s = self._finishes_at()

    def _finishes_at(self) -> float:
        """Return when the trainer reaches its samples or ends by itself, if nothing changes;
        infinity if never.
        """
        stops_s = math.inf if self.started_s is None else self.started_s + self.stops_after_s
        if self.rate <= 0 or self.total == math.inf:
            return stops_s
        left = max(self.total - self.samples, 0.0)
        if self.slow_rate:
            begin_s = max(self.since_s, self.stalled_until_s)
            slowly = self.slow_rate * max(self.switch_s - begin_s, 0.0)
            if left <= slowly:
                return min(stops_s, begin_s + left / self.slow_rate)
            left -= slowly
        return min(stops_s, self.steady_s + left / self.rate)

    def settle(self, at_s: float) -> None:
        """Credit the samples done up to ``at_s``, and count those lost to stalls; the line then
        begins at ``at_s``.
        """
        samples = self.samples_at(at_s)
        preempted = max(min(at_s, self.preempted_until_s) - self.since_s, 0.0)
        slow = max(min(at_s, self.switch_s) - max(self.since_s, self.stalled_until_s), 0.0)
        stalled = max(min(at_s, self.ready_s) - self.since_s, 0.0) - slow
        self.lost_to_preemption += self.rate * preempted
        self.lost_to_rescale += (
            self.rate * max(stalled - preempted, 0.0) + (self.rate - self.slow_rate) * slow
        )
        self.node_s += self.nodes * (at_s - self.since_s)
        self.stalled_node_s += self.nodes * stalled + len(self._starting()) * slow
        if self.checkpoint_s is not None and self.rate > 0:
            behind_s = (at_s - self.trains_since_s) % self.checkpoint_s
            if at_s - behind_s > self.since_s:
                self.saved = self.samples_at(at_s - behind_s)
        self.samples, self.since_s = samples, at_s
        self._bend()

    def lose_nodes(self, left: Nodes, at_s: float) -> None:
        """Take the nodes ``left`` from the trainer, as the scheduler does in a preemption, and
        charge its cost.
        """
        self.settle(at_s)
        self.preemptions += 1
        kept = self.held - left
        if self.cost_model is CostModel.PAPER and not self.rigid:
            self._preempted(self.rate * self.trainer.scale_down_s)
        if self.checkpoint_s is not None and (self.rigid or len(kept) < self.trainer.min_nodes):
            self._preempted(self.samples - self.saved)
        if (
            self.cost_model is not CostModel.PAPER
            and not self.rigid
            and not self._starting().issuperset(left)
        ):
            self.preempted_until_s = max(self.preempted_until_s, at_s + self._costs.scale_down_s)
        self._move(kept, at_s, stalls=not self.rigid)
        if not self.nodes:
            self.waits_since_s = at_s

    def rescale(self, after: Nodes, at_s: float) -> None:
        """Move the trainer to the nodes ``after`` by a planned rescale, and charge its cost."""
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
        starts = self.rigid or self.rate == 0 or not after
        self._move(after, at_s)
        self.waits_since_s = None if after else at_s
        if starts:
            self.saved, self.trains_since_s = self.samples, max(at_s, self.ready_s)

    def finish(self, at_s: float) -> None:
        """End the trainer, which has reached its samples (the excess is discarded) or ended by
        itself; its nodes are free.
        """
        self.settle(at_s)
        self.stopped = self.started_s is not None and at_s >= self.started_s + self.stops_after_s
        if self.trainer.samples_total is not None:
            self.samples = min(self.samples, self.total) if self.stopped else self.total
        self.finished_s = at_s
        self.held, self.nodes = frozenset(), 0
        self._bend()

    def longest_wait_s(self, at_s: float) -> float:
        """The longest time at 0 nodes between admission and ``at_s``, or its end."""
        since_s = self.admitted_s if self.started_s is None else self.waits_since_s
        if self.nodes or self.finished_s is not None or since_s is None:
            return self.waited_s
        return max(self.waited_s, at_s - since_s)

    def _preempted(self, lump: float) -> None:
        """Count samples as lost to a preemption."""
        self.samples -= lump
        self.lost_to_preemption += lump

    def _starting(self) -> Nodes:
        """Return the nodes of the trainer that do not train yet."""
        pending = self._rescaling
        if pending is None or pending.switch_s is None:
            return frozenset()
        return self.held - pending.training

    def _move(self, after: Nodes, at_s: float, *, stalls: bool = True) -> None:
        """Set the trainer's nodes to ``after`` and compute the stall that follows.

        No stall follows under ``paper`` costs, which are lumps of samples, or without ``stalls``: a
        rigid job that loses nodes is killed.
        """
        if stalls and self.cost_model is not CostModel.PAPER:
            rescaling = rescaled(self._costs, self._rescaling, self.held, after, at_s)
            switch_s = rescaling.switch_s
            self.stalled_until_s, self.ready_s = rescaling.stalled_until_s, rescaling.ready_s
            self.switch_s = -math.inf if switch_s is None else switch_s
            self.slow_rate = 0.0 if switch_s is None else self._rates[len(rescaling.training)]
            self._rescaling = rescaling
        self.held, self.nodes = after, len(after)
        self._bend()


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
    begun_s: float = 0.0
    """The sum of the times in ``working``."""

    def samples_at(self, at_s: float) -> float:
        while self.starting and self.starting[0][0] <= at_s:
            ready_s, node = self.starting.popleft()
            self.working[node] = ready_s
            self.begun_s += ready_s
        return self.samples + self._rates[1] * (len(self.working) * at_s - self.begun_s)

    def settle(self, at_s: float) -> None:
        self.node_s += self.nodes * (at_s - self.since_s)
        self.since_s = at_s

    def lose_nodes(self, left: Nodes, at_s: float) -> None:
        self.settle(at_s)
        self.preemptions += 1
        self._become(self.held - left, at_s)

    def rescale(self, after: Nodes, at_s: float) -> None:
        self.settle(at_s)
        self.rescales += 1
        if self.started_s is None:
            self.started_s = at_s
        self._become(after, at_s)

    def _become(self, after: Nodes, at_s: float) -> None:
        """Set the pool's nodes to ``after``: those that leave stop working, and new ones start."""
        self.samples_at(at_s)  # moves the nodes that have started to those that work
        left = self.held - after
        for node in left:
            if (since_s := self.working.pop(node, None)) is not None:
                self.samples += self._rates[1] * (at_s - since_s)
                self.begun_s -= since_s
        if left:
            self.starting = deque(start for start in self.starting if start[1] not in left)
        self.starting.extend(
            (at_s + self.trainer.growth_s, node) for node in sorted(after - self.held)
        )
        self.held, self.nodes = after, len(after)


def _stalls(trainer: Trainer, model: CostModel) -> Trainer:
    """Return the trainer with its costs as the model charges them as stalls; ``delay`` has a start
    only.
    """
    charged = model.costs_of(trainer)
    if model is CostModel.DELAY:
        return replace(charged, start_s=charged.scale_up_s, scale_up_s=0.0, scale_down_s=0.0)
    return charged
