"""The policy of BFTrainer: the optimum of Eqn 16 at every event (paper section 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from bftrainer.decide.allocation.objectives import Objective
from bftrainer.decide.allocation.two_costs import stretched, with_two_costs
from bftrainer.decide.allocation.window_ends import lifetime_s
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.needs import Need
from bftrainer.decide.domain.ports import Allocator, Policy
from bftrainer.decide.domain.problem import Problem, TrainerDemand
from bftrainer.decide.domain.state import Active, Decision, State
from bftrainer.decide.policies.line import RankCache, one_node_s, priority_order
from bftrainer.decide.policies.settings import PolicySettings

PAYS_WITHIN = 0.25
"""A rescale has to pay off within this fraction of the trainer's remaining time on one node, if
that is shorter than T_fwd.
"""
_CACHE_SIZE = 8192


@dataclass(frozen=True, slots=True)
class BFTrainer:
    """Maximize the outcome within ``forward_s`` seconds (T_fwd), less the cost of rescaling (Eqn
    16).
    """

    allocator: Allocator
    objective: Objective
    forward_s: float
    name: str = "bftrainer"
    _demand_cache: DemandCache = field(
        default_factory=lambda: DemandCache(), compare=False, repr=False
    )
    _rank_cache: RankCache = field(default_factory=RankCache, compare=False, repr=False)

    @property
    def needs(self) -> frozenset[Need]:
        """The facts that the objective needs."""
        return self.objective.needs

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Return the optimal counts of this state (Eqn 16), and the memory for the next event.

        T_fwd, the time that is looked ahead, ends no later than the last node's backfill window.
        The memory is M, the most unfinished trainers at once, if the objective has a priority order
        (:mod:`~bftrainer.decide.policies.line`), else None.
        """
        forward_s = min(self.forward_s, lifetime_s(state.pool, state.window_ends, state.at_s))
        # These objectives also decide how many trainers train, by a priority order.
        if self.objective.kappa is not None:
            return self._decide_by_priority(state, self.objective.kappa, forward_s)
        demands = demands_of(state, self.objective, self.forward_s, self._demand_cache)
        answer = self.allocator.solve(Problem(len(state.pool), forward_s, demands))
        return Decision(answer.counts, answer=answer), None

    def _decide_by_priority(
        self, state: State, kappa: float, forward_s: float
    ) -> tuple[Decision, object]:
        """Return the counts that are optimal with weights by priority order
        (:mod:`~bftrainer.decide.policies.line`), and the memory.

        A trainer weighs as much as trainers wait for it. The problem has only the trainers that can
        be chosen; all others get nothing. ``kappa`` is that of the objective, ``forward_s`` T_fwd
        until the last window ends at most. The memory is M, the most unfinished trainers since
        there was last none.
        """
        peak = len(state.active) + len(state.queue)
        if peak and isinstance(state.memory, int):  # else M starts again at 0
            peak = max(peak, state.memory)
        order = priority_order(
            state.active,
            len(state.queue),
            len(state.pool),
            kappa,
            peak,
            self._rank_cache,
            state.at_s,
            forward_s,
        )
        candidates = [state.active[j] for j in order.members]
        values = [self.objective.value(candidate.trainer, None) for candidate in candidates]
        full_demands = _trainer_demands(
            candidates, values, state.at_s, self.forward_s, self._demand_cache
        )
        demands = [
            _within_remaining_time(active, demand, state.at_s, forward_s)
            for active, demand in zip(candidates, full_demands, strict=True)
        ]
        if order.guaranteed is not None:
            position = order.members.index(order.guaranteed)
            demands[position] = _without_zero(demands[position], len(state.pool))
        answer = self.allocator.solve(
            Problem(len(state.pool), forward_s, tuple(demands), order.weights)
        )
        counts = [0] * len(state.active)
        for j, n in zip(order.members, answer.counts, strict=True):
            counts[j] = n
        return Decision(tuple(counts), order.until_s, answer), peak


def _within_remaining_time(
    active: Active, demand: TrainerDemand, at_s: float, forward_s: float
) -> TrainerDemand:
    """Return the demand, with higher costs if the trainer is done within T_fwd: a rescale gains
    nothing after the trainer's end.

    ``demand`` is that of ``active`` at ``at_s``, and ``forward_s`` is T_fwd. The costs are
    multiplied such that a rescale pays off within ``PAYS_WITHIN`` of the remaining time on one
    node. A trainer of unknown length keeps its costs.
    """
    left_s = one_node_s(active)
    if left_s is None:
        return demand
    # At least a second: costs are multiplied by T_fwd over this.
    within_s = max(PAYS_WITHIN * left_s, 1.0)
    if within_s >= forward_s:
        return demand
    if active.trainer.start_s is not None:  # these costs depend on how far ahead they are seen
        demand = _two_cost_demand(active, demand.value, at_s, within_s)
    return stretched(demand, forward_s / within_s)


