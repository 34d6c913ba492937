"""The names that a policy or an objective of your own needs. They stay compatible within a major version.

A policy is a value with a ``name`` and a ``decide``, and a function that builds it from the settings::

    from bftrainer.api import Decision, Event, Policy, PolicySettings, State
"""

from __future__ import annotations

from bftrainer.events import (
    Change,
    Event,
    ParallelChanged,
    PoolChanged,
    TimerDue,
    TrainerFinished,
    TrainerSubmitted,
)
from bftrainer.model import Curve, Trainer
from bftrainer.policies.settings import PolicySettings
from bftrainer.ports import Policy
from bftrainer.problem import Answer
from bftrainer.state import Active, Decision, Losses, State

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
