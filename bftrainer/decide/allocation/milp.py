"""The mixed-integer model of the paper (3.3-3.5) in counts, as arrays that any MILP solver accepts.

Per trainer: N_j nodes, weights w_j^i on the breakpoints, one on/off binary for the dead zone, z_j^u
and z_j^d for the rescaling cost. Symbols and equation numbers are those of the paper; comments say
how misprints are read. Where each equation is:

- Eqn 1, C_j: ``TrainerDemand.current``. Eqns 13 to 16 take ``TrainerDemand.standing`` for it,
  which is 0 where a preemption left C_j below N_j^min. Eqn 2, N_j: the integer variable ``nodes``.
  Both replace sums over nodes.
- Eqn 3 (legal sizes) as Eqn 4, and Eqn 5 (no node twice, summed over nodes): rows below.
- Eqn 6 (no migration) and its linear forms, Eqns 7 to 10, restrict which nodes a trainer gets.
  Counts do not say that, so these equations are not in the model:
  :mod:`bftrainer.decide.allocation.placement` satisfies Eqn 6 by construction.
- Eqns 11 to 15 (value curve, rescaling cost) and Eqn 16 (objective; its f_j is O_j): rows and
  columns below.

If old nodes train on while new ones start (:mod:`bftrainer.decide.allocation.two_costs`), each
trainer has one more continuous variable; one with a pending start has another one and a binary.
There is no big M.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bftrainer.decide.allocation.gains import CostTerms, costs_of, gain, seconds
from bftrainer.decide.domain.problem import Problem, TrainerDemand

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

# The objective is scaled so that its largest possible total is this: solver tolerances are
# absolute.
SCALED_TOTAL = 1e3


@dataclass(frozen=True, slots=True, eq=False)
class Milp:
    """Maximize ``objective @ x`` subject to ``row_lower <= A x <= row_upper``, ``lower <= x <=
    upper``.

    Row r of A has ``row_value[s:e]`` in the columns ``row_column[s:e]`` with ``s, e = row_start[r:r
    + 2]``. In every set of ``sos2`` at most two adjacent variables are above 0. ``objective`` is
    Eqn 16 divided by ``scale``. Variable ``x[c]`` gives ``counted_nodes[k] * x[c]`` nodes to
    trainer ``counted_trainer[k]`` where ``c = counted_column[k]``.
    """

    objective: Floats
    lower: Floats
    upper: Floats
    integer: Flags
    row_lower: Floats
    row_upper: Floats
    row_start: Indices
    row_column: Indices
    row_value: Floats
    sos2: tuple[tuple[int, ...], ...]
    scale: float
    trainers: int
    counted_trainer: Indices
    counted_column: Indices
    counted_nodes: Floats

    def counts(self, x: Sequence[float] | Floats) -> tuple[int, ...]:
        """Return the counts N_j of a solution ``x`` (one value per column), one per trainer,
        rounded.

        A trainer's count is the sum of what its columns give it. A solver's integers are integral
        only to its tolerance.
        """
        nodes = np.zeros(self.trainers)
        np.add.at(
            nodes, self.counted_trainer, self.counted_nodes * np.asarray(x)[self.counted_column]
        )
        return tuple(np.rint(nodes).astype(np.int64).tolist())


def build(problem: Problem, *, native_sos: bool) -> Milp:
    """Return the full model (3.5) of a problem.

    With ``native_sos`` the solver itself enforces that at most two adjacent weights of a value
    curve are above 0 (SOS2). Without, binaries do, one per segment.
    """
    model = ConstraintRows(native_sos)
    for j in range(len(problem.demands)):
        demand = problem.weighted(j)
        if demand.sizes is not None:
            _add_listed(model, problem, j, demand, demand.sizes)
        elif demand.min_nodes <= problem.pool_size:  # otherwise it can only wait at 0 nodes
            _add_curve(model, problem, j, demand)
    # Eqn 5, summed over the nodes: no node is allocated twice.
    model.row(-np.inf, problem.pool_size, [(column, nodes) for _, column, nodes in model.counted])
    return model.milp(len(problem.demands))


def breakpoints(demand: TrainerDemand, largest: int) -> list[tuple[int, float]]:
    """Return the breakpoints (N_j^i, s_j^i) of a demand's value curve, as (nodes, value per
    second), cut at ``largest`` nodes.

    They are (0, 0), (N_min, O(N_min)), the curve's points strictly inside, and (largest,
    O(largest)).
    """
    inside = [
        (n, v)
        for n, v in zip(demand.value.nodes, demand.value.per_s, strict=True)
        if demand.min_nodes < n < largest
    ]
    ends = sorted({demand.min_nodes, largest})
    return [(0, 0.0), *sorted([*((n, demand.value.at(n)) for n in ends), *inside])]


def is_concave(points: Sequence[tuple[int, float]]) -> bool:
    """Whether a curve through these points (nodes, value) is concave: each segment is at most as
    steep as the one before.

    Then the maximum needs no SOS2: interpolating between distant breakpoints is never worth more
    than between adjacent ones.
    """
    return all(
        # The two slopes, compared without dividing: counts and differences are positive.
        (v1 - v0) * (n2 - n1) >= (v2 - v1) * (n1 - n0)
        for (n0, v0), (n1, v1), (n2, v2) in zip(points, points[1:], points[2:], strict=False)
    )


@dataclass(slots=True)
class ConstraintRows:
    """The variables and rows of a MILP under construction; :meth:`milp` makes the arrays of them.

    ``counted`` has (trainer, column, nodes per unit of the column).
    """

    native_sos: bool
    variables: list[tuple[float, float, float, bool]] = field(default_factory=list)
    rows: list[tuple[float, float, Sequence[tuple[int, float]]]] = field(default_factory=list)
    sos2: list[tuple[int, ...]] = field(default_factory=list)
    counted: list[tuple[int, int, float]] = field(default_factory=list)
    total: float = 0.0

    def variable(
        self, lower: float, upper: float, *, objective: float = 0.0, integer: bool = False
    ) -> int:
        """Add a column for a variable, and return its index."""
        self.variables.append((objective, lower, upper, integer))
        return len(self.variables) - 1

    def binary(self, objective: float = 0.0) -> int:
        """A new column that is 0 or 1."""
        return self.variable(0, 1, objective=objective, integer=True)

    def row(self, lower: float, upper: float, entries: Sequence[tuple[int, float]]) -> None:
        """Add lower <= sum of value * column <= upper; ``entries`` are (column, value)."""
        self.rows.append((lower, upper, entries))

    def adjacent(self, weights: Sequence[int]) -> None:
        """Require that at most two adjacent ``weights`` are above 0 (SOS2, 3.4.1).

        Either the solver is told so, or binaries do it, one per segment: exactly one is 1, and w^i
        <= the sum of its two segments.
        """
        if self.native_sos:
            self.sos2.append(tuple(weights))
            return
        segments = [self.binary() for _ in weights[1:]]
        self.row(1, 1, [(s, 1.0) for s in segments])
        # Weight i belongs to the segments before and behind its breakpoint, the first and the last
        # to one only.
        for i, w in enumerate(weights):
            self.row(-np.inf, 0, [(w, 1.0), *((s, -1.0) for s in segments[max(i - 1, 0) : i + 1])])

    def milp(self, trainers: int) -> Milp:
        """Return the model as arrays, with the objective scaled so that its largest possible value,
        ``total``, is ``SCALED_TOTAL``. ``trainers`` is the number of demands.
        """
        objective, lower, upper, integer = _columns(self.variables, 4)
        row_lower, row_upper, _ = zip(*self.rows, strict=True)
        columns, values = _columns((entry for *_, entries in self.rows for entry in entries), 2)
        owner, counted, nodes = _columns(self.counted, 3)
        # 1 where nothing has a value: there is nothing to scale.
        scale = self.total / SCALED_TOTAL or 1.0
        return Milp(
            objective=np.array(objective, dtype=np.float64) / scale,
            lower=np.array(lower, dtype=np.float64),
            upper=np.array(upper, dtype=np.float64),
            integer=np.array(integer, dtype=np.bool_),
            row_lower=np.array(row_lower, dtype=np.float64),
            row_upper=np.array(row_upper, dtype=np.float64),
            row_start=np.cumsum([0, *(len(entries) for *_, entries in self.rows)]).astype(np.int32),
            row_column=np.array(columns, dtype=np.int32),
            row_value=np.array(values, dtype=np.float64),
            sos2=tuple(self.sos2),
            scale=scale,
            trainers=trainers,
            counted_trainer=np.array(owner, dtype=np.int32),
            counted_column=np.array(counted, dtype=np.int32),
            counted_nodes=np.array(nodes, dtype=np.float64),
        )


def _columns(rows: Iterable[tuple[float, ...]], width: int) -> Sequence[tuple[float, ...]]:
    """Turn rows of ``width`` entries into ``width`` columns, which are empty if there is no row."""
    return tuple(zip(*rows, strict=True)) or ((),) * width


def _add_listed(
    model: ConstraintRows, problem: Problem, j: int, demand: TrainerDemand, sizes: tuple[int, ...]
) -> None:
    """Add a trainer with listed sizes to the model: one binary per legal size, with its gain (the
    summand of Eqn 16) as objective.

    ``j`` is the index of the ``demand``, and ``sizes`` are its legal counts.
    """
    gains = [gain(demand, n, problem.forward_s) for n in sizes]
    choices = [model.binary(value) for value in gains]
    # Exactly one of the sizes is chosen.
    model.row(1, 1, [(b, 1.0) for b in choices])
    model.counted.extend((j, b, n) for b, n in zip(choices, sizes, strict=True))
    model.total += max(map(abs, gains))


def _add_curve(model: ConstraintRows, problem: Problem, j: int, demand: TrainerDemand) -> None:
    """Add to the model a trainer that may get 0 or N_min .. N_max nodes (Eqn 3), with a piecewise
    linear value curve. ``j`` is the index of the ``demand``.
    """
    largest = min(demand.max_nodes, problem.pool_size)
    points = breakpoints(demand, largest)
    # N_j (Eqn 2); its bound is the second line of Eqn 3.
    nodes = model.variable(0, largest, integer=True)
    model.counted.append((j, nodes, 1.0))

    # Eqn 16, first sum, with f_j = O_j of Eqn 12: T_fwd * sum_i w_j^i s_j^i.
    # A trainer with two costs trains for T_fwd - s_j only.
    within_s = seconds(demand, problem.forward_s)
    weights = [model.variable(0, 1, objective=within_s * value) for _, value in points]
    model.total += within_s * max(value for _, value in points)
    # Eqn 11: the weights sum to 1 and meet at N_j.
    model.row(1, 1, [(w, 1.0) for w in weights])
    model.row(
        0, 0, [(nodes, -1.0), *((w, float(n)) for w, (n, _) in zip(weights, points, strict=True))]
    )
    costs = costs_of(demand)
    # With a concave curve the maximum itself makes the weights adjacent, unless less value may be
    # better.
    if not is_concave(points) or within_s < max(demand.ramp_s, -costs.lost):
        model.adjacent(weights)

    # Eqn 4: N_j is 0 or at least N_min. One binary, ``on`` = 1 - y_j^l; y_j^u only repeats N_j <=
    # N_max. The printed M(i - y) is M(1 - y). M is as small as possible: N_min in the first row,
    # the largest count in the second.
    if demand.min_nodes > 1:
        on = model.binary()
        model.row(0, np.inf, [(nodes, 1.0), (on, -float(demand.min_nodes))])
        model.row(-np.inf, 0, [(nodes, 1.0), (on, -float(largest))])

    down = _add_rescale_cost(model, demand, costs, nodes, largest)
    if demand.has_two_costs:
        per_s = [(w, value) for w, (_, value) in zip(weights, points, strict=True)]
        _add_later_value(model, demand, costs, nodes, down, per_s, largest)


def _add_later_value(
    model: ConstraintRows,
    demand: TrainerDemand,
    costs: CostTerms,
    nodes: int,
    down: int | None,
    per_s: Sequence[tuple[int, float]],
    largest: int,
) -> None:
    """Add the cost terms of a trainer whose old nodes train on while new ones start
    (:class:`CostTerms`).

    They are a_j e_j with e_j >= O_j(N_j) - O_j(C_j), and the costs and gains of fewer than C_j or
    B_j nodes. ``nodes`` is the column of N_j, ``down`` that of z_j^d; ``per_s`` has (column of a
    weight, O_j at its breakpoint), and ``largest`` is the largest possible N_j.
    """
    top = max(value for _, value in per_s)
    standing_value, kept_value = demand.value.at(demand.standing), demand.value.at(costs.kept)
    if costs.ramp:
        gained = model.variable(0, top, objective=-costs.ramp)  # e_j
        model.row(-standing_value, np.inf, [(gained, 1.0), *((w, -value) for w, value in per_s)])
        model.total += costs.ramp * top
    if costs.lost and down is not None:
        # O(C) - O(N) if z^d is 1, else 0; with a pending start, B replaces C. The maximum makes
        # the variable small where it is a cost, and large where it is a gain: only that side is
        # bounded.
        lost_value = model.variable(kept_value - top, kept_value, objective=-costs.lost)
        if costs.lost > 0:
            model.row(0, np.inf, [(lost_value, 1.0), *per_s, (down, -kept_value)])
            model.row(0, np.inf, [(lost_value, 1.0), (down, top - kept_value)])
        else:
            model.row(-np.inf, top, [(lost_value, 1.0), *per_s, (down, top - kept_value)])
            model.row(-np.inf, 0, [(lost_value, 1.0), (down, -kept_value)])
        model.total += abs(costs.lost) * top
    if costs.canceled:
        canceled = model.binary(costs.canceled)  # 1 only if N <= B
        model.row(-np.inf, largest, [(nodes, 1.0), (canceled, float(max(largest - costs.kept, 0)))])
        model.total += costs.canceled


def _add_rescale_cost(
    model: ConstraintRows, demand: TrainerDemand, costs: CostTerms, nodes: int, largest: int
) -> int | None:
    """Add the rescale cost of a trainer, the second sum of Eqn 16: f_j(C_j) * R_j with f_j = O_j,
    and R_j of Eqns 13-15.

    Returns the column of z_j^d; None if no rescale costs anything. The sum over j in Eqn 14 is a
    misprint. M is the largest possible count N_j. A start from C_j = 0 (Eqn 1) costs nothing, as
    O_j(0) = 0. With a pending start, B_j replaces C_j where the trainer shrinks. ``nodes`` is the
    column of N_j, and ``largest`` its M.
    """
    standing, kept = demand.standing, costs.kept
    # Then no variable is needed that says whether the trainer grows or shrinks.
    if not (costs.up or costs.down or costs.lost):
        return None
    model.total += max(abs(costs.up), costs.down)
    up = model.binary(-costs.up)  # z_j^u (Eqn 14)
    down = model.binary(-costs.down)  # z_j^d (Eqn 14)
    # Eqn 15: N <= C + (M - C) z^u
    model.row(-np.inf, standing, [(nodes, 1.0), (up, -float(largest - standing))])
    # Eqn 15: N >= (C + 1) z^u
    model.row(0, np.inf, [(nodes, 1.0), (up, -float(standing + 1))])
    # Eqn 15: N <= (C - 1) + (M - (C - 1)) (1 - z^d)
    model.row(-np.inf, largest, [(nodes, 1.0), (down, float(largest - kept + 1))])
    # Eqn 15: N >= C (1 - z^d)
    model.row(kept, np.inf, [(nodes, 1.0), (down, float(kept))])
    return down
