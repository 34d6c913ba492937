"""The public API: the names for a policy, a launcher, a site, an importer, a notebook or a command
of your own.

These names stay compatible within a major version; a change is announced in CHANGELOG.md one minor
version ahead. All other modules are internal, except :mod:`bftrainer.progress` and
:mod:`bftrainer.scaling`, which training scripts import, and :mod:`bftrainer_replay.api`, which has
the names for importers and notebooks: logs, replays, conformance checks. A driver of a launcher of
your own imports :mod:`bftrainer.wires`, which docs/trainer-directory.md describes and whose
version it checks.

A policy is a value with a ``name`` and a ``decide``, and a function that builds it from the
settings::

    from bftrainer.api import Decision, Event, Policy, PolicySettings, State

The entry points for plug-ins are the groups ``bftrainer.policies``, ``bftrainer.launchers``,
``bftrainer.sites`` and ``bftrainer.commands``.
"""

from bftrainer.cluster.model import Acquired as Acquired
from bftrainer.cluster.model import Availability as Availability
from bftrainer.cluster.model import Device as Device
from bftrainer.cluster.model import Fragment as Fragment
from bftrainer.cluster.model import FragmentPhase as FragmentPhase
from bftrainer.cluster.model import GiveWay as GiveWay
from bftrainer.cluster.model import Hidden as Hidden
from bftrainer.cluster.model import HoldingPermit as HoldingPermit
from bftrainer.cluster.model import NodeRequest as NodeRequest
from bftrainer.cluster.model import NodeView as NodeView
from bftrainer.cluster.model import NodeWaits as NodeWaits
from bftrainer.cluster.model import Observation as Observation
from bftrainer.cluster.model import PeerPilot as PeerPilot
from bftrainer.cluster.model import PendingJob as PendingJob
from bftrainer.cluster.model import Refusal as Refusal
from bftrainer.cluster.model import Reservation as Reservation
from bftrainer.cluster.observed import ObservedSite as ObservedSite
from bftrainer.cluster.past_jobs import JobLog as JobLog
from bftrainer.cluster.past_jobs import Outage as Outage
from bftrainer.cluster.past_jobs import PastJob as PastJob
from bftrainer.cluster.ports import NodeHolder as NodeHolder
from bftrainer.cluster.ports import PeerPilots as PeerPilots
from bftrainer.cluster.ports import Scheduler as Scheduler
from bftrainer.cluster.ports import YieldPort as YieldPort
from bftrainer.cluster.site_advice import AccountedSite as AccountedSite
from bftrainer.cluster.site_advice import AdjustableSite as AdjustableSite
from bftrainer.cluster.site_advice import DecidedKey as DecidedKey
from bftrainer.cluster.site_advice import ProposingSite as ProposingSite
from bftrainer.cluster.site_advice import SiteProposal as SiteProposal
from bftrainer.cluster.site_advice import SiteWishes as SiteWishes
from bftrainer.cluster.site_plugin import BatchSystem as BatchSystem
from bftrainer.cluster.site_plugin import JobNodes as JobNodes
from bftrainer.cluster.site_plugin import OwnJob as OwnJob
from bftrainer.cluster.site_plugin import Site as Site
from bftrainer.cluster.site_plugin import SitePlugin as SitePlugin
from bftrainer.cluster.windows import PilotJobs as PilotJobs
from bftrainer.config.pilot import PilotConfig as PilotConfig
from bftrainer.config.trainer_file import TrainerSpec as TrainerSpec
from bftrainer.config.trainer_file import read_trainer_file as read_trainer_file
from bftrainer.config.validation import ConfigTable as ConfigTable
from bftrainer.console.cli.command_table import CommandEntry as CommandEntry
from bftrainer.decide.allocation.objectives import Objective as Objective
from bftrainer.decide.domain.checks import Check as Check
from bftrainer.decide.domain.checks import CheckStatus as CheckStatus
from bftrainer.decide.domain.events import Change as Change
from bftrainer.decide.domain.events import Event as Event
from bftrainer.decide.domain.events import ParallelChanged as ParallelChanged
from bftrainer.decide.domain.events import PoolChanged as PoolChanged
from bftrainer.decide.domain.events import TimerDue as TimerDue
from bftrainer.decide.domain.events import TrainerFinished as TrainerFinished
from bftrainer.decide.domain.events import TrainerSubmitted as TrainerSubmitted
from bftrainer.decide.domain.model import Curve as Curve
from bftrainer.decide.domain.model import Trainer as Trainer
from bftrainer.decide.domain.needs import Need as Need
from bftrainer.decide.domain.ports import Allocator as Allocator
from bftrainer.decide.domain.ports import Policy as Policy
from bftrainer.decide.domain.problem import Answer as Answer
from bftrainer.decide.domain.problem import Problem as Problem
from bftrainer.decide.domain.problem import Status as Status
from bftrainer.decide.domain.problem import TrainerDemand as TrainerDemand
from bftrainer.decide.domain.sizes import largest_legal as largest_legal
from bftrainer.decide.domain.state import Active as Active
from bftrainer.decide.domain.state import Decision as Decision
from bftrainer.decide.domain.state import Losses as Losses
from bftrainer.decide.domain.state import Nodes as Nodes
from bftrainer.decide.domain.state import State as State
from bftrainer.decide.policies.settings import PolicySettings as PolicySettings
from bftrainer.decide.policies.shares import equal_shares as equal_shares
from bftrainer.decide.yielding.facts import JobCounters as JobCounters
from bftrainer.decide.yielding.facts import ListedHolder as ListedHolder
from bftrainer.decide.yielding.facts import NodeWait as NodeWait
from bftrainer.errors import BFTrainerError as BFTrainerError
from bftrainer.errors import CommandError as CommandError
from bftrainer.errors import InputFileError as InputFileError
from bftrainer.errors import InvalidValueError as InvalidValueError
from bftrainer.errors import SchedulerError as SchedulerError
from bftrainer.errors import SolverError as SolverError
from bftrainer.errors import UndecidedError as UndecidedError
from bftrainer.errors import UnknownNameError as UnknownNameError
from bftrainer.errors import UnknownStateError as UnknownStateError
from bftrainer.errors import UserError as UserError
from bftrainer.errors import WindowsUnknownError as WindowsUnknownError
from bftrainer.plugins import build_policy as build_policy
from bftrainer.plugins import find_objective as find_objective
from bftrainer.scaling import Scaling as Scaling
from bftrainer.system.clock import Clock as Clock
from bftrainer.wires.messages import StartedPer as StartedPer
