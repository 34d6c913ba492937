"""Metrics for users: completion times, queueing times and fairness, from a replay's runs and the
workload's submissions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bftrainer_replay.simulation.progress import ReplayedTrainer
from bftrainer_replay.simulation.replay_world import Arrival


@dataclass(frozen=True, slots=True)
class Completion:
    """Seconds over the completed trainers; queueing time over those that have started. NaN if there
    are none.

    ``jain`` is Jain's index of the speeds 1 / slowdown, 1 if all are slowed down alike. The
    slowdown of a trainer is its completion time divided by its run time alone at its best size.
    """

    completed: int
    mean_s: float
    last_s: float
    queueing_s: float
    jain: float
    worst_slowdown: float


def completion(arrivals: Sequence[Arrival], runs: Sequence[ReplayedTrainer]) -> Completion:
    """Return the metrics of completion times, queueing and fairness of a replay.

    Trainers stopped by a bug or a user count as completed, but not for fairness, because their
    length is not that of their work.
    """
    submitted_s = {arrival.trainer.id: arrival.at_s for arrival in arrivals}
    completion_s, queueing_s, ends_s = [], [], []
    slowdowns = []
    for run in runs:
        at_s = submitted_s[run.trainer.id]
        if run.started_s is not None:
            queueing_s.append(run.started_s - at_s)
        if run.finished_s is None:
            continue
        completion_s.append(run.finished_s - at_s)
        ends_s.append(run.finished_s)
        if not run.stopped and run.trainer.samples_total is not None:
            alone_s = run.trainer.samples_total / (max(run.trainer.curve.per_s) or 1.0)
            # A slowdown of 0 would make the speed infinite.
            slowdowns.append(max((run.finished_s - at_s) / alone_s, 1e-9))
    relative_speeds = 1.0 / np.array(slowdowns or [np.nan])
    first_s = min(submitted_s.values(), default=0.0)
    return Completion(
        completed=len(completion_s),
        mean_s=float(np.mean(completion_s)) if completion_s else float("nan"),
        last_s=max(ends_s) - first_s if ends_s else float("nan"),
        queueing_s=float(np.mean(queueing_s)) if queueing_s else float("nan"),
        jain=float(
            relative_speeds.sum() ** 2 / (len(relative_speeds) * (relative_speeds**2).sum())
        ),
        worst_slowdown=max(slowdowns, default=float("nan")),
    )
