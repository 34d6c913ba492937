"""The exact solver: a multiple-choice knapsack by dynamic programming, cut down by a node price first.

Gains become integers of 2^-42 of the largest, so every comparison below is exact and the same on every machine. Ties are
broken by rule: prefer the larger gain, then fewer rescales, then fewer nodes, then give the earlier trainer more. A
rescale must gain more than a few of those integers (1e-10 of the largest gain), so rounding never causes one.

1. *Price.* With a price on every node each trainer chooses by itself; the price at which they together want about the
   pool gives an upper bound (the Lagrangian dual of Eqn 5), found where tangents of its convex bound function cross.
2. *Primal.* Those choices, topped up greedily, are an allocation: a lower bound.
3. *Fix.* A count that loses more against its trainer's best choice than the two bounds differ is in no optimum: it goes.
   Few counts per trainer survive (about 4 % of all).
4. *Programme.* best[m] over the survivors, on the window of node totals that they can reach; counts by walking back.

Cost for J trainers, pool |N|, largest trainer N^max: O(J * N^max) per tangent (about ten), then O(survivors * window);
at worst, with no survivor dropped, O(J * N^max * |N|).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from bftrainer.allocation.check import require_feasible
from bftrainer.allocation.gains import Table, gains
from bftrainer.domain.problem import Answer, Problem, Status

Ints = npt.NDArray[np.int64]
_Number = TypeVar("_Number", np.int64, np.float64)

# Room in 64 bits: |score| < 2^58 / max(J, width), a price is at most twice that, and _ILLEGAL stays below them all.
_BITS = 58
_RESOLUTION_BITS = 42
_ILLEGAL = -(1 << 61)


@dataclass(frozen=True, slots=True)
class Exact:
    """Solver ``exact``: needs no license and no time limit, and gives the same counts for the same problem, always."""

    name: str = "exact"

    def solve(self, problem: Problem) -> Answer:
        """The optimum of Eqn 16; :class:`NoFeasibleCountsError` if the legal sizes do not fit the pool."""
        require_feasible(problem)
        if not problem.claims:
            return Answer((), 0.0, self.name, Status.OPTIMAL)
        table = gains(problem)[:, : problem.pool_size + 1]
        counts = _optimum(_scores(problem, table), problem.pool_size)
        value = math.fsum(_at(table, counts).tolist())
        return Answer(tuple(counts.tolist()), value, self.name, Status.OPTIMAL)


def _scores(problem: Problem, gained: Table) -> Ints:
    """Gains as integers, less a little for each rescale (the tie rule); shape (J, width)."""
    legal = gained > -np.inf
    trainers, width = gained.shape
    table = np.where(legal, gained, 0.0)
    largest = max(float(table.max()), -float(table.min()))
    bits = min(_RESOLUTION_BITS, _BITS - max(trainers, width).bit_length())
    # A power of two: gains with few digits stay exact.
    scores: Ints = np.rint(np.ldexp(table, bits - math.frexp(largest)[1])).astype(np.int64)
    standing = np.array([c.standing for c in problem.claims])
    scores -= (np.arange(width) != standing[:, None]) * (4 * (trainers + 1))  # beyond what J roundings add up to
    scores[~legal] = _ILLEGAL
    return scores


def _at(table: npt.NDArray[_Number], counts: Ints) -> npt.NDArray[_Number]:
    """Each trainer's entry at its count."""
    return table[np.arange(len(counts)), counts]


def _optimum(scores: Ints, pool: int) -> Ints:
    """The best counts by the tie rule."""
    wanted = _choices(scores, 0)
    if wanted.nodes <= pool:  # nobody competes
        return wanted.counts
    price, bound, counts = _price(scores, pool, wanted)
    value = int(_at(scores, counts).sum())
    reduced = scores - price * np.arange(scores.shape[1])
    loss = reduced.max(axis=1, keepdims=True) - reduced
    return _programme(scores, loss <= bound - value, pool)


@dataclass(frozen=True, slots=True)
class _Choices:
    """Counts that the trainers choose by themselves at some price, their score without it, and their nodes."""

    counts: Ints
    score: int
    nodes: int

    def paying(self, price: int, pool: int) -> int:
        """This tangent of the dual bound at another price."""
        return self.score + price * (pool - self.nodes)


def _choices(scores: Ints, price: int) -> _Choices:
    """Each trainer's best count at a node price, the smaller of equals."""
    counts = (scores - price * np.arange(scores.shape[1])).argmax(axis=1)
    return _Choices(counts, int(_at(scores, counts).sum()), int(counts.sum()))


def _price(scores: Ints, pool: int, wanted: _Choices) -> tuple[int, int, Ints]:
    """The node price that minimises the dual bound, the bound there, and good counts that fit the pool.

    The dual D(p) = sum_j max_n (score - p n) + p * pool is convex and piecewise linear, choices of counts its tangents.
    Where a tangent that wants too many nodes crosses one that fits is the next price, until no tangent lies above.
    """
    over = wanted
    smallest = (scores > _ILLEGAL).argmax(axis=1)
    fits = _Choices(smallest, int(_at(scores, smallest).sum()), int(smallest.sum()))
    while True:
        price = (over.score - fits.score) // (over.nodes - fits.nodes)
        here = _choices(scores, price)
        bound = here.paying(price, pool)
        if bound <= over.paying(price, pool):
            return price, bound, _primal(scores, fits.counts, over.counts, pool)
        if here.nodes > pool:
            over = here
        else:
            fits = here


def _primal(scores: Ints, fits: Ints, over: Ints, pool: int) -> Ints:
    """Counts that fit, moved towards the choices that do not, then topped up by the single change that gains most."""
    counts: Ints = fits.copy()
    free = pool - int(counts.sum())
    for j in np.flatnonzero(over != fits).tolist():
        if over[j] - counts[j] <= free:
            free -= int(over[j] - counts[j])
            counts[j] = over[j]
    n = np.arange(scores.shape[1])
    while free > 0:
        better = scores - _at(scores, counts)[:, None]
        better[n > counts[:, None] + free] = 0
        j, count = divmod(int(better.argmax()), len(n))
        if better[j, count] <= 0:
            break
        free += int(counts[j]) - count
        counts[j] = count
    return counts


def _programme(scores: Ints, keep: npt.NDArray[np.bool_], pool: int) -> Ints:
    """best[m]: the largest score of the trainers so far on m nodes beyond their smallest surviving counts.

    From the last trainer to the first, so that walking back gives the first as much as an optimum can.
    """
    low = keep.argmax(axis=1)
    room = pool - int(low.sum())
    best = np.zeros(1, dtype=np.int64)
    stages: list[tuple[int, list[int], Ints]] = []
    for j in reversed(np.flatnonzero(keep.sum(axis=1) > 1).tolist()):
        extras = (np.flatnonzero(keep[j]) - low[j]).tolist()
        stages.append((j, extras, best))
        longer = np.full(min(len(best) + extras[-1], room + 1), _ILLEGAL, dtype=np.int64)
        for extra in extras:
            reach = longer[extra : extra + len(best)]
            np.maximum(reach, best[: len(reach)] + scores[j, low[j] + extra], out=reach)
        best = longer
    counts: Ints = low.copy()
    left = int(best.argmax())
    value = int(best[left])
    for j, extras, before in reversed(stages):
        for extra in reversed(extras):
            rest = left - extra
            if 0 <= rest < len(before) and int(before[rest]) + int(scores[j, low[j] + extra]) == value:
                counts[j] += extra
                left, value = rest, int(before[rest])
                break
    return counts
