"""Allocation by learning phase (Wei and Shudo): more nodes for tasks that have made more progress.

When a task arrives, each trains 100 iterations on an equal share. Then the task whose loss changed
less is the older one and gets more: 3 of 4 devices, the younger 1 ([Wei and Shudo, section 5]).
That is decided once; when a task ends, the others share its nodes.

Our reading where the paper is silent: with more than two tasks, weights follow the rank of age, 2r
- 1 for rank r (3:1 for two); changes are per 100 iterations where a task did more; a task without a
reported loss counts as youngest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import rates
from bftrainer.decide.domain.needs import Need
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Active, Decision, State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.decide.policies.shares import equal_shares
from bftrainer_papers.policies.shares import by_weight

# A task slower than its curve is checked again after this long.
_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class LossMark:
    """The state of a task when its observation began: its samples, and its loss if it had reported
    one.
    """

    id: str
    samples: float
    loss: float | None


@dataclass(frozen=True, slots=True)
class TrainingPhase:
    """Memory of the policy: the marks of an observation in progress, or the ids that it found,
    oldest first (``ages``).
    """

    marks: tuple[LossMark, ...] = ()
    ages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LossPhase:
    """Gives more nodes to older tasks: the less the loss of a task changes, the older it counts.
    Ages are decided after ``iterations`` of ``batch_samples`` samples each.
    """

    iterations: int = 100
    batch_samples: float = 512.0
    name: str = "loss-phase"
    needs: frozenset[Need] = frozenset({Need.LOSSES})

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Observe all tasks at equal shares after an arrival; then give more nodes to the older
        ones.

        The memory is either the observation in progress (``marks``) or its result, the tasks from
        the oldest to the youngest (``ages``), which holds until the next arrival. The oldest of n
        tasks has weight 2n - 1, the youngest 1: 3:1 for two.
        """
        phase = state.memory if isinstance(state.memory, TrainingPhase) else TrainingPhase()
        tasks = {admitted.trainer.id: admitted for admitted in state.active}
        phase_ids = {mark.id for mark in phase.marks} | set(phase.ages)
        # A task that is not in the memory has just arrived.
        if not tasks.keys() <= phase_ids:
            phase = TrainingPhase(marks=tuple(_loss_mark(admitted) for admitted in state.active))
        phase = TrainingPhase(
            tuple(mark for mark in phase.marks if mark.id in tasks),
            tuple(name for name in phase.ages if name in tasks),
        )
        trainers, nodes = [admitted.trainer for admitted in state.active], len(state.pool)
        if phase.marks:
            equal = equal_shares(trainers, nodes)
            # A single task has nobody to be compared with.
            wait_s = self._wait_s(phase, state.active, equal) if len(tasks) > 1 else 0.0
            if wait_s > 0:
                return Decision(equal, state.at_s + max(wait_s, _AGAIN_S)), phase
            phase = TrainingPhase(ages=self._oldest_first(phase, tasks))
        rank = {name: len(phase.ages) - place for place, name in enumerate(phase.ages)}
        weights = [2.0 * rank[trainer.id] - 1.0 for trainer in trainers]
        return Decision(by_weight(trainers, weights, nodes)), phase

    def _wait_s(
        self, phase: TrainingPhase, active: tuple[Active, ...], counts: tuple[int, ...]
    ) -> float:
        """Return the seconds until every task with nodes has done its iterations of the
        observation.

        They are counted from the task's mark (its samples when the observation began), at its
        present rate; 0 if all tasks have done them.
        """
        marks = {mark.id: mark for mark in phase.marks}
        wait_s = 0.0
        for task, n in zip(active, counts, strict=True):
            missing = self.iterations * self.batch_samples - (
                task.samples_done - marks[task.trainer.id].samples
            )
            rate = rates(task.trainer)[n]
            # Whole samples: a wake-up at the predicted instant must not be short by rounding.
            if rate > 0 and missing > 1e-6 * self.batch_samples:
                wait_s = max(wait_s, missing / rate)
        return wait_s

    def _oldest_first(self, phase: TrainingPhase, tasks: dict[str, Active]) -> tuple[str, ...]:
        change = {mark.id: self._loss_change(mark, tasks[mark.id]) for mark in phase.marks}
        place = {mark.id: j for j, mark in enumerate(phase.marks)}
        return tuple(sorted(change, key=lambda name: (change[name], place[name])))

    def _loss_change(self, mark: LossMark, task: Active) -> float:
        done = task.samples_done - mark.samples
        if mark.loss is None or task.losses is None or done <= 0:
            return math.inf
        return abs(task.losses.latest - mark.loss) * self.iterations * self.batch_samples / done


def _loss_mark(active: Active) -> LossMark:
    return LossMark(
        active.trainer.id,
        active.samples_done,
        None if active.losses is None else active.losses.latest,
    )


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    options = settings.option_values("loss-phase", iterations=100, batch_samples=512.0)
    return replace(
        LossPhase(), iterations=int(options["iterations"]), batch_samples=options["batch_samples"]
    )
