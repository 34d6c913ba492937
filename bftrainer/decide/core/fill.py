"""Pools that fill: workers without a group, on the nodes that no training uses. Pure.

The decision is lexicographic. The trainings are decided, and placed, as if there were no such pool:
its nodes are idle nodes to them, and it takes no place of P_jmax. What they leave goes to the
pools. So no weight has to be small enough, and neither a policy nor an objective knows of pools.
Workers are independent, so a pool may give up a node and take another one at the same time (Eqn 6
does not apply): each node that it takes costs it a start, no other node notices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from bftrainer.decide.allocation.placement import in_name_order
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.state import Active, Nodes, Plan, State

_NONE: Nodes = frozenset()


def trainings(state: State) -> State:
    """Return the state without pools that fill; the same object if there is none."""
    if not any(admitted.trainer.fill for admitted in state.active):
        return state
    return replace(
        state, active=tuple(admitted for admitted in state.active if not admitted.trainer.fill)
    )


def filled(state: State, plan: Plan) -> Plan:
    """Return the plan for the trainings with the rest of the nodes given to the pools that fill:
    independent workers, on nodes that no training uses.

    ``plan`` is that of the ``state`` without pools. Each pool gets an equal part of the free nodes
    of one node class, at most ``max_nodes``. A node whose window ends before a worker could start
    is left out.
    """
    planned = iter(plan.nodes)
    nodes = [_NONE if admitted.trainer.fill else next(planned) for admitted in state.active]
    free = state.pool.difference(*plan.nodes)  # a pool's present nodes are free, too
    pool_indices = [j for j, admitted in enumerate(state.active) if admitted.trainer.fill]
    for name, of_class in _by_class(state, free):
        pools_of_class = [
            j
            for j in pool_indices
            if not nodes[j] and _class_of(state.active[j], state, free) == name
        ]
        _fill_class(state, of_class, pools_of_class, nodes)
    decision = replace(plan.decision, counts=tuple(map(len, nodes)))
    return Plan(decision, tuple(nodes), plan.memory)


def _fill_class(state: State, free: Nodes, members: Sequence[int], nodes: list[Nodes]) -> None:
    """Divide the ``free`` nodes of one class among pools, and write what each gets into ``nodes``,
    which has one set per admitted trainer.

    ``members`` are the indices of the pools. Every pool keeps the nodes of its part that it has
    before any pool takes another node. A pool that keeps its nodes has the same object in
    ``nodes``: rescales compare identity first.
    """
    ends = dict(state.window_ends)
    counts = _equal_parts([state.active[j].trainer for j in members], len(free))
    for j, count in sorted(zip(members, counts, strict=True)):
        nodes[j] = _first_nodes(state.active[j].nodes & free, count)
        free -= nodes[j]
    for j, count in zip(members, counts, strict=True):
        active = state.active[j]
        if len(nodes[j]) < count:
            lasting = free
            if ends:
                # A worker that starts now would have nothing done when the window of its node ends.
                ready_s = state.at_s + active.trainer.growth_s
                lasting = frozenset(n for n in free if ends.get(n, math.inf) > ready_s)
            more = _first_nodes(lasting, count - len(nodes[j]))
            nodes[j] |= more
            free -= more
        # Too few nodes for its smallest size: the pool waits, and the next one may take them.
        if not active.trainer.is_legal(len(nodes[j])):
            free |= nodes[j]
            nodes[j] = _NONE
        elif nodes[j] == active.nodes:
            nodes[j] = active.nodes


def _first_nodes(nodes: Nodes, count: int) -> Nodes:
    """Return the first ``count`` nodes in name order.

    A set that is no larger than that is returned as it is, unsorted: it may have thousands of
    nodes.
    """
    return nodes if len(nodes) <= count else frozenset(in_name_order(nodes)[:count])


def _by_class(state: State, free: Nodes) -> list[tuple[str, Nodes]]:
    """Return the ``free`` nodes of each class, as (class, nodes); those without a class are
    first.
    """
    rest = free.difference(*(nodes for _, nodes in state.classes))
    return [("", rest), *((name, nodes & free) for name, nodes in state.classes)]


def _class_of(admitted: Active, state: State, free: Nodes) -> str:
    """Return the name of the node class whose nodes a pool gets, if the trainings leave the nodes
    ``free``.

    It is the class that the pool names; else that of its present nodes, as long as any of them is
    free; else the class with the most free nodes.
    """
    if admitted.trainer.node_class is not None:
        return admitted.trainer.node_class
    name, _ = max(
        _by_class(state, free),
        key=lambda entry: (not admitted.nodes.isdisjoint(entry[1]), len(entry[1])),
    )
    return name


def _equal_parts(pools: Sequence[Trainer], free: int) -> list[int]:
    """Return equal parts of ``free`` nodes, one number per pool; what is beyond a pool's largest
    size goes to the others.
    """
    parts = [0] * len(pools)
    rest = free
    smallest_first = sorted(range(len(pools)), key=lambda j: pools[j].max_nodes)
    for done_count, j in enumerate(smallest_first):
        # Rounded up, so that no node is left over: the pools that are served first get one more.
        share = math.ceil(rest / (len(pools) - done_count))
        parts[j] = min(pools[j].max_nodes, share)
        rest -= parts[j]
    return parts
