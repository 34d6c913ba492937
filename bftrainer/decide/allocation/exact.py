"""The exact solver: a multiple-choice knapsack by dynamic programming, reduced by a node price
first.

Gains become integers in units of 2^-42 of the largest, so every comparison is exact and the same on
every machine. The tie rule: larger gain, then fewer rescales, then fewer nodes, then more nodes for
the earlier trainer. A rescale must gain more than a few units (1e-10 of the largest gain), so
rounding never causes one.

1. *Price.* With a price per node each trainer chooses its count independently. The price at which
   the choices add up to about the pool gives an upper bound (the Lagrangian dual of Eqn 5); it is
   found where tangents of the convex bound cross.
2. *Primal.* Those choices, topped up greedily, are an allocation: a lower bound.
3. *Fix.* A count that loses more, against the best choice of its trainer, than the gap between the
   bounds is in no optimum and is dropped. About 4 % of the counts survive.
4. *Program.* best[m] over the survivors, for the node totals that they can reach; counts by
   backtracking.

Cost for J trainers, pool |N|, largest trainer N^max: O(J * N^max) per tangent (about ten), then
O(survivors * window); at worst, with no survivor dropped, O(J * N^max * |N|).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from bftrainer.decide.allocation.check import require_feasible
from bftrainer.decide.allocation.gains import GainTable, gains
from bftrainer.decide.domain.problem import Answer, Problem, Status

Ints = npt.NDArray[np.int64]
_Number = TypeVar("_Number", np.int64, np.float64)

# Room in 64 bits: |score| < 2^58 / max(J, width), a price is at most twice that, and _ILLEGAL stays
# below them all.
_BITS = 58
_RESOLUTION_BITS = 42
_ILLEGAL = -(1 << 61)


@dataclass(frozen=True, slots=True)
class Exact:
    """Solver ``exact``: needs no license and no time limit; the same problem always gives the same
    counts.
    """

    name: str = "exact"

    def solve(self, problem: Problem) -> Answer:
        """Return the optimum of Eqn 16. Raises :class:`NoFeasibleCountsError`."""
        require_feasible(problem)
        if not problem.demands:
            return Answer((), 0.0, self.name, Status.OPTIMAL)
        counts, value = _solved(problem)
        return Answer(counts, value, self.name, Status.OPTIMAL)


@lru_cache(maxsize=64)
def _solved(problem: Problem) -> tuple[tuple[int, ...], float]:
    """Return the optimal counts and their value.

    The result is cached, because three events in ten leave the problem as it was: a trainer was
    submitted behind others, or nothing was rescaled.
    """
    table = gains(problem)[:, : problem.pool_size + 1]
    counts = _optimum(_scores(problem, table), problem.pool_size)
    return tuple(counts.tolist()), math.fsum(_at(table, counts).tolist())


def _scores(problem: Problem, gained: GainTable) -> Ints:
    """Return the gains as integers, shape (J, width), less a small penalty for each rescale (the
    tie rule).

    An illegal count has the score ``_ILLEGAL``.
    """
    legal = gained > -np.inf
    trainers, width = gained.shape
    table = np.where(legal, gained, 0.0)
    largest = max(float(table.max()), -float(table.min()))
    bits = min(_RESOLUTION_BITS, _BITS - max(trainers, width).bit_length())
    # A power of two: gains with few digits stay exact.
    scores: Ints = np.rint(np.ldexp(table, bits - math.frexp(largest)[1])).astype(np.int64)
    standing = np.array([c.standing for c in problem.demands])
    # A rescale costs more than the roundings of J gains can add up to.
    scores -= (np.arange(width) != standing[:, None]) * (4 * (trainers + 1))
    scores[~legal] = _ILLEGAL
    return scores


def _at(table: npt.NDArray[_Number], counts: Ints) -> npt.NDArray[_Number]:
    """Return the entry of each trainer's row at its count."""
    return table[np.arange(len(counts)), counts]


def _optimum(scores: Ints, pool: int) -> Ints:
    """Return the counts with the largest total score that fit the pool, by steps 1 to 4 of the
    module.
    """
    wanted = _choices(scores, 0)
    if wanted.nodes <= pool:  # no competition
        return wanted.counts
    price, bound, counts = _price(scores, pool, wanted)
    value = int(_at(scores, counts).sum())
    reduced = scores - price * np.arange(scores.shape[1])
    loss = reduced.max(axis=1, keepdims=True) - reduced
    return _program(scores, loss <= bound - value, pool)


@dataclass(frozen=True, slots=True)
class _Choices:
    """The counts that the trainers choose independently at some node price.

    ``score`` is the total score of these counts without the price, ``nodes`` their sum.
    """

    counts: Ints
    score: int
    nodes: int

    def paying(self, price: int, pool: int) -> int:
        """Return the value of the dual bound's tangent at these choices, for another price."""
        return self.score + price * (pool - self.nodes)


