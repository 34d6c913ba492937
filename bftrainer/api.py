"""The names that a policy or an objective of your own needs. They stay compatible within a major version.

A policy is a value with a ``name`` and a ``decide``, and a function that builds it from the settings::

    from bftrainer.api import Decision, Event, Policy, PolicySettings, State
"""

from __future__ import annotations

from bftrainer.domain.events import (
    Change,
    Event,
    ParallelChanged,
    PoolChanged,
    TimerDue,
    TrainerFinished,
    TrainerSubmitted,
)
from bftrainer.domain.model import Curve, Trainer
from bftrainer.domain.ports import Policy
from bftrainer.domain.problem import Answer
from bftrainer.domain.state import Active, Decision, Losses, State
from bftrainer.policies.settings import PolicySettings

__all__ = [
    "Active",
    "Answer",
    "Change",
    "Curve",
    "Decision",
    "Event",
    "Losses",
    "ParallelChanged",
    "Policy",
    "PolicySettings",
    "PoolChanged",
    "State",
    "TimerDue",
    "Trainer",
    "TrainerFinished",
    "TrainerSubmitted",
]
