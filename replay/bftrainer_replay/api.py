"""The public API of the replay package: names for importers of logs and notebooks, and the conformance checks.

These names stay compatible within a major version, as in :mod:`bftrainer.api`. A log and a workload become a scenario,
and a policy plays it::

    from bftrainer.api import PolicySettings, build_policy, find_objective
    from bftrainer_replay.api import Scenario, cut, hpo, open_log, play, submissions

    opened = open_log(Path("idle.csv"))
    window = cut(opened.log)
    arrivals = hpo("shufflenet", submissions(window.start_s, count=100, spacing_s=0.0))
    outcome = play(Scenario(window, arrivals), policy)
"""

from __future__ import annotations

from bftrainer_replay.conformance.checks import CHECKS
from bftrainer_replay.logs.event_log import read_event_log, write_event_log
from bftrainer_replay.logs.model import EventLog, LogWindow, PoolEvent, cut
from bftrainer_replay.logs.open import LogFormat, OpenedLog, open_log
from bftrainer_replay.logs.source import ImportOptions, Source
from bftrainer_replay.simulation.bounds import no_cost_bound
from bftrainer_replay.simulation.play import (
    ReplayOutcome,
    Scenario,
    equivalent_nodes,
    play,
    static_outcome,
)
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.world import Arrival, DecideOn, ReplayTotals
from bftrainer_replay.workload.curves import TABLE_2, read_curves
from bftrainer_replay.workload.workload import Workload, diverse, hpo, read_workload, submissions

__all__ = [
    "CHECKS",
    "TABLE_2",
    "Arrival",
    "CostModel",
    "DecideOn",
    "EventLog",
    "ImportOptions",
    "LogFormat",
    "LogWindow",
    "OpenedLog",
    "PoolEvent",
    "ReplayOutcome",
    "ReplayTotals",
    "ReplayedTrainer",
    "Scenario",
    "Source",
    "Workload",
    "cut",
    "diverse",
    "equivalent_nodes",
    "hpo",
    "no_cost_bound",
    "open_log",
    "play",
    "read_curves",
    "read_event_log",
    "read_workload",
    "static_outcome",
    "submissions",
    "write_event_log",
]
