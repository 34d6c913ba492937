"""Policy cohort against the optimum of Eqn 16, where rescales are expensive: ``python tests/bench/cohort.py``.

Two weeks of the Summit log of ../shared/data or $BFTRAINER_DATA, on its first and second thousand nodes, and two weeks of Mira,
each with ShuffleNet trainers whose R_up and R_dw are 1, 3 and 10 times those of the paper, ten at a time, under throughput. The
constants of the policy were found on week 1 of the first thousand nodes. Prints U, for Eqn 16 with the first T_fwd of
--forward-s and with the best, and in how many days the policy does more than that, with the least and the largest difference
in points of U. --later-s has seconds by which all submissions come later, a row each: so far apart lie replays of one window.
Each replay takes about 5 s on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from data import data_file
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from bftrainer.allocation.exact import Exact
from bftrainer.allocation.objectives import OBJECTIVES
from bftrainer.core.loop import run
from bftrainer.domain.events import Event
from bftrainer.domain.ports import Policy
from bftrainer.domain.state import Decision, Plan, State
from bftrainer.plugins import build_policy
from bftrainer.policies.settings import PolicySettings
from bftrainer_replay.api import Arrival, LogWindow, Scenario, cut, hpo, open_log, static_outcome, submissions
from bftrainer_replay.cli.log_options import spread
from bftrainer_replay.logs.event_log import parse_time
from bftrainer_replay.simulation.world import ReplayWorld
from bftrainer_replay.workload.workload import RescaleCosts

SUMMIT, ORDER = "summit-2021-02/summit-2021-02-events.csv.gz", "summit-2021-02/summit-nodes-in-column-order.txt"
MIRA_1, MIRA_3 = "mira-2018-weeks/wk1.log.gz", "mira-2018-weeks/wk3.log.gz"
WEEK_S, DAY_S = 168 * 3600.0, 86400.0
# name: log, start, first of its nodes in the given order (None: spread over the log), nodes, trainers that last for a week
WINDOWS = {
    "Summit 1": (SUMMIT, "2021-02-10T20:21:15", 0, 1024, 1000),
    "Summit 2": (SUMMIT, "2021-02-17T20:21:15", 0, 1024, 1000),
    "Summit 1, second": (SUMMIT, "2021-02-10T20:21:15", 1024, 1024, 1000),
    "Summit 2, second": (SUMMIT, "2021-02-17T20:21:15", 1024, 1024, 1000),
    "Mira 1": (MIRA_1, "2018-01-20T00:01:45", None, 2048, 6000),
    "Mira 3": (MIRA_3, "2018-06-09T00:14:22", None, 4096, 6000),
}


def window_of(name: str) -> LogWindow:
    path, start, first, count, _ = WINDOWS[name]
    log = open_log(data_file(path)).log
    listed = data_file(ORDER).read_text().split() if first is not None else []
    nodes = spread(log.nodes(), count) if first is None else tuple(listed[first : first + count])
    start_s = parse_time(start)
    end_s = min(start_s + WEEK_S, log.events[-1].at_s)
    return cut(log, start_s=start_s, end_s=end_s, nodes=nodes, machine_nodes=count)


@dataclass
class Samples:
    """A journal that notes the samples at every decision, and the processor seconds of the policies."""

    world: ReplayWorld
    at_s: list[float] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)

    def record(self, event: Event, state: State, plan: Plan) -> None:
        self.at_s.append(event.at_s)
        self.samples.append(self.world.totals().samples)


@dataclass
class Timed:
    """A policy, with the milliseconds of each decision on its processor."""

    policy: Policy
    took_ms: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.policy.name

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        began = time.process_time()
        answer = self.policy.decide(state, event)
        self.took_ms.append(1e3 * (time.process_time() - began))
        return answer


def days_of(
    window: LogWindow, arrivals: tuple[Arrival, ...], name: str, forward_s: float
) -> tuple[NDArray[np.float64], float]:
    """Samples in each day of the window, and the p99 of a decision in ms."""
    world = ReplayWorld(window, arrivals)
    policy = Timed(build_policy(name, PolicySettings(Exact(), OBJECTIVES["throughput"], forward_s)))
    journal = Samples(world)
    run(world, State(10), policy, journal)
    edges = np.arange(window.start_s, window.end_s + DAY_S, DAY_S).clip(max=window.end_s)
    at_s, samples = [*journal.at_s, window.end_s], [*journal.samples, world.totals().samples]
    return np.diff(np.interp(edges, at_s, samples)), float(np.percentile(policy.took_ms, 99))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--windows", default=",".join(name.replace(", ", "+") for name in WINDOWS))
    options.add_argument("--factors", default="1,3,10")
    options.add_argument("--forward-s", default="120,180,240")
    options.add_argument("--later-s", default="0")
    options.add_argument("--policies", default="cohort", help="separated by semicolons")
    chosen = options.parse_args()
    forward_s = [float(each) for each in chosen.forward_s.split(",")]
    table = Table(title="U in %, and points of U that the policy is above Eqn 16")
    headings = (
        "window",
        "x",
        "later, s",
        f"T_fwd {forward_s[0]:g}",
        "best",
        "T_fwd",
        "policy",
        "U",
        "points",
        "days above",
    )
    for heading in (*headings, "by day", "p99, ms"):
        table.add_column(heading, no_wrap=True)
    for name in (name.replace("+", ", ") for name in chosen.windows.split(",")):
        window = window_of(name)
        for factor, later_s in product(map(float, chosen.factors.split(",")), map(float, chosen.later_s.split(","))):
            at_s = submissions(window.start_s + later_s, count=WINDOWS[name][4], spacing_s=36.0)
            static = static_outcome(Scenario(window, hpo("shufflenet", at_s), 10))
            arrivals = hpo("shufflenet", at_s, costs=RescaleCosts(18 * factor, 12 * factor))
            tried = {t: days_of(window, arrivals, "bftrainer", t)[0] for t in forward_s}
            best_s = max(tried, key=lambda t: float(tried[t].sum()))
            for policy in chosen.policies.split(";"):
                days, p99_ms = days_of(window, arrivals, policy, best_s)
                more = 100 * (days - tried[best_s]) / (static / len(days))
                first, best, own = (
                    100 * float(each.sum()) / static for each in (tried[forward_s[0]], tried[best_s], days)
                )
                table.add_row(
                    name, f"{factor:g}", f"{later_s:g}", f"{first:.2f}", f"{best:.2f}", f"{best_s:g}", policy, f"{own:.2f}",
                    f"{own - best:+.2f}", f"{(more > 0).sum()} of {len(days)}", f"{more.min():+.2f} to {more.max():+.2f}",
                    f"{p99_ms:.1f}",
                )  # fmt: skip
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
