"""The public API: the names for a policy, a launcher, a site, an importer, a notebook or a command
of your own.

These names stay compatible within a major version; a change is announced in CHANGELOG.md one minor
version ahead. All other modules are internal, except :mod:`bftrainer.progress` and
:mod:`bftrainer.scaling`, which training scripts import, and :mod:`bftrainer_replay.api`, which has
the names for importers and notebooks: logs, replays, conformance checks. A driver of a launcher of
your own imports :mod:`bftrainer.protocol`, which docs/trainer-directory.md describes and whose
version it checks.

A policy is a value with a ``name`` and a ``decide``, and a function that builds it from the
settings::

    from bftrainer.api import Decision, Event, Policy, PolicySettings, State

The entry points for plug-ins are the groups ``bftrainer.policies``, ``bftrainer.launchers``,
``bftrainer.sites`` and ``bftrainer.commands``.
"""

from bftrainer.allocation.objectives import Objective as Objective
from bftrainer.cli.command_table import CommandEntry as CommandEntry
from bftrainer.cluster.ports import NodeHolder as NodeHolder
from bftrainer.cluster.ports import PeerPilots as PeerPilots
from bftrainer.cluster.ports import Scheduler as Scheduler
from bftrainer.config.pilot import PilotConfig as PilotConfig
from bftrainer.config.trainer_file import TrainerSpec as TrainerSpec
from bftrainer.config.trainer_file import read_trainer_file as read_trainer_file
from bftrainer.config.validation import ConfigTable as ConfigTable
from bftrainer.core.windows import PilotJobs as PilotJobs
from bftrainer.domain.checks import Check as Check
from bftrainer.domain.checks import CheckStatus as CheckStatus
from bftrainer.domain.cluster import Acquired as Acquired
from bftrainer.domain.cluster import Availability as Availability
from bftrainer.domain.cluster import Device as Device
from bftrainer.domain.cluster import Fragment as Fragment
from bftrainer.domain.cluster import FragmentPhase as FragmentPhase
from bftrainer.domain.cluster import Hidden as Hidden
from bftrainer.domain.cluster import HoldingPermit as HoldingPermit
from bftrainer.domain.cluster import NodeRequest as NodeRequest
from bftrainer.domain.cluster import NodeView as NodeView
from bftrainer.domain.cluster import Observation as Observation
from bftrainer.domain.cluster import PeerPilot as PeerPilot
from bftrainer.domain.cluster import PendingJob as PendingJob
from bftrainer.domain.cluster import Refusal as Refusal
from bftrainer.domain.cluster import Reservation as Reservation
from bftrainer.domain.events import Change as Change
from bftrainer.domain.events import Event as Event
from bftrainer.domain.events import ParallelChanged as ParallelChanged
from bftrainer.domain.events import PoolChanged as PoolChanged
from bftrainer.domain.events import TimerDue as TimerDue
from bftrainer.domain.events import TrainerFinished as TrainerFinished
from bftrainer.domain.events import TrainerSubmitted as TrainerSubmitted
from bftrainer.domain.model import Curve as Curve
from bftrainer.domain.model import Trainer as Trainer
from bftrainer.domain.needs import Need as Need
from bftrainer.domain.ports import Allocator as Allocator
from bftrainer.domain.ports import Policy as Policy
from bftrainer.domain.problem import Answer as Answer
from bftrainer.domain.problem import Problem as Problem
from bftrainer.domain.problem import Status as Status
from bftrainer.domain.problem import TrainerDemand as TrainerDemand
from bftrainer.domain.sizes import largest_legal as largest_legal
from bftrainer.domain.state import Active as Active
from bftrainer.domain.state import Decision as Decision
from bftrainer.domain.state import Losses as Losses
from bftrainer.domain.state import Nodes as Nodes
from bftrainer.domain.state import State as State
from bftrainer.errors import BFTrainerError as BFTrainerError
from bftrainer.errors import CommandError as CommandError
from bftrainer.errors import InputFileError as InputFileError
from bftrainer.errors import InvalidValueError as InvalidValueError
from bftrainer.errors import SchedulerError as SchedulerError
from bftrainer.errors import SolverError as SolverError
from bftrainer.errors import UnknownNameError as UnknownNameError
from bftrainer.errors import UnknownStateError as UnknownStateError
from bftrainer.errors import UserError as UserError
from bftrainer.errors import WindowsUnknownError as WindowsUnknownError
from bftrainer.live.observed import ObservedSite as ObservedSite
from bftrainer.live.site_plugin import BatchSystem as BatchSystem
from bftrainer.live.site_plugin import JobNodes as JobNodes
from bftrainer.live.site_plugin import OwnJob as OwnJob
from bftrainer.live.site_plugin import Site as Site
from bftrainer.live.site_plugin import SitePlugin as SitePlugin
from bftrainer.plugins import build_policy as build_policy
from bftrainer.plugins import find_objective as find_objective
from bftrainer.policies.settings import PolicySettings as PolicySettings
from bftrainer.policies.shares import equal_shares as equal_shares
from bftrainer.protocol.messages import StartedPer as StartedPer
from bftrainer.scaling import Scaling as Scaling
from bftrainer.system.clock import Clock as Clock
