"""The effect of another count for one trainer: the optimum with that count forced, against the
counts found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.gains import gain, objective_value
from bftrainer.decide.domain.problem import Problem, TrainerDemand
from bftrainer.errors import NoFeasibleCountsError


@dataclass(frozen=True, slots=True)
class Shift:
    """How one trainer fares in the forced optimum: its counts before and after, and the change of
    its gain.

    The gain is the summand of Eqn 16.
    """

    id: str
    before: int
    after: int
    gain: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The optimum with one trainer forced to ``count`` nodes, compared with the decision.

    ``change`` is the change of the objective, negative where it is worse. ``own`` is the part of
    the trainer itself; ``others`` are the trainers whose counts change.
    """

    count: int
    change: float
    own: float
    others: tuple[Shift, ...]


def force(problem: Problem, j: int, count: int) -> Problem:
    """Return the problem with demand ``j`` allowed ``count`` nodes and nothing else (``sizes``)."""
    demands = list(problem.demands)
    demands[j] = replace(demands[j], sizes=(count,))
    return replace(problem, demands=tuple(demands))


def what_if(problem: Problem, counts: Sequence[int], j: int, count: int) -> WhatIf | None:
    """Compare the best allocation in which demand ``j`` has exactly ``count`` nodes with the given
    ``counts``.

    ``counts`` are those of the decision, one per demand. None if the pool is too small for
    ``count`` and the smallest sizes of the others. Cost: one solve by ``exact``.
    """
    try:
        best = Exact().solve(force(problem, j, count))
    except NoFeasibleCountsError:
        return None
    # Weighted, so that the changes of single trainers add up to the change of the objective.
    weighted = [problem.weighted(i) for i in range(len(counts))]
    own_gain = 0.0
    others: list[Shift] = []
    for i, (demand, old, new) in enumerate(zip(weighted, counts, best.counts, strict=True)):
        if old == new:
            continue
        change = gain(demand, new, problem.forward_s) - gain(demand, old, problem.forward_s)
        if i == j:
            own_gain = change
        else:
            others.append(Shift(demand.id, old, new, change))
    total_change = best.objective_value - objective_value(problem, counts)
    return WhatIf(count, total_change, own_gain, tuple(others))


def next_sizes(demand: TrainerDemand, count: int) -> tuple[int | None, int | None]:
    """Return the next legal sizes below and above ``count``; None where there is none."""
    sizes = demand.sizes or (0, *range(demand.min_nodes, demand.max_nodes + 1))
    legal_sizes = [n for n in sizes if demand.is_legal(n)]
    below = max((n for n in legal_sizes if n < count), default=None)
    above = min((n for n in legal_sizes if n > count), default=None)
    return below, above
