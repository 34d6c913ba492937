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
        counts, value = _optimal_counts(problem)
        return Answer(counts, value, self.name, Status.OPTIMAL)


@lru_cache(maxsize=64)
def _optimal_counts(problem: Problem) -> tuple[tuple[int, ...], float]:
    """Return the optimal counts, one per demand, and their value (Eqn 16).

    The result is cached, because three events in ten leave the problem as it was: a trainer was
    submitted behind others, or nothing was rescaled.
    """
    # No count above the size of the pool can be chosen.
    table = gains(problem)[:, : problem.pool_size + 1]
    counts = _best_counts(_integer_scores(problem, table), problem.pool_size)
    return tuple(counts.tolist()), math.fsum(_entries_at(table, counts).tolist())


def _integer_scores(problem: Problem, gained: GainTable) -> Ints:
    """Return the gains as integers, shape (J, width), less a small penalty for each rescale (the
    tie rule of the module).

    ``gained`` has one row per trainer and one column per node count, in floats. An illegal count
    has the score ``_ILLEGAL``.
    """
    legal = gained > -np.inf
    trainer_count, width = gained.shape
    table = np.where(legal, gained, 0.0)
    largest = max(float(table.max()), -float(table.min()))
    # The largest gain becomes about 2^bits: as fine as the module says, or coarser where the sum of
    # J scores, or a price times a count, would not fit into 64 bits.
    bits = min(_RESOLUTION_BITS, _BITS - max(trainer_count, width).bit_length())
    # A power of two: gains with few digits stay exact.
    scores: Ints = np.rint(np.ldexp(table, bits - math.frexp(largest)[1])).astype(np.int64)
    standing = np.array([c.standing for c in problem.demands])
    # A rescale costs more than the roundings of J gains can add up to.
    scores -= (np.arange(width) != standing[:, None]) * (4 * (trainer_count + 1))
    scores[~legal] = _ILLEGAL
    return scores


def _entries_at(table: npt.NDArray[_Number], counts: Ints) -> npt.NDArray[_Number]:
    """Return the entry of each row of ``table`` (a trainer) in the column of its count, one per
    trainer.
    """
    return table[np.arange(len(counts)), counts]


def _best_counts(scores: Ints, pool: int) -> Ints:
    """Return the counts with the largest total score that fit the pool, by steps 1 to 4 of the
    module.

    ``scores`` has one row per trainer and one column per count; ``pool`` is the number of nodes.
    """
    # At a price of 0 each trainer takes its best count, whatever the others take.
    unlimited = _choices_at_price(scores, 0)
    if unlimited.nodes <= pool:  # no competition
        return unlimited.counts
    price, bound, counts = _best_price(scores, pool, unlimited)
    value = int(_entries_at(scores, counts).sum())
    # What each choice costs against the best one of its trainer, at the price. A count whose loss
    # exceeds the gap between the bound and a known allocation is in no optimum (step 3).
    reduced = scores - price * np.arange(scores.shape[1])
    loss = reduced.max(axis=1, keepdims=True) - reduced
    return _dynamic_program(scores, loss <= bound - value, pool)


@dataclass(frozen=True, slots=True)
class _Choices:
    """The counts that the trainers choose independently at some node price.

    ``score`` is the total score of these counts without the price, ``nodes`` their sum.
    """

    counts: Ints
    score: int
    nodes: int

    def dual_at(self, price: int, pool: int) -> int:
        """Return the upper bound at another ``price`` that follows from these choices: their total
        score plus the price of the nodes of the ``pool`` that they leave (less, of those they
        lack).

        As a function of the price this is a line, which touches the dual bound D(p) of
        :func:`_best_price` where these choices are the best ones.
        """
        return self.score + price * (pool - self.nodes)


def _choices_at_price(scores: Ints, price: int) -> _Choices:
    """Return what each trainer chooses alone at a node price: its best count, of equal ones the
    smallest.
    """
    counts = (scores - price * np.arange(scores.shape[1])).argmax(axis=1)
    return _choices_at(scores, counts)


def _choices_at(scores: Ints, counts: Ints) -> _Choices:
    """Return these counts as choices, with their total score and their sum."""
    # For a few dozen numbers, sum() is faster than numpy's.
    return _Choices(counts, sum(_entries_at(scores, counts).tolist()), sum(counts.tolist()))


def _best_price(scores: Ints, pool: int, unlimited: _Choices) -> tuple[int, int, Ints]:
    """Return the node price that minimizes the dual bound, the bound there, and good counts that
    fit the pool.

    The dual D(p) = sum_j max_n (score - p n) + p * pool is never below the best total score. It is
    convex and piecewise linear; each choice of counts is a tangent. The search starts with a
    tangent that needs too many nodes (``unlimited``) and one that fits (the smallest legal counts).
    The next price is where the two cross; the choices there replace one of them, until no tangent
    lies above.
    """
    too_many = unlimited
    # argmax of True and False: the first legal count of each row.
    smallest = (scores > _ILLEGAL).argmax(axis=1)
    fitting = _choices_at(scores, smallest)
    while True:
        price = (too_many.score - fitting.score) // (too_many.nodes - fitting.nodes)
        choices = _choices_at_price(scores, price)
        bound = choices.dual_at(price, pool)
        # D(p) is no higher than the crossing of the two tangents, so the crossing is its minimum.
        if bound <= too_many.dual_at(price, pool):
            return price, bound, _feasible_counts(scores, fitting.counts, too_many.counts, pool)
        if choices.nodes > pool:
            too_many = choices
        else:
            fitting = choices


