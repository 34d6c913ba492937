"""States for tests of policies: trainers with so many nodes and such a past, on a pool with so many
idle nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from bftrainer.decide.allocation.check_decision import check_counts
from bftrainer.decide.domain.events import Event, TimerDue
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Active, Decision, Losses, State

POWER_LAW = Curve(tuple(range(1, 65)), tuple(n**0.678 for n in range(1, 65)))  # n * 0.8^log2(n)


def trainer(
    name: str,
    min_nodes: int = 1,
    max_nodes: int = 16,
    *,
    curve: Curve = POWER_LAW,
    samples: float | None = 1e5,
    sizes: tuple[int, ...] | None = None,
    requested: int | None = None,
) -> Trainer:
    return Trainer(
        name,
        curve,
        min_nodes,
        max_nodes,
        18.0,
        12.0,
        samples,
        sizes=sizes,
        requested_nodes=requested,
        reports_loss=True,
    )


def active(
    name: str,
    nodes: int = 0,
    *,
    run_s: float = 0.0,
    node_s: float = 0.0,
    done: float = 0.0,
    losses: Losses | None = None,
    min_nodes: int = 1,
    max_nodes: int = 16,
    samples: float | None = 1e5,
    curve: Curve = POWER_LAW,
    sizes: tuple[int, ...] | None = None,
    requested: int | None = None,
) -> Active:
    t = trainer(
        name, min_nodes, max_nodes, curve=curve, samples=samples, sizes=sizes, requested=requested
    )
    return Active(
        t, frozenset(f"{name}-{i}" for i in range(nodes)), done, 0.0, run_s, node_s, losses
    )


def state(
    trainers: Sequence[Active], idle: int, *, at_s: float = 0.0, memory: object = None
) -> State:
    """The pool is what the trainers hold and ``idle`` nodes more."""
    pool = frozenset().union(*(a.nodes for a in trainers)) | frozenset(
        f"idle-{i}" for i in range(idle)
    )
    return State(len(trainers) or 1, at_s, pool, tuple(trainers), memory=memory)


def fresh(trainers: Sequence[Active], nodes: int, **others: object) -> State:
    """``nodes`` nodes, whatever the trainers hold of them."""
    held = sum(len(a.nodes) for a in trainers)
    assert held <= nodes
    return state(trainers, nodes - held, **others)  # type: ignore[arg-type]


class _Decide:
    """``decide(policy, state)``: its decision, checked as the coordinator checks it."""

    def __call__(self, policy: Policy, before: State) -> Decision:
        decision, _ = policy.decide(before, self.event(before.at_s))
        check_counts([a.trainer for a in before.active], len(before.pool), decision.counts)
        return decision

    @staticmethod
    def event(at_s: float) -> Event:
        return Event(at_s, (TimerDue(),))


decide = _Decide()
names = (f"t{i}" for i in count())
