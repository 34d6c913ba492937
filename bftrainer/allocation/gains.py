"""The gain of every count: T_fwd * O_j(n) - O_j(C_j) * R_j(n), the summand of Eqn 16 with R_j of Eqn 13."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bftrainer.domain.model import Curve
from bftrainer.domain.problem import Problem, TrainerDemand

Table = npt.NDArray[np.float64]


def gains(problem: Problem) -> Table:
    """Gains of all claims at 0 .. max(max_nodes) nodes, shape (J, N^max + 1); -inf where a count is not legal.

    Cost: O(J * N^max), a handful of numpy calls; the curves' tables are made once per curve.
    """
    claims = problem.claims
    width = 1 + max((c.max_nodes for c in claims), default=0)
    values = np.empty((len(claims), width))
    for row, claim in zip(values, claims, strict=True):
        row[:] = _legal_values(claim.value, claim.min_nodes, claim.max_nodes, claim.sizes, width)
    standing = np.array([c.standing for c in claims], dtype=np.int64)
    if claims:
        running = _values_at(values, claims, standing)
        up = running * np.array([c.scale_up_s for c in claims])
        down = running * np.array([c.scale_down_s for c in claims])
        np.multiply(values, problem.forward_s, out=values, where=values > -np.inf)
        n = np.arange(width)
        values -= np.where(n > standing[:, None], up[:, None], 0.0)
        values -= np.where(n < standing[:, None], down[:, None], 0.0)
    return values


def objective_value(problem: Problem, counts: Sequence[int]) -> float:
    """Eqn 16 for integer counts, whoever proposed them; -inf if a count is not legal."""
    return sum(gain(claim, n, problem.forward_s) for claim, n in zip(problem.claims, counts, strict=True))


def gain(claim: TrainerDemand, n: int, forward_s: float) -> float:
    """One summand of Eqn 16, the slow and plain way."""
    if not claim.is_legal(n):
        return -np.inf
    return forward_s * claim.value.at(n) - rescale_cost(claim, n)


def rescale_cost(claim: TrainerDemand, n: int) -> float:
    """O_j(C_j) * R_j: what going from the standing count to ``n`` costs (Eqns 13, 14)."""
    standing = claim.standing
    if n == standing:
        return 0.0
    return claim.value.at(standing) * (claim.scale_up_s if n > standing else claim.scale_down_s)


def _values_at(values: Table, claims: Sequence[TrainerDemand], standing: npt.NDArray[np.int64]) -> Table:
    """O_j(C_j). A standing count may be illegal now (not in ``sizes``): its value then comes from the curve."""
    running: Table = values[np.arange(len(claims)), standing]
    for j in np.flatnonzero(np.isneginf(running)).tolist():
        running[j] = claims[j].value.at(int(standing[j]))
    return running


@lru_cache(maxsize=16384)
def _legal_values(curve: Curve, min_nodes: int, max_nodes: int, sizes: tuple[int, ...] | None, width: int) -> Table:
    row = np.full(width, -np.inf)
    legal = np.array(sizes if sizes is not None else (0, *range(min_nodes, max_nodes + 1)))
    row[legal] = np.interp(legal, (0, *curve.nodes), (0.0, *curve.per_s))
    row.flags.writeable = False
    return row
