"""The public API of the replay package: names for importers of logs and notebooks, and the
conformance checks.

These names stay compatible within a major version, as in :mod:`bftrainer.api`. A log and a workload
become a scenario, and a policy plays it::

    from bftrainer.api import PolicySettings, build_policy, find_objective
    from bftrainer_replay.api import Scenario, cut, hpo, open_log, play, submissions

    opened = open_log(Path("idle.csv"))
    window = cut(opened.log)
    arrivals = hpo("shufflenet", submissions(window.start_s, count=100, spacing_s=0.0))
    outcome = play(Scenario(window, arrivals), policy)
"""

from bftrainer_replay.conformance.checks import CHECKS as CHECKS
from bftrainer_replay.logs.event_log import read_event_log as read_event_log
from bftrainer_replay.logs.event_log import write_event_log as write_event_log
from bftrainer_replay.logs.model import EventLog as EventLog
from bftrainer_replay.logs.model import LogWindow as LogWindow
from bftrainer_replay.logs.model import PoolEvent as PoolEvent
from bftrainer_replay.logs.model import restricted_log as restricted_log
from bftrainer_replay.logs.open import LogFormat as LogFormat
from bftrainer_replay.logs.open import OpenedLog as OpenedLog
from bftrainer_replay.logs.open import open_log as open_log
from bftrainer_replay.logs.source import ImportOptions as ImportOptions
from bftrainer_replay.logs.source import Source as Source
from bftrainer_replay.simulation.bounds import no_cost_bound as no_cost_bound
from bftrainer_replay.simulation.play import ReplayOutcome as ReplayOutcome
from bftrainer_replay.simulation.play import Scenario as Scenario
from bftrainer_replay.simulation.play import equivalent_nodes as equivalent_nodes
from bftrainer_replay.simulation.play import play as play
from bftrainer_replay.simulation.play import static_outcome as static_outcome
from bftrainer_replay.simulation.progress import CostModel as CostModel
from bftrainer_replay.simulation.progress import ReplayedTrainer as ReplayedTrainer
from bftrainer_replay.simulation.replay_world import Arrival as Arrival
from bftrainer_replay.simulation.replay_world import DecideOn as DecideOn
from bftrainer_replay.simulation.replay_world import ReplayTotals as ReplayTotals
from bftrainer_replay.sweep.results import SweepRow as SweepRow
from bftrainer_replay.sweep.run_grid import SweepOutcome as SweepOutcome
from bftrainer_replay.sweep.run_grid import sweep as sweep
from bftrainer_replay.workload.curves import TABLE_2 as TABLE_2
from bftrainer_replay.workload.curves import read_curves as read_curves
from bftrainer_replay.workload.workload import Workload as Workload
from bftrainer_replay.workload.workload import hpo as hpo
from bftrainer_replay.workload.workload import read_workload as read_workload
from bftrainer_replay.workload.workload import submissions as submissions
from bftrainer_replay.workload.workload import trainers_of_many_users as trainers_of_many_users
