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
    """A cohort (nodes that joined the pool together) whose windows end together, as a column of the
    tables of :class:`Division`.

    ``useful_s`` are the expected useful seconds of a node within the horizon. ``hit`` is the
    probability that a preemption takes nodes of the cohort within the horizon. ``members`` are all
    its nodes, and ``nodes`` the free ones in name order.
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
        """Compute the tables for the trainers and the pool of ``state``.

        ``values`` are the trainers' value curves, and ``joined`` the cohorts of the pool: (time at
        which they joined, nodes), the oldest first. There must be a trainer.
        """
        trainers = [admitted.trainer for admitted in state.active]
        self._trainers, self._model = trainers, model
        self._nodes_before = [admitted.nodes for admitted in state.active]
        self._nodes = [set(nodes) for nodes in self._nodes_before]
        width = 1 + max(trainer.max_nodes for trainer in trainers)
        # The value under the objective, and the samples per second, of each trainer at each count.
        self._values = np.array(
            [
                _legal_values(value, trainer, width)
                for value, trainer in zip(values, trainers, strict=True)
            ]
        )
        self._rates = np.array([_rate_table(trainer, width) for trainer in trainers])
        self._frozen = np.zeros(len(trainers), dtype=bool)  # they get no more nodes
        within_s = model.scaled_horizon_s(max(trainer.growth_s for trainer in trainers))
        self._costs = CohortCosts(
            up_s=_as_column([trainer.growth_s for trainer in trainers]),
            down_s=_as_column([trainer.scale_down_s for trainer in trainers]),
            remaining=_as_column([_samples_left(admitted) for admitted in state.active]),
            within_s=within_s,
            model=model,
        )
        # How long each trainer still stalls: grows when it is given nodes.
        self._stall_s = _as_column(
            [_stall_left_s(admitted, state.at_s) for admitted in state.active]
        )
        self._cohorts = self._cohort_columns(state, joined, within_s)
        self._useful_s = np.array([cohort.useful_s for cohort in self._cohorts])
        self._hit_probabilities = np.array([cohort.hit for cohort in self._cohorts])
        self._column_by_node = {
            node: cohort.column for cohort in self._cohorts for node in cohort.members
        }
        self._held = np.zeros((len(trainers), len(self._cohorts)))  # numbers of nodes
        for row, nodes in zip(self._held, self._nodes_before, strict=True):
            for node in nodes:
                row[self._column_by_node[node]] += 1
        # Set by _update_sums.
        self._worths = np.zeros((len(trainers), 1))
        self._update_sums()

    def give_free_nodes(self) -> None:
        """Give free nodes to trainers until no more gift raises the sum of their worths: single
        cohorts first, then unions of several.
        """
        has_gift = True
        while has_gift:
            has_gift = False
            for cohort in self._cohorts:
                if cohort.nodes and self._divide_cohort(cohort):
                    has_gift = True
            if self._unite_cohorts():
                has_gift = True

    def drop_illegal_sizes(self) -> bool:
        """Drop trainers with illegal sizes to the largest legal ones; they get no more nodes.
        Returns whether nodes became free.

        A size becomes illegal when a preemption takes some of the nodes.
        """
        has_dropped = False
        for j, trainer in enumerate(self._trainers):
            nodes = self._nodes[j]
            size = largest_legal(trainer, len(nodes))
            if size == len(nodes):
                continue
            # Columns are sorted by age, the oldest first; old cohorts tend to stay longest.
            oldest_first = sorted(in_name_order(nodes), key=self._column_by_node.__getitem__)
            for node in oldest_first[size:]:
                nodes.discard(node)
                self._held[j, self._column_by_node[node]] -= 1
                cohort = self._cohorts[self._column_by_node[node]]
                cohort.nodes = in_name_order([*cohort.nodes, node])
            self._frozen[j] = True
            has_dropped = True
        if has_dropped:
            self._update_sums()
        return has_dropped

    def nodes(self) -> list[Nodes]:
        """Return the nodes of every trainer; the same object as in the state if unchanged."""
        nodes = []
        for before, after in zip(self._nodes_before, self._nodes, strict=True):
            # A trainer only gains nodes or only loses them, so equal sizes are equal sets.
            nodes.append(before if len(before) == len(after) else frozenset(after))
        return nodes

    def _cohort_columns(
        self, state: State, joined: Sequence[tuple[float, Nodes]], within_s: float
    ) -> list[_CohortColumn]:
        """Return one column per cohort and known window end.

        ``joined`` are the cohorts, as (time at which they joined, nodes), and ``within_s`` is the
        horizon. A node is useful until its window ends, and is then lost for certain.
        """
        ends = dict(state.window_ends)
        held: Nodes = frozenset().union(*self._nodes_before)
        cohorts: list[_CohortColumn] = []
        for joined_s, nodes in joined:
            age_s = state.at_s - joined_s
            groups: dict[float, list[str]] = {}
            for node in nodes:
                groups.setdefault(ends.get(node, math.inf), []).append(node)
            for end_s, alike in sorted(groups.items(), reverse=True):
                left_s = max(end_s - state.at_s, 0.0)
                # A window that ends within the horizon is a preemption for certain.
                hit = self._model.hit_probability(age_s, within_s) if left_s >= within_s else 1.0
                cohorts.append(
                    _CohortColumn(
                        column=len(cohorts),
                        useful_s=self._model.useful_s(age_s, min(within_s, left_s)),
                        hit=hit,
                        members=alike,
                        nodes=in_name_order(node for node in alike if node not in held),
                    )
                )
        return cohorts

    def _update_sums(self) -> None:
        """Compute the sums over the cohorts of each trainer, and its present worth, after nodes
        have moved.

        An illegal size is worth as much as the largest legal one below. A hit is a preemption that
        takes nodes of a cohort.
        """
        self._counts = self._held.sum(axis=1)
        self._useful_sum_s = self._held @ self._useful_s
        self._expected_hits = (self._held > 0) @ self._hit_probabilities
        self._cohort_counts = (self._held > 0).sum(axis=1)
        legal = np.array(
            [
                largest_legal(trainer, len(nodes))
                for trainer, nodes in zip(self._trainers, self._nodes, strict=True)
            ]
        )
        share_s = np.divide(
            self._useful_sum_s, self._counts, out=np.zeros(len(legal)), where=self._counts > 0
        )
        # A trainer on a single cohort stalls only in hits that leave it some nodes; on several, the
        # loss of one cohort always leaves it the others.
        hits = np.where(
            self._cohort_counts == 1,
            self._expected_hits * self._model.partial_hit_share(self._counts),
            self._expected_hits,
        )
        self._worths = self._worth_on(
            legal[:, None], share_s[:, None], hits[:, None], self._stall_s
        )

    def _worth_on(
        self, n: npt.NDArray[np.int64], share_s: Array, hits: Array, stall_s: Array
    ) -> Array:
        """Return the worth of each trainer on ``n`` nodes, shape (J, any); -inf where ``n`` is not
        legal.

        The other arguments are those of :meth:`CohortCosts.worth`: the mean useful seconds of the
        nodes (``share_s``), the expected preemptions (``hits``) and the stall that is left
        (``stall_s``).
        """
        # Counts beyond the table read its last column, and are marked illegal below.
        inside = np.minimum(n, self._values.shape[1] - 1)
        value = np.take_along_axis(self._values, inside, axis=1)
        rate = np.take_along_axis(self._rates, inside, axis=1)
        illegal = np.isinf(value) | (n > inside)
        worth = self._costs.worth(np.where(illegal, 0.0, value), rate, share_s, hits, stall_s)
        worth[n == 0] = 0.0
        worth[illegal] = -np.inf
        return worth

    def _worth_gains(self, added: Array, useful_s: Array, hits: Array) -> Array:
        """Return by how much each trainer's worth rises with ``added`` more nodes, shape (J, any);
        -inf where that is impossible.

        ``useful_s`` are the useful seconds of the added nodes together, and ``hits`` the expected
        preemptions of the trainer with them.
        """
        n = self._counts[:, None] + added
        share_s = (self._useful_sum_s[:, None] + useful_s) / n
        # Growth stalls the trainer for R_up, unless a longer stall is under way: they overlap.
        stall_s = np.maximum(self._stall_s, self._costs.up_s)
        gains = self._worth_on(n.astype(np.int64), share_s, hits, stall_s) - self._worths
        gains[self._frozen] = -np.inf
        return gains

    def _divide_cohort(self, cohort: _CohortColumn) -> bool:
        """Give the free nodes of a cohort to the trainers whose worths rise most in sum. Returns
        whether any was given.
        """
        largest = min(len(cohort.nodes), self._values.shape[1] - 1)
        # Column k - 1 of the arrays below is for k more nodes.
        k = np.arange(1.0, largest + 1.0)[None, :]
        has_nodes = self._held[:, cohort.column][:, None] > 0
        # Trainers without nodes of other cohorts: a hit may take all that they have.
        has_no_other = (self._cohort_counts[:, None] - has_nodes) == 0
        partial_share = self._model.partial_hit_share(self._counts[:, None] + k)
        # A cohort that the trainer is on already adds no further hit.
        hits = self._expected_hits[:, None] + np.where(has_nodes, 0.0, cohort.hit)
        hits = np.where(has_no_other, cohort.hit * partial_share, hits)
        gains = self._worth_gains(k, k * cohort.useful_s, hits)
        gains[gains <= _EPSILON * np.abs(self._worths).max()] = -np.inf
        gifts = best_split(gains, len(cohort.nodes))
        for j, count in gifts:
            self._give_nodes(j, cohort, count)
        if gifts:
            self._update_sums()
        return bool(gifts)

    def _unite_cohorts(self) -> bool:
        """Give the free nodes of at least two of the oldest cohorts to the one trainer that gains
        most.

        Returns whether any was given.
        """
        with_free_nodes = [c for c in self._cohorts if c.nodes]
        sizes = np.cumsum([len(c.nodes) for c in with_free_nodes])
        # Beyond the largest size of all trainers, no union can be given.
        usable_count = int(np.searchsorted(sizes, self._values.shape[1] - 1, side="right"))
        cohorts = with_free_nodes[:usable_count]
        if len(cohorts) < 2:
            return False
        columns = [c.column for c in cohorts]
        useful_s = np.cumsum([len(c.nodes) * c.useful_s for c in cohorts])[None, :]
        # Column i of these arrays is the union of the i + 1 oldest cohorts.
        hits = self._expected_hits[:, None] + np.cumsum(
            np.where(self._held[:, columns] > 0, 0.0, self._hit_probabilities[columns]), axis=1
        )
        union_gains = self._worth_gains(sizes[None, : len(cohorts)].astype(float), useful_s, hits)
        gains = union_gains[:, 1:]  # column i is the union of the i + 2 oldest
        j, i = np.unravel_index(int(gains.argmax()), gains.shape)
        if gains[j, i] <= _EPSILON * np.abs(self._worths).max():
            return False
        for cohort in cohorts[: int(i) + 2]:
            self._give_nodes(int(j), cohort, len(cohort.nodes))
        self._update_sums()
        return True

    def _give_nodes(self, j: int, cohort: _CohortColumn, count: int) -> None:
        """Give trainer ``j`` the first ``count`` free nodes of a cohort, and note that its growth
        stalls it. The caller updates the sums afterwards.
        """
        self._nodes[j].update(cohort.nodes[:count])
        del cohort.nodes[:count]
        self._held[j, cohort.column] += count
        self._stall_s[j] = max(self._stall_s[j, 0], self._costs.up_s[j, 0])


def best_split(gains: Array, nodes: int) -> list[tuple[int, int]]:
    """Return the split of ``nodes`` nodes over the rows with the largest sum of gains, as (row,
    count) pairs.

    ``gains[j, k - 1]`` is the gain of row j (a trainer) with k nodes. Gains that are not above 0
    must be -inf. Of equal splits, it is the one that gives less to later rows.
    """
    rows = np.flatnonzero(gains.max(axis=1, initial=-np.inf) > 0)
    if not len(rows):
        return []
    # A dynamic program: best[m] is the largest sum of the rows so far with m nodes, and
    # choices[i, m] the count of rows[i] in it.
    best = np.zeros(nodes + 1)
    choices = np.zeros((len(rows), nodes + 1), dtype=np.int64)
    for choice, j in zip(choices, rows, strict=True):
        extended = best.copy()
        for k in np.flatnonzero(gains[j] > 0) + 1:
            with_k = best[: nodes + 1 - k] + gains[j, k - 1]
            is_better = with_k > extended[k:]
            extended[k:][is_better] = with_k[is_better]
            choice[k:][is_better] = k
        best = extended
    split = []
    nodes_left = nodes
    for choice, j in zip(choices[::-1], rows[::-1], strict=True):
        if count := int(choice[nodes_left]):
            split.append((int(j), count))
            nodes_left -= count
    return split[::-1]


def _samples_left(active: Active) -> float:
    """Return the remaining samples of a trainer; infinite if its length is unknown."""
    remaining = active.remaining_samples
    return math.inf if remaining is None else remaining


def _stall_left_s(active: Active, now_s: float) -> float:
    """Return the seconds that a trainer still stalls because of a rescale that is under way."""
    return 0.0 if active.rescaling is None else max(active.rescaling.ready_s - now_s, 0.0)


def _as_column(values: Sequence[float]) -> Array:
    """Return the values as an array of shape (J, 1)."""
    return np.array(values, dtype=np.float64)[:, None]


@lru_cache(maxsize=8192)
def _legal_values(value: Curve, trainer: Trainer, width: int) -> Array:
    """Return the values per second at 0 .. ``width`` - 1 nodes; -inf where n is not legal."""
    table = np.interp(np.arange(width), value.nodes, value.per_s)
    table[[n for n in range(width) if not trainer.is_legal(n)]] = -np.inf
    table[0] = 0.0
    return table


@lru_cache(maxsize=8192)
def _rate_table(trainer: Trainer, width: int) -> Array:
    """Return the samples per second at 0 .. ``width`` - 1 nodes, legal or not."""
    return np.interp(np.arange(width), trainer.curve.nodes, trainer.curve.per_s)