def _feasible_counts(scores: Ints, fitting: Ints, too_many: Ints, pool: int) -> Ints:
    """Return a good allocation that fits the pool, made from the choices at the best price.

    ``fitting`` are counts that need no more nodes than the pool has, ``too_many`` counts that need
    more. Two repairs are tried, and the one with the higher total score is returned: ``fitting``
    filled up, and ``too_many`` with one trainer shrunk.
    """
    filled_up = _filled_up(scores, fitting, too_many, pool)
    shrunk = _with_one_shrunk(scores, too_many, pool)
    if (
        shrunk is not None
        and _entries_at(scores, shrunk).sum() > _entries_at(scores, filled_up).sum()
    ):
        return shrunk
    return filled_up


def _filled_up(scores: Ints, fitting: Ints, too_many: Ints, pool: int) -> Ints:
    """Return counts that fit the pool: ``fitting``, in which one trainer after the other gets its
    count of ``too_many`` while there is room.

    Then, again and again, the one change of one trainer's count that raises the total score most is
    made, among those for which enough nodes are free, until none raises it.
    """
    counts: Ints = fitting.copy()
    free = pool - int(counts.sum())
    for j in np.flatnonzero(too_many != fitting).tolist():
        if too_many[j] - counts[j] <= free:
            free -= int(too_many[j] - counts[j])
            counts[j] = too_many[j]
    n = np.arange(scores.shape[1])
    while free > 0:
        change = scores - _entries_at(scores, counts)[:, None]
        # Not enough nodes are free for these: 0 is never chosen.
        change[n > counts[:, None] + free] = 0
        # The index in the flat table, as row (trainer) and column (count).
        j, count = divmod(int(change.argmax()), len(n))
        if change[j, count] <= 0:
            break
        free += int(counts[j]) - count
        counts[j] = count
    return counts


def _with_one_shrunk(scores: Ints, too_many: Ints, pool: int) -> Ints | None:
    """Return the counts ``too_many`` with one trainer shrunk until they fit the pool: the trainer
    whose score falls least.

    None if no trainer alone can shrink that far.
    """
    excess = int(too_many.sum()) - pool
    change = scores - _entries_at(scores, too_many)[:, None]
    # A trainer has to give up the whole excess alone.
    change[np.arange(scores.shape[1]) > too_many[:, None] - excess] = _ILLEGAL
    j, count = divmod(int(change.argmax()), scores.shape[1])
    # If every entry is excluded, argmax finds one of them all the same.
    if scores[j, count] <= _ILLEGAL or count > too_many[j] - excess:
        return None
    counts: Ints = too_many.copy()
    counts[j] = count
    return counts


def _dynamic_program(scores: Ints, survivors: npt.NDArray[np.bool_], pool: int) -> Ints:
    """Return the counts with the largest total score among the ``survivors``, by dynamic
    programming.

    ``survivors`` is True for each count (column) of a trainer (row) that step 3 of the module has
    not dropped. best[m] is the largest score of the trainers so far on m nodes beyond their
    smallest surviving counts. The program goes from the last trainer to the first, so that
    backtracking gives the first trainer as many nodes as any optimum does.
    """
    smallest = survivors.argmax(axis=1)
    # The nodes that are left once every trainer has its smallest surviving count.
    room = pool - int(smallest.sum())
    survivors = survivors & (np.arange(survivors.shape[1]) <= smallest[:, None] + room)
    trainers, counts = np.nonzero(survivors)
    extras, gained = counts - smallest[trainers], scores[trainers, counts]
    # trainers, counts, extras and gained are flat lists of all surviving counts; those of trainer j
    # are in positions ends[j] to ends[j + 1].
    ends = [0, *np.cumsum(survivors.sum(axis=1)).tolist()]
    best = np.zeros(1, dtype=np.int64)
    stages: list[tuple[int, Ints]] = []
    for j in reversed(range(len(scores))):
        entries = slice(ends[j], ends[j + 1])
        if ends[j + 1] - ends[j] > 1:  # else the trainer has no choice
            best, chosen = _extend_program(best, extras[entries][::-1], gained[entries][::-1], room)
            stages.append((j, chosen))
    totals: Ints = smallest.copy()
    # Of totals with equal scores, argmax finds the first: the fewest nodes.
    remaining = int(best.argmax())
    for j, chosen in reversed(stages):
        extra = int(chosen[remaining])
        totals[j] += extra
        remaining -= extra
    return totals


def _extend_program(best: Ints, extras: Ints, gained: Ints, room: int) -> tuple[Ints, Ints]:
    """Extend the program by one trainer, whose surviving counts are ``extras`` above its smallest
    one, with the scores ``gained``.

    Returns, for each total m of at most ``room``, the new best[m] = max over the extras of best[m -
    extra] + ``gained``, and the extra of that maximum. ``extras`` must fall, so that of equal ones
    the larger is chosen.
    """
    largest = int(extras[0])
    length = min(len(best) + largest, room + 1)
    # best[m - extra] for every m and extra at once: totals below 0 and beyond the table read
    # _ILLEGAL.
    padded = np.full(largest + length, _ILLEGAL, dtype=np.int64)
    padded[largest : largest + len(best)] = best
    m = np.arange(length)
    totals = padded[m[:, None] + (largest - extras)] + gained
    chosen = totals.argmax(axis=1)
    return totals[m, chosen], extras[chosen]
