"""The journal of a replay: a row per decision, kept in memory, and the time that each decision
took.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bftrainer.decide.domain.events import Event, PoolChanged, TrainerFinished, TrainerSubmitted
from bftrainer.decide.domain.problem import Answer
from bftrainer.decide.domain.state import Active, Plan, State
from bftrainer.decide.policies.timed import TimedPolicy
from bftrainer_replay.simulation.replay_world import ReplayTotals, ReplayWorld


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A decision: its time, its event, its counts, and the totals up to then (before the decision's
    own costs).

    ``taken_nodes`` is the number of nodes that left while a trainer held them. ``invested_samples``
    is the cost of the planned rescales as the policy weighs it: the sum of O_j(C_j) * R_j (Eqns 13,
    16).
    """

    at_s: float
    joined: int
    left: int
    submitted: int
    finished: int
    pool_nodes: int
    counts: tuple[tuple[str, int], ...]
    answer: Answer | None
    totals: ReplayTotals
    taken_nodes: int = 0
    invested_samples: float = 0.0

    @property
    def used_nodes(self) -> int:
        """Nodes allocated to trainers."""
        return sum(n for _, n in self.counts)


@dataclass(slots=True)
class Ledger:
    """The journal of one replay. ``on_time`` is called with the time of every event, for a progress
    bar.
    """

    world: ReplayWorld
    policy: TimedPolicy
    on_time: Callable[[float], None] | None = None
    keep_entries: bool = True
    entries: list[LedgerRow] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    _previous_counts: dict[str, int] = field(default_factory=dict)

    def record(self, event: Event, state: State, plan: Plan) -> None:
        """Keep an entry on a decision; the loop calls this after every one.

        Without ``keep_entries``, only the time that it took is kept, and when trainers were
        admitted.
        """
        self.took_s.append(self.policy.took_s)
        if self.on_time is not None:
            self.on_time(event.at_s)
        # Trainers are in order of admission: those before one with a time of admission have one.
        for active in reversed(state.active):
            run = self.world.runs[active.trainer.id]
            if run.admitted_s is not None:
                break
            run.admitted_s = event.at_s
        if not self.keep_entries:
            return
        pool_changes = [change for change in event.changes if isinstance(change, PoolChanged)]
        left = sum(len(change.left) for change in pool_changes)
        planned = list(zip(state.active, plan.decision.counts, strict=True))
        self.entries.append(
            LedgerRow(
                at_s=event.at_s,
                joined=sum(len(change.joined) for change in pool_changes),
                left=left,
                submitted=sum(isinstance(change, TrainerSubmitted) for change in event.changes),
                finished=sum(isinstance(change, TrainerFinished) for change in event.changes),
                pool_nodes=len(state.pool),
                counts=tuple([(active.trainer.id, n) for active, n in planned if n]),
                answer=plan.decision.answer,
                totals=self.world.totals(),
                taken_nodes=self._taken_nodes(state) if left else 0,
                invested_samples=sum(
                    [
                        self._rescale_investment(active, n)
                        for active, n in planned
                        if n != len(active.nodes)
                    ],
                    0.0,
                ),
            )
        )
        self._previous_counts = dict(self.entries[-1].counts)

    def _taken_nodes(self, state: State) -> int:
        """Return how many nodes trainers have lost since the last decision."""
        return sum(
            self._previous_counts.get(active.trainer.id, 0) - len(active.nodes)
            for active in state.active
        )

    def _rescale_investment(self, active: Active, nodes: int) -> float:
        """Return O_j(C_j) * R_j of one trainer that is to have ``nodes`` nodes. It still runs on
        C_j nodes: the decision has not been applied yet.
        """
        trainer = active.trainer
        rescale_s = trainer.scale_up_s if nodes > len(active.nodes) else trainer.scale_down_s
        return self.world.runs[trainer.id].rate * rescale_s
