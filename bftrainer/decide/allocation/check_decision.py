"""The check behind every policy: counts, and the nodes that a decision names. No numpy: doctor
works without it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from bftrainer.counted import counted
from bftrainer.decide.domain.state import Decision, Nodes, State
from bftrainer.errors import RejectedAnswerError


class Sized(Protocol):
    """What :func:`check_counts` needs of a trainer or of its demand: its legal sizes."""

    @property
    def id(self) -> str: ...

    def is_legal(self, n: int) -> bool: ...


def check_counts(trainers: Sequence[Sized], pool_size: int, counts: Sequence[int]) -> None:
    """Check that there is one count per trainer, all are legal (Eqn 3), and their sum fits the pool
    of ``pool_size`` nodes (Eqn 5).

    Raises :class:`RejectedAnswerError`.
    """
    if len(counts) != len(trainers):
        raise RejectedAnswerError(
            f"{counted(len(counts), 'count')} for {counted(len(trainers), 'trainer')}"
        )
    for trainer, n in zip(trainers, counts, strict=True):
        if not trainer.is_legal(n):
            raise RejectedAnswerError(
                f"trainer {trainer.id} got {counted(n, 'node')}, which is not one of "
                "its legal sizes"
            )
    if sum(counts) > pool_size:
        raise RejectedAnswerError(
            f"{sum(counts)} nodes were allocated, but the pool has {pool_size}"
        )


def check_decision(state: State, decision: Decision) -> None:
    """Check the counts of a policy's decision (Eqns 3, 5), and the nodes that it names for
    trainers, if any (Eqns 5, 6).

    Raises :class:`RejectedAnswerError`.
    """
    check_counts([active.trainer for active in state.active], len(state.pool), decision.counts)
    if decision.nodes:
        _check_named(state, decision)


def _check_named(state: State, decision: Decision) -> None:
    """Check the nodes that a policy names (:attr:`Decision.nodes`) against Eqns 5 and 6.

    Each named set must be as large as the trainer's count, within the pool, a superset or subset of
    the present set, and disjoint from those of all other trainers.
    """
    named = dict(decision.nodes)
    if len(named) < len(decision.nodes):
        raise RejectedAnswerError("the nodes of one trainer were named twice")
    taken: set[str] = set()
    for active, count in zip(state.active, decision.counts, strict=True):
        nodes = named.pop(active.trainer.id, None)
        if nodes is None:  # not named: its present nodes are not free for others
            _add_nodes(taken, active.nodes, active.trainer.id)
            continue
        if len(nodes) != count:
            raise RejectedAnswerError(
                f"trainer {active.trainer.id} got {counted(count, 'node')}, but "
                f"{len(nodes):,} were named"
            )
        if not nodes <= state.pool:
            raise RejectedAnswerError(
                f"trainer {active.trainer.id} got node {min(nodes - state.pool)}, which it "
                "cannot have: the node is not in the "
                "pool, or not of the trainer's class"
            )
        # Eqn 6: a trainer either keeps all its nodes or takes no new ones. Both at once would move
        # it.
        if not (nodes <= active.nodes or nodes >= active.nodes):
            raise RejectedAnswerError(
                f"the named nodes move trainer {active.trainer.id} from "
                f"{min(active.nodes - nodes)} to "
                f"{min(nodes - active.nodes)}"
            )
        _add_nodes(taken, nodes, active.trainer.id)
    if named:  # the loop has taken out those of all admitted trainers
        raise RejectedAnswerError(
            f"nodes were named for {min(named)}, which is no admitted trainer"
        )


def _add_nodes(taken: set[str], nodes: Collection[str], trainer: str) -> None:
    """Add the ``nodes`` of one ``trainer`` to ``taken``, those of the trainers before it. Raises
    :class:`RejectedAnswerError` if one of them has such a node already.

    The caller passes all present nodes of a trainer for which none are named, even where it
    shrinks: it is not decided yet which ones it gives up.
    """
    if not taken.isdisjoint(nodes):
        raise RejectedAnswerError(
            f"node {min(taken.intersection(nodes))} of trainer {trainer} belongs to another trainer"
        )
    taken.update(nodes)


def still_named(
    state: State, decision: Decision, counts: Sequence[int]
) -> tuple[tuple[str, Nodes], ...]:
    """Return the named nodes of ``decision`` that remain valid when a wrapper of the policy changes
    its counts to ``counts``, as (trainer id, its nodes).

    A wrapper is a policy that asks another one and then limits its counts. A trainer keeps its
    names if its count is unchanged and none of its nodes may still belong to another trainer.
    """
    if not decision.nodes or tuple(counts) == decision.counts:
        return decision.nodes
    named = dict(decision.nodes)
    unchanged = {
        admitted.trainer.id: named[admitted.trainer.id]
        for admitted, count, decided in zip(state.active, counts, decision.counts, strict=True)
        if count == decided and admitted.trainer.id in named
    }
    # All others are placed again, and may keep any of their present nodes.
    nodes_of_others: Nodes = frozenset().union(
        *(admitted.nodes for admitted in state.active if admitted.trainer.id not in unchanged)
    )
    return tuple(
        (name, nodes) for name, nodes in unchanged.items() if nodes.isdisjoint(nodes_of_others)
    )