@lru_cache(maxsize=_CACHE_SIZE)
def _without_zero(demand: TrainerDemand, pool_size: int) -> TrainerDemand:
    """Return the demand of a trainer that must train: without the size 0, and with no size above
    both ``pool_size`` and C_j, its present nodes.

    The sizes must not be empty, so C_j stays among them even in a pool that has become too small.
    """
    sizes = demand.sizes or range(demand.min_nodes, demand.max_nodes + 1)
    return replace(
        demand, sizes=tuple([n for n in sizes if 0 < n <= max(pool_size, demand.current)])
    )


def demands_of(
    state: State,
    objective: Objective,
    forward_s: float = math.inf,
    cache: DemandCache | None = None,
) -> tuple[TrainerDemand, ...]:
    """Return the admitted trainers as demands of the allocation problem: O_j under the objective,
    their bounds and costs, and C_j (Eqn 1), the nodes that they have.

    ``forward_s`` is T_fwd, which limits the costs of trainers whose old nodes train on while new
    ones start. ``cache`` keeps demands from one event to the next.
    """
    return tuple(
        _trainer_demands(
            state.active, objective.of(state), state.at_s, forward_s, cache or DemandCache()
        )
    )


def _trainer_demands(
    actives: Sequence[Active],
    values: Sequence[Curve],
    at_s: float,
    forward_s: float,
    cache: DemandCache,
) -> list[TrainerDemand]:
    """Return the demands of trainers with these value curves at ``at_s``, in their order, from the
    cache where they have not changed.
    """
    demands = []
    for active, value in zip(actives, values, strict=True):
        # Only trainers whose old nodes train on while new ones start have costs that depend on
        # time.
        if active.trainer.start_s is None:
            demand = cache.demand(active.trainer, value, len(active.nodes))
        else:
            demand = _two_cost_demand(active, value, at_s, forward_s)
        demands.append(demand)
    return demands


def _two_cost_demand(active: Active, value: Curve, at_s: float, forward_s: float) -> TrainerDemand:
    """Return the demand, at ``at_s``, of a trainer whose old nodes train on while new ones start.

    ``value`` is its value curve, ``forward_s`` T_fwd. A rescale that is under way changes its costs
    with time, so that the demand cannot be cached.
    """
    trainer, nodes = active.trainer, len(active.nodes)
    if active.rescaling is None:
        return _settled_demand(trainer, value, nodes, forward_s)
    return with_two_costs(
        _trainer_demand(trainer, value, nodes),
        trainer.starts_s(nodes),
        active.rescaling,
        at_s,
        forward_s,
    )


@lru_cache(maxsize=_CACHE_SIZE)
def _settled_demand(trainer: Trainer, value: Curve, nodes: int, forward_s: float) -> TrainerDemand:
    """Build the demand of a trainer whose old nodes train on while new ones start, with no rescale
    under way: its costs do not depend on the time.
    """
    return with_two_costs(
        _trainer_demand(trainer, value, nodes), trainer.starts_s(nodes), None, 0.0, forward_s
    )


@lru_cache(maxsize=_CACHE_SIZE)
def _trainer_demand(trainer: Trainer, value: Curve, current: int) -> TrainerDemand:
    """Build the demand of a trainer with this value curve on ``current`` nodes, by Eqn 16."""
    return TrainerDemand(
        id=trainer.id,
        value=value,
        min_nodes=trainer.min_nodes,
        max_nodes=trainer.max_nodes,
        scale_up_s=trainer.scale_up_s,
        scale_down_s=trainer.scale_down_s,
        current=current,
        sizes=trainer.sizes_with_zero,
    )


class DemandCache:
    """Keeps the last demand of every trainer: from one event to the next, few have another curve or
    other nodes.

    The results depend on the arguments only.
    """

    def __init__(self) -> None:
        self._demands: dict[str, tuple[Trainer, TrainerDemand]] = {}

    def demand(self, trainer: Trainer, value: Curve, current: int) -> TrainerDemand:
        """Return the demand of a trainer with this value curve on ``current`` nodes, by Eqn 16; the
        same object as last time if nothing has changed.
        """
        cached = self._demands.get(trainer.id)
        # Identity spares hashing the curves; equal objects are still found in the lru_cache of
        # _trainer_demand.
        if cached is not None and cached[0] is trainer:
            demand = cached[1]
            if demand.value is value and demand.current == current:
                return demand
        demand = _trainer_demand(trainer, value, current)
        if len(self._demands) >= _CACHE_SIZE:
            self._demands.clear()
        self._demands[trainer.id] = trainer, demand
        return demand


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    return BFTrainer(settings.allocator, settings.objective, settings.forward_s)
