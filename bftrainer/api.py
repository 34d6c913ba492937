"""The public API: the names for a policy, a launcher, a site, an importer, a notebook or a command of your own.

These names stay compatible within a major version; a change is announced in CHANGELOG.md one minor version ahead. All other
modules are internal, except :mod:`bftrainer.progress` and :mod:`bftrainer.scaling`, which training scripts import, and
:mod:`bftrainer_replay.api`, which has the names for importers and notebooks: logs, replays, conformance checks. A driver of a
launcher of your own imports :mod:`bftrainer.protocol`, which docs/trainer-directory.md describes and whose version it checks.

A policy is a value with a ``name`` and a ``decide``, and a function that builds it from the settings::

    from bftrainer.api import Decision, Event, Policy, PolicySettings, State

The entry points for plug-ins are the groups ``bftrainer.policies``, ``bftrainer.launchers``,
``bftrainer.sites`` and ``bftrainer.commands``.
"""

from __future__ import annotations

from bftrainer.allocation.objectives import Objective
from bftrainer.cli.command_table import CommandEntry
from bftrainer.config.pilot import PilotConfig
from bftrainer.config.trainer_file import TrainerSpec, read_trainer_file
from bftrainer.config.validation import ConfigTable
from bftrainer.core.windows import PilotJobs
from bftrainer.domain.checks import Check, CheckStatus
from bftrainer.domain.cluster import (
    Acquired,
    Availability,
    Device,
    Fragment,
    FragmentPhase,
    Hidden,
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
from bftrainer.domain.problem import Answer, Problem, Status, TrainerDemand
from bftrainer.domain.sizes import largest_legal
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
from bftrainer.live.job_chaining import OwnJob
from bftrainer.live.observed import ObservedSite
from bftrainer.live.site import BatchSystem, JobNodes, Site, SitePlugin
from bftrainer.plugins import build_policy, find_objective
from bftrainer.policies.needs import Need
from bftrainer.policies.settings import PolicySettings
from bftrainer.policies.shares import equal_shares
from bftrainer.protocol.messages import StartedPer
from bftrainer.scaling import Scaling

__all__ = [
    "Acquired",
    "Active",
    "Allocator",
    "Answer",
    "Availability",
    "BFTrainerError",
    "BatchSystem",
    "Change",
    "Check",
    "CheckStatus",
    "Clock",
    "CommandEntry",
    "CommandError",
    "ConfigTable",
    "Curve",
    "Decision",
    "Device",
    "Event",
    "Fragment",
    "FragmentPhase",
    "Hidden",
    "InputFileError",
    "InvalidValueError",
    "JobNodes",
    "Losses",
    "Need",
    "NodeHolder",
    "NodeRequest",
    "NodeView",
    "Nodes",
    "Objective",
    "Observation",
    "ObservedSite",
    "OwnJob",
    "ParallelChanged",
    "PeerPilot",
    "PeerPilots",
    "PendingJob",
    "PilotConfig",
    "PilotJobs",
    "Policy",
    "PolicySettings",
    "PoolChanged",
    "Problem",
    "Refusal",
    "Reservation",
    "Scaling",
    "Scheduler",
    "SchedulerError",
    "Site",
    "SitePlugin",
    "SolverError",
    "StartedPer",
    "State",
    "Status",
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
