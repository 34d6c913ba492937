"""The replay of a queue from one past moment, for a worker anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.plugins import build_policy, find_objective
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.past_runs import took_s


@dataclass(frozen=True, slots=True)
class PastQueue:
    """The trainers of a queue, the log of their past, and the names and numbers from which the
    policy is built.
    """

    log: LogWindow
    trainers: tuple[Trainer, ...]
    policy: str
    objective: str
    forward_s: float
    seed: int
    gather_s: float
    max_parallel: int | None


def replay_past(queue: PastQueue, start_s: float) -> NDArray[np.float64]:
    """Return the seconds until each trainer of a queue is done, if it had begun at ``start_s`` in
    its log.

    Infinite where the log ends first.
    """
    settings = PolicySettings(
        Exact(),
        find_objective(queue.objective),
        queue.forward_s,
        queue.seed,
        gather_s=queue.gather_s,
    )
    policy = build_policy(queue.policy, settings)
    return took_s(queue.log, queue.trainers, policy, queue.max_parallel, start_s)
