"""The gain of every count: T_fwd * O_j(n) - O_j(C_j) * R_j(n), the summand of Eqn 16 with R_j of
Eqn 13.

If old nodes train on while new ones start, it is (T_fwd - s_j) O_j(n) - a_j (O_j(n) - O_j(C_j))^+ -
w_j O_j(C_j) for growth and (T_fwd - s_j - d_j) O_j(n) for shrinking, with the costs of
:mod:`~bftrainer.decide.allocation.two_costs`.

Eqn 16 writes f_j for the value of a trainer. It is the O_j of sections 3.1 and 3.4.1, under the
chosen objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bftrainer.decide.domain.problem import Problem, TrainerDemand

GainTable = npt.NDArray[np.float64]


def gains(problem: Problem) -> GainTable:
    """Return the gains of all demands at 0 .. max(max_nodes) nodes, shape (J, N^max + 1).

    A gain is what a trainer contributes to the objective (the summand of Eqn 16) on that many
    nodes: its value within T_fwd less the cost of the rescale from its present count, times its
    weight. An entry is -inf where the count is not legal (Eqn 3). Cost: O(J * N^max) in a few numpy
    calls.
    """
    demands = problem.demands
    width = 1 + max((demand.max_nodes for demand in demands), default=0)
    if not demands:
        return np.empty((0, width))
    rows = [
        (
            demand.standing,
            demand.scale_up_s,
            demand.scale_down_s,
            demand.max_nodes,
            demand.min_nodes,
        )
        for demand in demands
    ]
    standing_floats, up_s, down_s, largest, smallest = np.array(rows).T
    values = _value_table(demands, width, largest, smallest)
    standing = standing_floats.astype(np.int64)
    standing_values = _values_at(values, demands, standing)
    up_cost, down_cost = standing_values * up_s, standing_values * down_s
    # The indices of the demands for which has_two_costs is true.
    two_costs = [
        j
        for j, demand in enumerate(demands)
        if demand.stalled_s or demand.ramp_s or demand.pending is not None
    ]
    two_cost_gains: GainTable | None = None
    if two_costs:
        two_cost_gains = _two_cost_gains(
            values[two_costs], [demands[j] for j in two_costs], problem.forward_s
        )
    if problem.forward_s:
        values *= problem.forward_s
    else:
        values[values > -np.inf] = 0.0  # 0 times -inf is no number
    all_rows = np.arange(len(demands))
    # The count that a trainer has costs no rescale: its entry is put back below.
    unchanged = values[all_rows, standing]
    values -= np.where(np.arange(width) > standing[:, None], up_cost[:, None], down_cost[:, None])
    values[all_rows, standing] = unchanged
    # These rows were computed with other costs than R_up and R_dw.
    if two_cost_gains is not None:
        values[two_costs] = two_cost_gains
    if problem.weights:
        values *= np.array(problem.weights)[:, None]
    return values


def objective_value(problem: Problem, counts: Sequence[int]) -> float:
    """Return the objective (Eqn 16) of integer counts, one per demand: the weighted sum of their
    gains; -inf if a count is not legal.
    """
    weights = problem.weights or (1.0,) * len(counts)
    # A trainer without nodes that gets none adds 0, unless its gain differs from Eqn 16 or 0 may
    # be illegal; most trainers of a long queue are skipped.
    return sum(
        [
            weight * gain(demand, n, problem.forward_s)
            for demand, n, weight in zip(problem.demands, counts, weights, strict=True)
            if n or demand.current or demand.has_two_costs or demand.sizes is not None
        ]
    )


def gain(demand: TrainerDemand, n: int, forward_s: float) -> float:
    """Return the summand of Eqn 16 for one demand at ``n`` nodes: its value within ``forward_s``
    seconds (T_fwd) less the cost of the rescale; -inf if ``n`` is not legal.
    """
    if not demand.is_legal(n):
        return -np.inf
    # A short cut for most trainers at most events: without a rescale there is no cost.
    if n == demand.current and not demand.has_two_costs:
        return forward_s * demand.value.at(n)
    return seconds(demand, forward_s) * demand.value.at(n) - rescale_cost(demand, n)


def seconds(demand: TrainerDemand, forward_s: float) -> float:
    """Return T_fwd - s_j: how long the trainer trains on its new count within T_fwd, without a
    further rescale.
    """
    return max(forward_s - demand.stalled_s, 0.0)


@dataclass(frozen=True, slots=True)
class CostTerms:
    """The cost of a rescale of one trainer, as terms from which :func:`rescale_cost` adds it up.

    ``up`` is the cost of growing above C_j, ``down`` that of shrinking below ``kept`` nodes, and
    ``ramp`` the cost for each unit of value above O_j(C_j). ``lost`` is the cost for each unit
    below O_j(``kept``) with fewer than ``kept`` nodes; it is negative where the stall counts for
    the nodes that are left. Without a pending start ``kept`` is C_j. With one it is B_j, and
    ``canceled`` is the gain of B_j nodes or fewer. The symbols are those of
    :mod:`~bftrainer.decide.allocation.two_costs`.
    """

    up: float
    down: float
    kept: int
    ramp: float = 0.0
    lost: float = 0.0
    canceled: float = 0.0


def costs_of(demand: TrainerDemand) -> CostTerms:
    """Return the cost terms of one demand, in the objective's unit: seconds of lost training times
    the value per second that is lost.

    Without a pending start (old nodes that train while new ones start) they are those of Eqns 13
    and 14 and, with two costs, of :mod:`~bftrainer.decide.allocation.two_costs`.
    """
    standing_value, pending = demand.value.at(demand.standing), demand.pending
    if pending is None:
        return CostTerms(
            up=standing_value * demand.scale_up_s,
            down=standing_value * demand.scale_down_s,
            kept=demand.standing,
            ramp=demand.ramp_s,
            # "down" charges the stall at the old size; with two costs the stall counts at the new
            # size, so the difference is credited for each unit of value that is given up.
            lost=-demand.scale_down_s if demand.has_two_costs else 0.0,
        )
    training_value = demand.value.at(pending.training)
    return CostTerms(
        up=demand.ramp_s * standing_value - pending.longer_s * training_value,
        down=training_value * demand.scale_down_s,
        kept=pending.training,
        ramp=demand.ramp_s,
        lost=pending.ahead_s + pending.switch_s - demand.scale_down_s,
        canceled=training_value * pending.switch_s,
    )


def rescale_cost(demand: TrainerDemand, n: int) -> float:
    """Return the cost of a rescale from the standing count C_j to ``n``: O_j(C_j) * R_j (Eqns 13,
    16).

    The standing count is the present number of nodes, or 0 where that is below the minimum. If old
    nodes train on while new ones start, the result is the cost of
    :mod:`~bftrainer.decide.allocation.two_costs` instead.
    """
    standing = demand.standing
    if n == standing and demand.pending is None:
        return 0.0
    cost = costs_of(demand)
    total = 0.0
    if n > standing:
        total = cost.up
    elif n < cost.kept:  # from kept to standing, only nodes that do not train yet are given up
        total = cost.down
    if not demand.has_two_costs:
        return total
    value = demand.value.at(n)
    # With the kept nodes or fewer, the pending switch and its stall do not take place.
    canceled = cost.canceled if n <= cost.kept else 0.0
    total += cost.ramp * max(value - demand.value.at(standing), 0.0) - canceled
    if n < cost.kept:
        total += cost.lost * (demand.value.at(cost.kept) - value)
    return total


def _two_cost_gains(
    values: GainTable, demands: Sequence[TrainerDemand], forward_s: float
) -> GainTable:
    """Return the :func:`gain` of every count at once, shape (J, width), for trainers whose old
    nodes train on while new ones start.

    ``values`` are O_j(n), one row per trainer; the costs are :class:`CostTerms`, added up as in
    :func:`rescale_cost`. ``forward_s`` is T_fwd.
    """
    costs = [costs_of(demand) for demand in demands]
    up, down, kept, ramp, lost, canceled = _array_columns(
        [(cost.up, cost.down, cost.kept, cost.ramp, cost.lost, cost.canceled) for cost in costs]
    )
    standing, left_s = _array_columns([(d.standing, seconds(d, forward_s)) for d in demands])
    standing_value, kept_value = _array_columns(
        [
            (demand.value.at(demand.standing), demand.value.at(cost.kept))
            for demand, cost in zip(demands, costs, strict=True)
        ]
    )
    legal, n = values > -np.inf, np.arange(values.shape[1])
    # 0 for now: -inf times a cost of 0 would not be a number.
    per_s = np.where(legal, values, 0.0)
    gained: GainTable = left_s * per_s - np.where(n > standing, up, 0.0)
    gained -= np.where(n < kept, down, 0.0)
    gained -= ramp * np.maximum(per_s - standing_value, 0.0)
    gained -= np.where(n < kept, lost * (kept_value - per_s), 0.0)
    gained += np.where(n <= kept, canceled, 0.0)
    gained[~legal] = -np.inf
    return gained


def _array_columns(rows: Sequence[tuple[float, ...]]) -> GainTable:
    """Return one array per position of the tuples in ``rows``, each a column with one row per
    trainer.
    """
    return np.array(rows, dtype=np.float64).T[:, :, None]


def _values_at(
    values: GainTable, demands: Sequence[TrainerDemand], standing: npt.NDArray[np.int64]
) -> GainTable:
    """Return O_j(C_j) of every trainer, its value at its standing (present) count, from the table
    ``values``.

    A standing count may not be legal (not in ``sizes``), so that the table has -inf there; its
    value comes from the curve then.
    """
    standing_values: GainTable = values[np.arange(len(demands)), standing]
    for j in np.flatnonzero(np.isneginf(standing_values)).tolist():
        standing_values[j] = demands[j].value.at(int(standing[j]))
    return standing_values


def _value_table(
    demands: Sequence[TrainerDemand], width: int, largest: GainTable, smallest: GainTable
) -> GainTable:
    """Return O_j(n) of all demands for n = 0 .. ``width`` - 1, shape (J, ``width``); -inf where n
    is not legal.

    ``largest`` and ``smallest`` are N_j^max and N_j^min of all demands. One call of numpy.interp
    interpolates all curves: they are laid one behind the other on one x axis, each shifted to a
    stretch of its own.
    """
    # Trainers of one model share a curve.
    curves = {id(demand.value): demand.value for demand in demands}
    row = {key: i for i, key in enumerate(curves)}
    nodes: list[int] = []
    per_s: list[float] = []
    start = 0
    # Longer than any curve, so that no two overlap.
    stretch = 1 + max([curve.nodes[-1] for curve in curves.values()])
    for curve in curves.values():
        nodes.append(start)
        nodes += [start + n for n in curve.nodes]
        per_s.append(0.0)
        per_s += curve.per_s
        start += stretch
    n = np.arange(width)
    values: GainTable = np.interp(np.arange(0, start, stretch)[:, None] + n, nodes, per_s)[
        [row[id(demand.value)] for demand in demands]
    ]
    values[n > largest[:, None]] = -np.inf
    # 0 nodes stay legal below the smallest size.
    for j in np.flatnonzero(smallest > 1).tolist():
        values[j, 1 : demands[j].min_nodes] = -np.inf
    listed = [j for j, demand in enumerate(demands) if demand.sizes is not None]
    for j in listed:
        values[j, np.isin(n, demands[j].sizes or (), invert=True)] = -np.inf
    return values
