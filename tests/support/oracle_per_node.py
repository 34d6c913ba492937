"""The paper's model as printed, one binary x_jn per trainer and node (Eqns 1-16), solved with
HiGHS: an oracle.

Corrected where the print is wrong: Eqn 4's ``M(i - y)`` is ``M(1 - y)``; Eqn 14's sum over j is
dropped; and the big M of Eqn 10 is 2|N| + 2 instead of ``> |N|``. Take a trainer that grows by d
nodes: Eqn 10's second row, switched off by z_j = 0, still says d <= -d + M, so M = |N| + 1 forbids
any change by more than half the pool. HiGHS has no SOS2, so adjacency is one binary per segment.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import highspy
import numpy as np

from bftrainer.decide.allocation.highs import silent_solver
from bftrainer.decide.domain.problem import Problem, TrainerDemand


@dataclass
class Oracle:
    highs: highspy.Highs = field(default_factory=lambda: silent_solver(highspy))
    columns: int = 0
    costs: list[float] = field(default_factory=list)

    def add(self, upper: float, *, integer: bool, cost: float = 0.0) -> int:
        self.highs.addVar(0.0, upper)
        if integer:
            self.highs.changeColIntegrality(self.columns, highspy.HighsVarType.kInteger)
        self.costs.append(cost)
        self.columns += 1
        return self.columns - 1

    def binaries(self, n: int) -> list[int]:
        return [self.add(1.0, integer=True) for _ in range(n)]

    def at_most(self, upper: float, terms: list[tuple[int, float]]) -> None:
        self._row(-np.inf, upper, terms)

    def equal(self, value: float, terms: list[tuple[int, float]]) -> None:
        self._row(value, value, terms)

    def _row(self, lower: float, upper: float, terms: list[tuple[int, float]]) -> None:
        merged: dict[int, float] = {}
        for column, coefficient in terms:
            merged[column] = merged.get(column, 0.0) + coefficient
        entries = [(c, v) for c, v in merged.items() if v != 0.0]
        self.highs.addRow(
            lower,
            upper,
            len(entries),
            np.array([c for c, _ in entries], dtype=np.int32),
            np.array([v for _, v in entries], dtype=np.float64),
        )


@dataclass(frozen=True)
class Ending:
    status: highspy.HighsModelStatus
    objective: float
    counts: tuple[int, ...]

    @property
    def proven(self) -> bool:
        return self.status == highspy.HighsModelStatus.kOptimal


def corrected_big_m(problem: Problem) -> float:
    """Eqn 10 needs 2|N|; Eqn 4 needs N_min, which may be more nodes than the pool has."""
    return float(max(2 * problem.pool_size + 2, *(c.min_nodes for c in problem.demands)))


def solve(problem: Problem, big_m: float | None = None, time_limit_s: float = 60.0) -> Ending:
    """Nodes are given to the trainers in order: c_jn is the current map, without trainers below
    their minimum.
    """
    model, nodes_n = Oracle(), problem.pool_size
    m = corrected_big_m(problem) if big_m is None else big_m
    scale = 1e3 / sum(
        (problem.forward_s + c.scale_up_s + 1.0) * (max(c.value.per_s) + 1e-9)
        for c in problem.demands
    )
    x_all: list[list[int]] = []
    first = 0
    for demand in map(problem.weighted, range(len(problem.demands))):
        assert demand.sizes is None, "the paper knows no listed sizes"
        held = demand.current if demand.current >= demand.min_nodes else 0
        c = [1 if first <= n < first + held else 0 for n in range(nodes_n)]
        first += held
        big_c = sum(c)  # Eqn 1
        x = model.binaries(nodes_n)
        x_all.append(x)
        n_j = [(v, 1.0) for v in x]  # Eqn 2
        minus_n = [(v, -1.0) for v in x]

        y_l, y_u = model.binaries(2)  # Eqn 4
        model.at_most(-demand.min_nodes, [*minus_n, (y_l, -m)])
        model.at_most(m, [*n_j, (y_l, m)])
        model.at_most(demand.max_nodes, [*n_j, (y_u, -m)])
        model.at_most(m, [*n_j, (y_u, m)])

        u = model.binaries(nodes_n)  # Eqn 9
        for u_n, x_n, c_n in zip(u, x, c, strict=True):
            model.at_most(c_n, [(u_n, 1.0), (x_n, -1.0)])
            model.at_most(c_n, [(x_n, 1.0), (u_n, -1.0)])
            model.at_most(-c_n, [(x_n, -1.0), (u_n, -1.0)])
            model.at_most(2 - c_n, [(u_n, 1.0), (x_n, 1.0)])
        (z,) = model.binaries(1)  # Eqn 10
        model.at_most(-big_c, [*minus_n, *((v, 1.0) for v in u), (z, -m)])
        model.at_most(big_c + m, [*n_j, *((v, 1.0) for v in u), (z, m)])

        points = {0: 0.0, demand.min_nodes: 0.0, demand.max_nodes: 0.0}  # Eqns 11, 12
        points.update(
            (n, 0.0) for n in demand.value.nodes if demand.min_nodes < n < demand.max_nodes
        )
        curve = [
            (n, float(np.interp(n, (0, *demand.value.nodes), (0.0, *demand.value.per_s))))
            for n in sorted(points)
        ]
        w = [
            model.add(
                1.0, integer=False, cost=scale * max(problem.forward_s - demand.stalled_s, 0.0) * s
            )
            for _, s in curve
        ]
        model.equal(1.0, [(v, 1.0) for v in w])
        model.equal(0.0, [*((v, float(n)) for v, (n, _) in zip(w, curve, strict=True)), *minus_n])
        segments = model.binaries(len(w) - 1)  # SOS2
        model.equal(1.0, [(s, 1.0) for s in segments])
        for i, v in enumerate(w):
            model.at_most(0.0, [(v, 1.0), *((s, -1.0) for s in segments[max(0, i - 1) : i + 1])])

        running = float(np.interp(big_c, [n for n, _ in curve], [s for _, s in curve]))
        up, down, kept = running * demand.scale_up_s, running * demand.scale_down_s, big_c
        e = model.add(
            np.inf, integer=False, cost=-scale * demand.ramp_s
        )  # two costs: e >= O(N) - O(C)
        model.at_most(running, [*((v, s) for v, (_, s) in zip(w, curve, strict=True)), (e, -1.0)])
        if demand.pending is not None:
            kept = demand.pending.training
            before = float(np.interp(kept, [n for n, _ in curve], [s for _, s in curve]))
            up, down = (
                demand.ramp_s * running - demand.pending.longer_s * before,
                before * demand.scale_down_s,
            )
            stays = model.add(
                1.0, integer=True, cost=scale * before * demand.pending.switch_s
            )  # N <= B
            model.at_most(kept + m, [*n_j, (stays, m)])
        z_u = model.add(1.0, integer=True, cost=-scale * up)  # Eqns 13, 14
        z_d = model.add(1.0, integer=True, cost=-scale * down)
        model.at_most(big_c, [*n_j, (z_u, -(m - big_c))])  # Eqn 15
        model.at_most(0.0, [*minus_n, (z_u, big_c + 1.0)])
        model.at_most(m, [*n_j, (z_d, m - (kept - 1.0))])
        model.at_most(-kept, [*minus_n, (z_d, -float(kept))])
        if demand.has_two_costs:
            _stall_of_the_rest(
                model,
                scale,
                demand,
                kept,
                (z_d, [(v, s) for v, (_, s) in zip(w, curve, strict=True)]),
            )
    for n in range(nodes_n):  # Eqn 5
        model.at_most(1.0, [(x[n], 1.0) for x in x_all])
    return solved(model, x_all, scale, time_limit_s)


def _stall_of_the_rest(
    model: Oracle,
    scale: float,
    demand: TrainerDemand,
    kept: int,
    terms: tuple[int, list[tuple[int, float]]],
) -> None:
    """f = O(kept) - O(N) if z^d is 1, else 0, as the difference of two variables, times what it
    costs.
    """
    z_d, value = terms
    lost = -demand.scale_down_s
    if demand.pending is not None:
        lost += demand.pending.ahead_s + demand.pending.switch_s
    before, m = demand.value.at(kept), 2 * max(demand.value.per_s)
    more = model.add(np.inf, integer=False, cost=-scale * lost)
    less = model.add(np.inf, integer=False, cost=scale * lost)
    minus_value = [(v, -s) for v, s in value]
    model.at_most(before + m, [(more, 1.0), (less, -1.0), *value, (z_d, m)])
    model.at_most(0.0, [(more, 1.0), (less, -1.0), (z_d, -m)])
    model.at_most(m - before, [(more, -1.0), (less, 1.0), *minus_value, (z_d, m)])
    model.at_most(0.0, [(more, -1.0), (less, 1.0), (z_d, -m)])


def solved(model: Oracle, x_all: list[list[int]], scale: float, time_limit_s: float) -> Ending:
    highs = model.highs
    for option, value in (
        ("threads", 1),
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", 0.0),
        ("mip_feasibility_tolerance", 1e-9),
        ("time_limit", time_limit_s),
    ):
        highs.setOptionValue(option, value)
    highs.changeColsCost(
        model.columns, np.arange(model.columns, dtype=np.int32), np.array(model.costs)
    )
    highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
    highs.run()
    values = highs.getSolution().col_value
    counts = tuple(round(sum(values[v] for v in x)) for x in x_all) if values else ()
    return Ending(highs.getModelStatus(), highs.getInfo().objective_function_value / scale, counts)
