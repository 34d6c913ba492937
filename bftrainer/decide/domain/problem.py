"""The allocation problem of one event (paper section 3), in counts: one integer N_j per trainer.

Nodes of one pool are interchangeable, so N_j (Eqn 2) replaces the x_jn of the paper. Eqn 5 becomes
one sum, and Eqns 6 to 10, which forbid migration, are left to
:mod:`~bftrainer.decide.allocation.placement`, which chooses the nodes afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from bftrainer.counted import counted
from bftrainer.decide.domain.model import Curve, check_covers, check_not_negative, check_sizes
from bftrainer.errors import InvalidValueError, Reason


@dataclass(frozen=True, slots=True)
class PendingStart:
    """A start that is not over: some nodes train on until the switch to all nodes.

    B_j nodes (``training``) train for ``ahead_s`` more seconds (b_j) before it. ``switch_s`` is the
    stall that they are spared without the switch, W_j^up or less. If the trainer grows, they train
    for ``longer_s`` more seconds before the switch (g_j). See
    :mod:`~bftrainer.decide.allocation.two_costs`.
    """

    training: int
    ahead_s: float
    switch_s: float
    longer_s: float

    def __post_init__(self) -> None:
        """Raise :class:`InvalidValueError` for a negative number."""
        check_not_negative(
            training=self.training,
            ahead_s=self.ahead_s,
            switch_s=self.switch_s,
            longer_s=self.longer_s,
        )


@dataclass(frozen=True, slots=True)
class TrainerDemand:
    """One trainer in the problem.

    ``value`` is O_j in the unit of the objective per second; ``current`` is C_j (Eqn 1), the nodes
    it holds now. ``sizes`` lists the legal counts (0 only if listed); without it they are 0 and
    min_nodes .. max_nodes (Eqn 3).

    If old nodes train on while new ones start (:mod:`~bftrainer.decide.allocation.two_costs`), the
    trainer stalls for ``stalled_s`` more seconds (s_j) under any decision, and the gain of growth
    comes ``ramp_s`` later (a_j); ``scale_up_s`` and ``scale_down_s`` are then w_j and d_j. Both 0:
    Eqn 16.
    """

    id: str
    value: Curve
    min_nodes: int
    max_nodes: int
    scale_up_s: float
    scale_down_s: float
    current: int = 0
    sizes: tuple[int, ...] | None = None
    stalled_s: float = 0.0
    ramp_s: float = 0.0
    pending: PendingStart | None = None

    def __post_init__(self) -> None:
        """Raise :class:`InvalidValueError` for bounds, costs or a present count out of range."""
        check_sizes(self.min_nodes, self.max_nodes, self.sizes)
        check_covers(self.value, self.min_nodes, self.max_nodes)
        check_not_negative(
            scale_up_s=self.scale_up_s,
            scale_down_s=self.scale_down_s,
            stalled_s=self.stalled_s,
            ramp_s=self.ramp_s,
        )
        if not 0 <= self.current <= self.max_nodes:
            raise InvalidValueError(
                f"holds {counted(self.current, 'node')}, expected 0 to max_nodes {self.max_nodes}"
            )

    def __hash__(self) -> int:
        """Hash few fields, for speed: a demand is looked up at every event, and two that differ
        nearly always have another trainer, curve or C_j.
        """
        return hash((self.id, self.value, self.current))

    def is_legal(self, n: int) -> bool:
        """Whether ``n`` nodes is a legal size (Eqn 3)."""
        if self.sizes is not None:
            return n in self.sizes
        return n == 0 or self.min_nodes <= n <= self.max_nodes

    @property
    def has_two_costs(self) -> bool:
        """Whether the gain differs from Eqn 16."""
        return bool(self.stalled_s or self.ramp_s) or self.pending is not None

    @property
    def standing(self) -> int:
        """C_j (Eqn 1), or 0 for a trainer that a preemption left below its minimum: it cannot
        run.
        """
        return self.current if self.current >= self.min_nodes else 0


@dataclass(frozen=True, slots=True)
class Problem:
    """The allocation problem: how to divide ``pool_size`` nodes, looking ``forward_s`` seconds
    (T_fwd) ahead.

    ``demands`` are in trainer order. ``weights``, one per demand, multiply the demands' summands of
    Eqn 16; without them, all are 1.
    """

    pool_size: int
    forward_s: float
    demands: tuple[TrainerDemand, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Raise :class:`InvalidValueError` for a pool, weights or held nodes that do not fit
        together.
        """
        if self.pool_size < 0:
            raise InvalidValueError(f"the pool's size must not be negative, got {self.pool_size}")
        check_not_negative(forward_s=self.forward_s)
        held = sum(demand.current for demand in self.demands)
        if held > self.pool_size:
            raise InvalidValueError(
                f"the trainers hold {counted(held, 'node')}, more than the pool's {self.pool_size}"
            )

        if self.weights and len(self.weights) != len(self.demands):
            raise InvalidValueError(
                f"{counted(len(self.weights), 'weight')} for "
                f"{counted(len(self.demands), 'trainer')}"
            )
        if self.weights and not (min(self.weights) > 0 and max(self.weights) < math.inf):
            raise InvalidValueError("a trainer's weight must be finite and above 0")

    def weighted(self, j: int) -> TrainerDemand:
        """Return demand ``j`` with its weight multiplied into its value curve, which gives the same
        summand of Eqn 16 without a weight.
        """
        demand = self.demands[j]
        if not self.weights or self.weights[j] == 1.0:
            return demand
        weight = self.weights[j]
        per_s = tuple([weight * per_s for per_s in demand.value.per_s])
        value = Curve(demand.value.nodes, per_s)
        return replace(demand, value=value)

    def __hash__(self) -> int:
        """Hash the pool and C_j only, for speed: a problem is looked up at every event, and two
        that differ nearly always differ in these.
        """
        return hash((self.pool_size, self.forward_s, *[demand.current for demand in self.demands]))


class Status(Enum):
    """How a solver ended. The reasons of fallbacks are separate (:class:`Fallback`).

    ``KEPT``: no solver answered; the counts are the current map (paper 3.6).
    """

    OPTIMAL = "optimal"
    TIME_LIMIT = "time limit"
    KEPT = "current map kept"


@dataclass(frozen=True, slots=True)
class Fallback:
    """A solver of the chain without a proven optimum, and the reason."""

    solver: str
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Counts N_j (Eqn 2) in the order of the demands, and how they were found.

    ``objective_value`` is Eqn 16 recomputed from the integer counts. ``gap`` is (bound - value) /
    max(|value|, 1e-9).
    """

    counts: tuple[int, ...]
    objective_value: float
    solver: str
    status: Status
    gap: float = 0.0
    fallbacks: tuple[Fallback, ...] = ()
