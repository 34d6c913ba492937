"""Replays in Python and by the compiled engine, side by side in one process on one core.

    make engine
    python tests/bench/engine.py [--hours 24]

Every row is one replay: CPU seconds in Python and in the engine, and decisions a second of the
engine without its journal. The outcomes are compared to the last bit. Reads the Summit log of
../shared/data or $BFTRAINER_DATA; without it, a generated one of as many nodes. The last rows are
the names of the largest machines in name order, in nanoseconds a name.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bftrainer.decide.allocation.chain import build_allocator
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.allocation.placement import in_name_order
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer.slots import Grain
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.event_log import parse_time, read_event_log
from bftrainer_replay.logs.model import LogWindow, restricted_log
from bftrainer_replay.simulation.engine.library import installed
from bftrainer_replay.simulation.play import ReplayOutcome, Scenario, play
from bftrainer_replay.workload.workload import submissions, trainers_of_many_users

SUMMIT = "summit-2021-02/summit-2021-02-events.csv.gz"
START_S = parse_time("2021-02-10T20:21:15")
CASES: tuple[tuple[str, int | None], ...] = (
    ("fair", None),
    ("soon", None),
    ("most", None),
    ("relative-speed", 35),
    ("throughput", 35),
    ("equal share", 35),
)
MACHINES = (1_000, 60_000, 70_000, 160_000)


def window_of(hours: float) -> tuple[LogWindow, str]:
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    path = Path(os.environ.get("BFTRAINER_DATA") or beside) / SUMMIT
    if path.exists():
        log = read_event_log(path)
        return restricted_log(log, start_s=START_S, end_s=START_S + hours * 3600), "the Summit log"
    return restricted_log(
        generate(4734, hours / 24, 1)
    ), "a generated log (the Summit log is not here)"


def policy_of(name: str) -> Policy:
    if name == "equal share":
        return EqualShare()
    objective = OBJECTIVES[name]
    return BFTrainer(build_allocator("exact", 10.0), objective, objective.forward_s)


def figures(outcome: ReplayOutcome) -> tuple[object, ...]:
    return outcome.totals, outcome.decisions, tuple(outcome.entries)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=24.0)
    hours = parser.parse_args().hours
    console = Console(width=120)
    library = installed()
    if library is None:
        sys.exit("no engine is installed; run make engine")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    window, source = window_of(hours)
    arrivals = trainers_of_many_users(submissions(window.start_s, 6000, 36.0), 1)
    console.print(f"{source}, {hours:g} h, 6,000 diverse trainers (seed 1), stall costs")
    table = Table("policy", "P_jmax", "decisions", "Python s", "engine s", "ratio", "decisions/s")
    for name, places in CASES:
        scenario, policy = Scenario(window, arrivals, places), policy_of(name)
        times_s = [time.process_time()]
        core = play(scenario, policy, engine=lambda: None)
        times_s.append(time.process_time())
        served = play(scenario, policy, engine=lambda: library)
        times_s.append(time.process_time())
        play(scenario, policy, engine=lambda: library, keep_entries=False)
        times_s.append(time.process_time())
        if figures(core) != figures(served):
            sys.exit(f"{name}: the outcomes differ")
        python_s, engine_s, bare_s = (after - before for before, after in pairwise(times_s))
        table.add_row(
            name,
            "-" if places is None else str(places),
            f"{core.decisions:,}",
            f"{python_s:.2f}",
            f"{engine_s:.3f}",
            f"{python_s / engine_s:.0f}",
            f"{core.decisions / bare_s:,.0f}",
        )
    console.print(table)
    names_table = Table("nodes", "grain, ns a name", "name order, ns a name")
    for nodes in MACHINES:
        names = frozenset(f"nid{number:06d}" for number in range(nodes))
        in_name_order(names)
        times_s = [time.process_time()]
        Grain.of(names)
        times_s.append(time.process_time())
        in_name_order(names)
        times_s.append(time.process_time())
        grain_ns, order_ns = (1e9 * (times_s[k + 1] - times_s[k]) / nodes for k in (0, 1))
        names_table.add_row(f"{nodes:,}", f"{grain_ns:.0f}", f"{order_ns:.0f}")
    console.print(names_table)


if __name__ == "__main__":
    main()
