"""The division of free cohorts over trainers: the arrays behind the policy ``cohort``, updated as
nodes are given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bftrainer.decide.allocation.placement import in_name_order
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.sizes import largest_legal
from bftrainer.decide.domain.state import Active, Nodes, State
from bftrainer.decide.policies.cohort_worth import Array, CohortCosts, CohortModel

_EPSILON = 1e-9
"""Gains below this share of the best worth are rounding."""


@dataclass(slots=True)
class _CohortColumn:
    """A cohort of nodes that joined together and end together, as a column of the tables of
    :class:`Division`.

    ``useful_s`` are the expected useful seconds of a node, ``hit`` is the probability that the
    cohort is hit by a preemption within the horizon, ``members`` are all its nodes, and ``nodes``
    the free ones in name order.
    """

    column: int
    useful_s: float
    hit: float
    members: list[str]
    nodes: list[str]


class Division:
    """Divides the free nodes among the trainers, by the steps of
    :mod:`~bftrainer.decide.policies.cohort`.

    In its tables, rows are trainers in the order of ``State.active``, columns cohorts, the oldest
    first.
    """

    def __init__(
        self,
        model: CohortModel,
        values: Sequence[Curve],
        state: State,
        joined: Sequence[tuple[float, Nodes]],
    ) -> None:
        trainers = [a.trainer for a in state.active]
        self._trainers, self._model = trainers, model
        self._before = [a.nodes for a in state.active]
        self._nodes = [set(nodes) for nodes in self._before]
        width = 1 + max(t.max_nodes for t in trainers)
        self._values = np.array(
            [_legal_values(v, t, width) for v, t in zip(values, trainers, strict=True)]
        )
        self._rates = np.array([_rates(t, width) for t in trainers])
        self._frozen = np.zeros(len(trainers), dtype=bool)
        within_s = model.horizon(max(t.growth_s for t in trainers))
        left = [_samples_left(a) for a in state.active]
        self._costs = CohortCosts(
            _column([t.growth_s for t in trainers]),
            _column([t.scale_down_s for t in trainers]),
            _column(left),
            within_s,
            model,
        )
        self._stall_s = _column([_stall_left_s(a, state.at_s) for a in state.active])
        self._cohorts = self._columns(state, joined, within_s)
        self._useful = np.array([c.useful_s for c in self._cohorts])
        self._hit = np.array([c.hit for c in self._cohorts])
        self._of = {node: cohort.column for cohort in self._cohorts for node in cohort.members}
        self._held = np.zeros((len(trainers), len(self._cohorts)))
        for row, nodes in zip(self._held, self._before, strict=True):
            for node in nodes:
                row[self._of[node]] += 1
        self._now = np.zeros((len(trainers), 1))
        self._measure()

    def give(self) -> None:
        """Give free nodes until no more gift raises the sum of the worths."""
        moved = True
        while moved:
            moved = False
            for cohort in self._cohorts:
                if cohort.nodes and self._split(cohort):
                    moved = True
            if self._unite():
                moved = True

    def trim(self) -> bool:
        """Drop trainers with illegal sizes to the largest legal ones; they get no more nodes.
        Returns whether nodes became free.
        """
        dropped = False
        for j, trainer in enumerate(self._trainers):
            nodes = self._nodes[j]
            keep = largest_legal(trainer, len(nodes))
            if keep == len(nodes):
                continue
            order = sorted(in_name_order(nodes), key=self._of.__getitem__)
            for node in order[keep:]:
                nodes.discard(node)
                self._held[j, self._of[node]] -= 1
                cohort = self._cohorts[self._of[node]]
                cohort.nodes = in_name_order([*cohort.nodes, node])
            self._frozen[j] = dropped = True
        if dropped:
            self._measure()
        return dropped

    def nodes(self) -> list[Nodes]:
        """The nodes of every trainer; the same object as before if they are unchanged."""
        nodes = []
        for before, after in zip(self._before, self._nodes, strict=True):
            nodes.append(before if len(before) == len(after) else frozenset(after))
        return nodes

    def _columns(
        self, state: State, joined: Sequence[tuple[float, Nodes]], within_s: float
    ) -> list[_CohortColumn]:
        """Return one column per cohort and known window end.

        A node is useful until its window ends, and is then lost for certain.
        """
        ends = dict(state.window_ends)
        held: Nodes = frozenset().union(*self._before)
        cohorts: list[_CohortColumn] = []
        for joined_s, nodes in joined:
            age_s = state.at_s - joined_s
            groups: dict[float, list[str]] = {}
            for node in nodes:
                groups.setdefault(ends.get(node, math.inf), []).append(node)
            for end_s, alike in sorted(groups.items(), reverse=True):
                left_s = max(end_s - state.at_s, 0.0)
                hit = self._model.hit(age_s, within_s) if left_s >= within_s else 1.0
                free = in_name_order(node for node in alike if node not in held)
                useful_s = self._model.useful_s(age_s, min(within_s, left_s))
                cohorts.append(_CohortColumn(len(cohorts), useful_s, hit, alike, free))
        return cohorts

    def _measure(self) -> None:
        """Compute the sums over the cohorts of each trainer, and its present worth.

        An illegal size is worth as much as the largest legal one below.
        """
        self._n = self._held.sum(axis=1)
        self._useful_sum = self._held @ self._useful
        self._hits = (self._held > 0) @ self._hit
        self._spread = (self._held > 0).sum(axis=1)
        legal = np.array(
            [
                largest_legal(t, len(nodes))
                for t, nodes in zip(self._trainers, self._nodes, strict=True)
            ]
        )
        share_s = np.divide(self._useful_sum, self._n, out=np.zeros(len(legal)), where=self._n > 0)
        hits = np.where(self._spread == 1, self._hits * self._model.partly(self._n), self._hits)
        self._now = self._worth(legal[:, None], share_s[:, None], hits[:, None], self._stall_s)

    def _worth(
        self, n: npt.NDArray[np.int64], share_s: Array, hits: Array, stall_s: Array
    ) -> Array:
        """Return the worth of each trainer on ``n`` nodes, shape (J, any); -inf where ``n`` is not
        legal.

        The other arguments are those of :meth:`CohortCosts.worth`.
        """
        inside = np.minimum(n, self._values.shape[1] - 1)
        value = np.take_along_axis(self._values, inside, axis=1)
        rate = np.take_along_axis(self._rates, inside, axis=1)
        illegal = np.isinf(value) | (n > inside)
        worth = self._costs.worth(np.where(illegal, 0.0, value), rate, share_s, hits, stall_s)
        worth[n == 0] = 0.0
        worth[illegal] = -np.inf
        return worth

    def _gains(self, added: Array, useful_s: Array, hits: Array) -> Array:
        """Return by how much each trainer's worth rises with ``added`` more nodes; -inf where that
        is impossible.
        """
        n = self._n[:, None] + added
        share_s = (self._useful_sum[:, None] + useful_s) / n
        stall_s = np.maximum(self._stall_s, self._costs.up_s)
        gains = self._worth(n.astype(np.int64), share_s, hits, stall_s) - self._now
        gains[self._frozen] = -np.inf
        return gains

    def _split(self, cohort: _CohortColumn) -> bool:
        """Give the free nodes of a cohort to the trainers whose worths rise most in sum. Returns
        whether any was given.
        """
        largest = min(len(cohort.nodes), self._values.shape[1] - 1)
        k = np.arange(1.0, largest + 1.0)[None, :]
        has = self._held[:, cohort.column][:, None] > 0
        lone = (self._spread[:, None] - has) == 0
        hits = self._hits[:, None] + np.where(has, 0.0, cohort.hit)
        hits = np.where(lone, cohort.hit * self._model.partly(self._n[:, None] + k), hits)
        gains = self._gains(k, k * cohort.useful_s, hits)
        gains[gains <= _EPSILON * np.abs(self._now).max()] = -np.inf
        chosen = best_split(gains, len(cohort.nodes))
        for j, count in chosen:
            self._take(j, cohort, count)
        if chosen:
            self._measure()
        return bool(chosen)

    def _unite(self) -> bool:
        """Give the free nodes of at least two of the oldest cohorts to the one trainer that gains
        most.

        Returns whether any was given.
        """
        free = [c for c in self._cohorts if c.nodes]
        sizes = np.cumsum([len(c.nodes) for c in free])
        free = free[: int(np.searchsorted(sizes, self._values.shape[1] - 1, side="right"))]
        if len(free) < 2:
            return False
        columns = [c.column for c in free]
        useful_s = np.cumsum([len(c.nodes) * c.useful_s for c in free])[None, :]
        hits = self._hits[:, None] + np.cumsum(
            np.where(self._held[:, columns] > 0, 0.0, self._hit[columns]), axis=1
        )
        gains = self._gains(sizes[None, : len(free)].astype(float), useful_s, hits)[:, 1:]
        j, last = np.unravel_index(int(gains.argmax()), gains.shape)
        if gains[j, last] <= _EPSILON * np.abs(self._now).max():
            return False
        for cohort in free[: int(last) + 2]:
            self._take(int(j), cohort, len(cohort.nodes))
        self._measure()
        return True

    def _take(self, j: int, cohort: _CohortColumn, count: int) -> None:
        self._nodes[j].update(cohort.nodes[:count])
        del cohort.nodes[:count]
        self._held[j, cohort.column] += count
        self._stall_s[j] = max(self._stall_s[j, 0], self._costs.up_s[j, 0])


def best_split(gains: Array, nodes: int) -> list[tuple[int, int]]:
    """Return the split of ``nodes`` nodes with the largest sum of gains, as (row, count) pairs.

    ``gains[j, k - 1]`` is the gain of row j with k nodes. Gains that are not above 0 must be -inf.
    Of equal splits, it is the one that gives less to later rows.
    """
    rows = np.flatnonzero(gains.max(axis=1, initial=-np.inf) > 0)
    if not len(rows):
        return []
    best, taken = np.zeros(nodes + 1), np.zeros((len(rows), nodes + 1), dtype=np.int64)
    for choice, j in zip(taken, rows, strict=True):
        after = best.copy()
        for k in np.flatnonzero(gains[j] > 0) + 1:
            with_k = best[: nodes + 1 - k] + gains[j, k - 1]
            better = with_k > after[k:]
            after[k:][better] = with_k[better]
            choice[k:][better] = k
        best = after
    left, chosen = nodes, []
    for choice, j in zip(taken[::-1], rows[::-1], strict=True):
        if count := int(choice[left]):
            chosen.append((int(j), count))
            left -= count
    return chosen[::-1]


def _samples_left(active: Active) -> float:
    remaining = active.remaining_samples
    return math.inf if remaining is None else remaining


def _stall_left_s(active: Active, now_s: float) -> float:
    """The rest of the stall of a rescale that is under way."""
    return 0.0 if active.rescaling is None else max(active.rescaling.ready_s - now_s, 0.0)


def _column(values: Sequence[float]) -> Array:
    return np.array(values, dtype=np.float64)[:, None]


@lru_cache(maxsize=8192)
def _legal_values(value: Curve, trainer: Trainer, width: int) -> Array:
    """Values per second at 0 .. ``width`` - 1 nodes; -inf where the count is not legal."""
    table = np.interp(np.arange(width), value.nodes, value.per_s)
    table[[n for n in range(width) if not trainer.is_legal(n)]] = -np.inf
    table[0] = 0.0
    return table


@lru_cache(maxsize=8192)
def _rates(trainer: Trainer, width: int) -> Array:
    return np.interp(np.arange(width), trainer.curve.nodes, trainer.curve.per_s)
