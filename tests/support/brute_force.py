"""Every vector of legal counts, one by one: slow, and with a reading of Eqns 3, 5, 13 and 16 of its
own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from bftrainer.decide.domain.problem import Problem, TrainerDemand


def sizes(demand: TrainerDemand, pool_size: int) -> list[int]:
    legal = (
        demand.sizes
        if demand.sizes is not None
        else (0, *range(demand.min_nodes, demand.max_nodes + 1))
    )
    return [n for n in legal if n <= pool_size]


def combinations(problem: Problem) -> int:
    return math.prod(len(sizes(c, problem.pool_size)) for c in problem.demands)


def worth(demand: TrainerDemand, n: int, forward_s: float) -> float:
    def rate(k: int) -> float:
        return float(np.interp(k, (0, *demand.value.nodes), (0.0, *demand.value.per_s)))

    held = demand.current if demand.current >= demand.min_nodes else 0
    left_s = max(forward_s - demand.stalled_s, 0.0)
    later = demand.ramp_s * max(rate(n) - rate(held), 0.0)
    if demand.pending is None:
        if demand.has_two_costs and n < held:  # those that are left stall
            return (left_s - demand.scale_down_s) * rate(n) - later
        seconds = demand.scale_up_s if n > held else demand.scale_down_s if n < held else 0.0
        return left_s * rate(n) - later - rate(held) * seconds
    old = rate(demand.pending.training)
    switch_s, ahead_s = demand.pending.switch_s, demand.pending.ahead_s
    if n > held:  # all nodes wait for the later switch
        return left_s * rate(n) - later - demand.ramp_s * rate(held) + demand.pending.longer_s * old
    if n > demand.pending.training:
        return left_s * rate(n) - later
    if n == demand.pending.training:
        return (left_s + switch_s) * rate(n) - later
    # No switch, and no time before it in which the old nodes train: those that are left stall, then
    # train.
    return (left_s + switch_s + ahead_s - demand.scale_down_s) * rate(n) - later - ahead_s * old


def values(problem: Problem) -> Iterator[float]:
    options = [
        [(n, worth(c, n, problem.forward_s)) for n in sizes(c, problem.pool_size)]
        for c in map(problem.weighted, range(len(problem.demands)))
    ]
    for choice in product(*options):
        if sum(n for n, _ in choice) <= problem.pool_size:
            yield sum(v for _, v in choice)


def optimum(problem: Problem) -> float | None:
    """The best objective, None where nothing is feasible."""
    return max(values(problem), default=None)
