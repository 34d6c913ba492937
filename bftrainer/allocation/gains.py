"""The gain of every count: T_fwd * O_j(n) - O_j(C_j) * R_j(n), the summand of Eqn 16 with R_j of Eqn 13.

Eqn 16 writes f_j for the value of a trainer. It is the O_j of sections 3.1 and 3.4.1, under the chosen objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bftrainer.domain.model import Curve
from bftrainer.domain.problem import Problem, TrainerDemand

Table = npt.NDArray[np.float64]


def gains(problem: Problem) -> Table:
    """Gains of all demands at 0 .. max(max_nodes) nodes, shape (J, N^max + 1); -inf where a count is not legal (Eqn 3).

    Cost: O(J * N^max) in a few numpy calls; values are tabulated once per curve.
    """
    demands = problem.demands
    width = 1 + max((c.max_nodes for c in demands), default=0)
    values = np.empty((len(demands), width))
    for row, demand in zip(values, demands, strict=True):
        row[:] = _legal_values(demand.value, demand.min_nodes, demand.max_nodes, demand.sizes, width)
    standing = np.array([c.standing for c in demands], dtype=np.int64)
    if demands:
        running = _values_at(values, demands, standing)
        up = running * np.array([c.scale_up_s for c in demands])
        down = running * np.array([c.scale_down_s for c in demands])
        np.multiply(values, problem.forward_s, out=values, where=values > -np.inf)
        n = np.arange(width)
        values -= np.where(n > standing[:, None], up[:, None], 0.0)
        values -= np.where(n < standing[:, None], down[:, None], 0.0)
    return values


def objective_value(problem: Problem, counts: Sequence[int]) -> float:
    """Eqn 16 for integer counts; -inf if a count is not legal."""
    return sum(gain(demand, n, problem.forward_s) for demand, n in zip(problem.demands, counts, strict=True))


def gain(demand: TrainerDemand, n: int, forward_s: float) -> float:
    """The summand of Eqn 16 for one demand at ``n`` nodes; -inf if ``n`` is not legal."""
    if not demand.is_legal(n):
        return -np.inf
    return forward_s * demand.value.at(n) - rescale_cost(demand, n)


def rescale_cost(demand: TrainerDemand, n: int) -> float:
    """O_j(C_j) * R_j, the cost of a rescale from the standing count to ``n`` (Eqns 13, 16)."""
    standing = demand.standing
    if n == standing:
        return 0.0
    return demand.value.at(standing) * (demand.scale_up_s if n > standing else demand.scale_down_s)


def _values_at(values: Table, demands: Sequence[TrainerDemand], standing: npt.NDArray[np.int64]) -> Table:
    """O_j(C_j). For a standing count that is not legal (not in ``sizes``), the value comes from the curve."""
    running: Table = values[np.arange(len(demands)), standing]
    for j in np.flatnonzero(np.isneginf(running)).tolist():
        running[j] = demands[j].value.at(int(standing[j]))
    return running


@lru_cache(maxsize=16384)
def _legal_values(curve: Curve, min_nodes: int, max_nodes: int, sizes: tuple[int, ...] | None, width: int) -> Table:
    row = np.full(width, -np.inf)
    legal = np.array(sizes if sizes is not None else (0, *range(min_nodes, max_nodes + 1)))
    row[legal] = np.interp(legal, (0, *curve.nodes), (0.0, *curve.per_s))
    row.flags.writeable = False
    return row
