"""What another count for one trainer would do to everybody: the optimum with that count forced, against the one found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bftrainer.allocation.exact import Exact
from bftrainer.allocation.gains import gain, objective_value
from bftrainer.domain.problem import Problem, TrainerDemand
from bftrainer.errors import NoFeasibleCountsError


@dataclass(frozen=True, slots=True)
class Shift:
    """One trainer in the forced optimum: its count before and after, and what that changes in its gain (Eqn 16's summand)."""

    id: str
    before: int
    after: int
    gain: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The best that can be done with one trainer at ``count``. ``change``: of the objective, negative where it is worse.

    ``own`` is the part of it that the trainer gains itself, ``others`` whoever would have to move for it.
    """

    count: int
    change: float
    own: float
    others: tuple[Shift, ...]


def force(problem: Problem, j: int, count: int) -> Problem:
    """The same problem with claim ``j`` allowed ``count`` nodes and nothing else (``sizes``)."""
    claims = list(problem.claims)
    claims[j] = replace(claims[j], sizes=(count,))
    return replace(problem, claims=tuple(claims))


def what_if(problem: Problem, counts: Sequence[int], j: int, count: int) -> WhatIf | None:
    """The optimum with claim ``j`` at ``count`` against ``counts``; None where the pool has no room for it.

    Cost: one solve by the exact programme.
    """
    try:
        best = Exact().solve(force(problem, j, count))
    except NoFeasibleCountsError:
        return None
    pairs = list(zip(problem.claims, counts, best.counts, strict=True))
    shifts = [
        Shift(c.id, n, m, gain(c, m, problem.forward_s) - gain(c, n, problem.forward_s)) if n != m else None
        for c, n, m in pairs
    ]
    mine = shifts[j]
    others = tuple(s for i, s in enumerate(shifts) if s is not None and i != j)
    change = best.objective_value - objective_value(problem, counts)
    return WhatIf(count, change, 0.0 if mine is None else mine.gain, others)


def next_sizes(claim: TrainerDemand, count: int) -> tuple[int | None, int | None]:
    """The legal sizes below and above ``count``; None where there is none."""
    legal = [n for n in (claim.sizes or (0, *range(claim.min_nodes, claim.max_nodes + 1))) if claim.is_legal(n)]
    below = [n for n in legal if n < count]
    above = [n for n in legal if n > count]
    return (max(below) if below else None), (min(above) if above else None)