def _choices(scores: Ints, price: int) -> _Choices:
    """Return what each trainer chooses alone at a node price: its best count, of equal ones the
    smallest.
    """
    counts = (scores - price * np.arange(scores.shape[1])).argmax(axis=1)
    return _of(scores, counts)


def _of(scores: Ints, counts: Ints) -> _Choices:
    # For a few dozen numbers, sum() is faster than numpy's.
    return _Choices(counts, sum(_at(scores, counts).tolist()), sum(counts.tolist()))


def _price(scores: Ints, pool: int, wanted: _Choices) -> tuple[int, int, Ints]:
    """Return the node price that minimizes the dual bound, the bound there, and good counts that
    fit the pool.

    The dual D(p) = sum_j max_n (score - p n) + p * pool is convex and piecewise linear; each choice
    of counts is a tangent. The search starts with a tangent that needs too many nodes (``wanted``)
    and one that fits (the smallest legal counts). The next price is where the two cross; the
    choices there replace one of them, until no tangent lies above.
    """
    over = wanted
    smallest = (scores > _ILLEGAL).argmax(axis=1)
    fits = _of(scores, smallest)
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
    """Turn the choices at the best price into a good allocation that fits the pool.

    ``fits`` are choices that need no more than the pool, ``over`` choices that need more. Two
    repairs are tried, and the better one is returned: ``fits`` moved toward ``over``, and ``over``
    with one trainer shrunk.
    """
    moved = _moved(scores, fits, over, pool)
    shrunk = _shrunk(scores, over, pool)
    if shrunk is not None and _at(scores, shrunk).sum() > _at(scores, moved).sum():
        return shrunk
    return moved


def _moved(scores: Ints, fits: Ints, over: Ints, pool: int) -> Ints:
    """Return counts that fit the pool: ``fits``, moved toward ``over`` trainer by trainer while
    there is room.

    Then the remaining nodes are given by the best single change of a count, until none gains.
    """
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


def _shrunk(scores: Ints, over: Ints, pool: int) -> Ints | None:
    """Return the choices ``over`` with one trainer shrunk until they fit: the one that loses least
    by it.

    None if no trainer can shrink that far.
    """
    too_many = int(over.sum()) - pool
    change = scores - _at(scores, over)[:, None]
    change[np.arange(scores.shape[1]) > over[:, None] - too_many] = _ILLEGAL
    j, count = divmod(int(change.argmax()), scores.shape[1])
    if scores[j, count] <= _ILLEGAL or count > over[j] - too_many:
        return None
    counts: Ints = over.copy()
    counts[j] = count
    return counts


def _program(scores: Ints, keep: npt.NDArray[np.bool_], pool: int) -> Ints:
    """Return the optimal counts among those that ``keep`` marks, by dynamic programming.

    best[m] is the largest score of the trainers so far on m nodes beyond their smallest surviving
    counts. The program goes from the last trainer to the first, so that backtracking gives the
    first trainer as many nodes as any optimum does.
    """
    low = keep.argmax(axis=1)
    room = pool - int(low.sum())
    keep = keep & (np.arange(keep.shape[1]) <= low[:, None] + room)
    trainers, counts = np.nonzero(keep)
    extras, gained = counts - low[trainers], scores[trainers, counts]
    ends = [0, *np.cumsum(keep.sum(axis=1)).tolist()]
    best = np.zeros(1, dtype=np.int64)
    stages: list[tuple[int, Ints]] = []
    for j in reversed(range(len(scores))):
        own = slice(ends[j], ends[j + 1])
        if ends[j + 1] - ends[j] > 1:
            best, chosen = _extended(best, extras[own][::-1], gained[own][::-1], room)
            stages.append((j, chosen))
    totals: Ints = low.copy()
    left = int(best.argmax())
    for j, chosen in reversed(stages):
        extra = int(chosen[left])
        totals[j] += extra
        left -= extra
    return totals


def _extended(best: Ints, extras: Ints, gained: Ints, room: int) -> tuple[Ints, Ints]:
    """Extend the program by one trainer, whose surviving counts are ``extras`` above its smallest
    one.

    Returns, for each total m, the new best[m] = max over the extras of best[m - extra] +
    ``gained``, and the extra of that maximum. ``extras`` must fall, so that of equal ones the
    larger is chosen.
    """
    largest = int(extras[0])
    length = min(len(best) + largest, room + 1)
    padded = np.full(largest + length, _ILLEGAL, dtype=np.int64)
    padded[largest : largest + len(best)] = best
    m = np.arange(length)
    totals = padded[m[:, None] + (largest - extras)] + gained
    chosen = totals.argmax(axis=1)
    return totals[m, chosen], extras[chosen]
