"""The policy of BFTrainer: the optimum of Eqn 16 at every event (paper section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from bftrainer.allocation.objectives import Objective
from bftrainer.allocation.two_costs import with_two_costs
from bftrainer.allocation.window_ends import lasts_s
from bftrainer.domain.events import Event
from bftrainer.domain.model import Curve, Trainer
from bftrainer.domain.needs import Need
from bftrainer.domain.ports import Allocator, Policy
from bftrainer.domain.problem import Problem, TrainerDemand
from bftrainer.domain.state import Active, Decision, State
from bftrainer.policies.settings import PolicySettings

_MOST = 8192


@dataclass(frozen=True, slots=True)
class BFTrainer:
    """Maximize the outcome within ``forward_s`` seconds (T_fwd), less the cost of rescaling (Eqn 16)."""

    allocator: Allocator
    objective: Objective
    forward_s: float
    name: str = "bftrainer"

    @property
    def needs(self) -> frozenset[Need]:
        """Those of the objective."""
        return self.objective.needs

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Solve the allocation problem of this state. T_fwd ends no later than the last node's window. No memory."""
        demands = demands_of(state, self.objective, self.forward_s)
        forward_s = min(self.forward_s, lasts_s(state.pool, state.window_ends, state.at_s))
        answer = self.allocator.solve(Problem(len(state.pool), forward_s, demands))
        return Decision(answer.counts, answer=answer), None


def demands_of(state: State, objective: Objective, forward_s: float = math.inf) -> tuple[TrainerDemand, ...]:
    """The trainers in the allocation problem: O_j under the objective, their bounds and costs, and C_j (Eqn 1).

    ``forward_s`` is T_fwd, a limit on the costs of trainers whose old nodes train on while new ones start.
    """
    values = objective.of(state)
    demands = [
        _LAST.demand(active.trainer, value, len(active.nodes))
        if active.trainer.start_s is None
        else _later_demand(active, value, state.at_s, forward_s)
        for active, value in zip(state.active, values, strict=True)
    ]
    return tuple(demands)


def _later_demand(active: Active, value: Curve, at_s: float, forward_s: float) -> TrainerDemand:
    """The demand of a trainer whose old nodes train on while new ones start."""
    trainer, nodes = active.trainer, len(active.nodes)
    if active.rescaling is None:
        return _settled(trainer, value, nodes, forward_s)
    return with_two_costs(_demand(trainer, value, nodes), trainer.starts_s(nodes), active.rescaling, at_s, forward_s)


@lru_cache(maxsize=_MOST)
def _settled(trainer: Trainer, value: Curve, nodes: int, forward_s: float) -> TrainerDemand:
    return with_two_costs(_demand(trainer, value, nodes), trainer.starts_s(nodes), None, 0.0, forward_s)


@lru_cache(maxsize=_MOST)
def _demand(trainer: Trainer, value: Curve, current: int) -> TrainerDemand:
    sizes = trainer.sizes
    return TrainerDemand(
        id=trainer.id,
        value=value,
        min_nodes=trainer.min_nodes,
        max_nodes=trainer.max_nodes,
        scale_up_s=trainer.scale_up_s,
        scale_down_s=trainer.scale_down_s,
        current=current,
        sizes=sizes if sizes is None or sizes[0] == 0 else (0, *sizes),
    )


class _Last:
    """A memo of the last demand of every trainer: at most events, most have the same curve and nodes as before. What it returns
    depends on its arguments only.
    """

    def __init__(self) -> None:
        self._demands: dict[str, tuple[Trainer, TrainerDemand]] = {}

    def demand(self, trainer: Trainer, value: Curve, current: int) -> TrainerDemand:
        known = self._demands.get(trainer.id)
        if known is not None and known[0] is trainer:
            demand = known[1]
            if demand.value is value and demand.current == current:
                return demand
        demand = _demand(trainer, value, current)
        if len(self._demands) >= _MOST:
            self._demands.clear()
        self._demands[trainer.id] = trainer, demand
        return demand


_LAST = _Last()


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    return BFTrainer(settings.allocator, settings.objective, settings.forward_s)
