"""The public API: what a policy, a launcher, a site, an importer, a notebook or a command of your own needs.

These names stay compatible within a major version; a change is announced in CHANGELOG.md one minor version ahead. All other
modules are internal, except :mod:`bftrainer.progress` and :mod:`bftrainer.scaling`, which training scripts import, and
:mod:`bftrainer_replay.api`, which has the names for importers and notebooks: logs, replays, conformance checks.

A policy is a value with a ``name`` and a ``decide``, and a function that builds it from the settings::

    from bftrainer.api import Decision, Event, Policy, PolicySettings, State

The entry points for plug-ins are the groups ``bftrainer.policies``, ``bftrainer.launchers`` and ``bftrainer.commands``.
"""

from __future__ import annotations

from bftrainer.allocation.objectives import Objective
from bftrainer.cli.command_table import CommandEntry
from bftrainer.config.trainer_file import StartedPer, TrainerSpec, read_trainer_file
from bftrainer.domain.cluster import (
    Acquired,
    Fragment,
    FragmentPhase,
    Hidden,
    NodeFlag,
    NodeRequest,
    NodeView,
    Observation,
    PeerPilot,
    PendingJob,
    Refusal,
    Reservation,
)
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
from bftrainer.domain.ports import Allocator, Clock, NodeHolder, PeerPilots, Policy, Scheduler
from bftrainer.domain.problem import Answer, Problem, TrainerDemand
from bftrainer.domain.state import Active, Decision, Losses, Nodes, State
from bftrainer.errors import (
    BFTrainerError,
    CommandError,
    InputFileError,
    InvalidValueError,
    SchedulerError,
    SolverError,
    UnknownNameError,
    UnknownStateError,
    UserError,
    WindowsUnknownError,
)
from bftrainer.plugins import build_policy, find_objective
from bftrainer.policies.equal_share import equal_shares, largest_legal
from bftrainer.policies.needs import Need
from bftrainer.policies.settings import PolicySettings
from bftrainer.scaling import Scaling

__all__ = [
    "Acquired",
    "Active",
    "Allocator",
    "Answer",
    "BFTrainerError",
    "Change",
    "Clock",
    "CommandEntry",
    "CommandError",
    "Curve",
    "Decision",
    "Event",
    "Fragment",
    "FragmentPhase",
    "Hidden",
    "InputFileError",
    "InvalidValueError",
    "Losses",
    "Need",
    "NodeFlag",
    "NodeHolder",
    "NodeRequest",
    "NodeView",
    "Nodes",
    "Objective",
    "Observation",
    "ParallelChanged",
    "PeerPilot",
    "PeerPilots",
    "PendingJob",
    "Policy",
    "PolicySettings",
    "PoolChanged",
    "Problem",
    "Refusal",
    "Reservation",
    "Scaling",
    "Scheduler",
    "SchedulerError",
    "SolverError",
    "StartedPer",
    "State",
    "TimerDue",
    "Trainer",
    "TrainerDemand",
    "TrainerFinished",
    "TrainerSpec",
    "TrainerSubmitted",
    "UnknownNameError",
    "UnknownStateError",
    "UserError",
    "WindowsUnknownError",
    "build_policy",
    "equal_shares",
    "find_objective",
    "largest_legal",
    "read_trainer_file",
]
