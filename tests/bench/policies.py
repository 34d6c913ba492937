"""Milliseconds per decision of every policy at 35 trainers x 800 nodes: ``python tests/bench/policies.py``.

Each decision is one event as the pilot meets it: a state never seen before, from the state to checked counts, at a moment at
which the policy decides again (a scaling moment, the end of an interval), with a cold memory. Curves are concave with 7
breakpoints from 1 to 64 nodes, as in the paper's Table 2; every trainer is somewhere in its work, holds some nodes and has
reported losses. modelarts-optimal solves a MILP; it is measured at its paper's sizes too (30-60 jobs x 70-150 nodes). The
policies take turns. Times are of this process on its processor (all is single-threaded), so that others on the machine do
not count; on an idle one it is the time by the clock. Exit status 1 if one is over its limit: 50 ms at p99, 1 s for
modelarts-optimal, and at its paper's sizes the paper's 0.4 s in the mean.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import random_problems
from rich.console import Console
from rich.table import Table

from bftrainer.allocation.check_decision import check_counts
from bftrainer.allocation.exact import Exact
from bftrainer.allocation.objectives import OBJECTIVES
from bftrainer.domain.events import Event, TimerDue
from bftrainer.domain.model import Trainer
from bftrainer.domain.ports import Policy
from bftrainer.domain.state import Active, Losses, State
from bftrainer.errors import UserError
from bftrainer.plugins import build_policy, policy_names
from bftrainer.policies.settings import PolicySettings

SEED = 20210617
DECISIONS = 100
LIMIT_MS, MILP_LIMIT_MS, PAPER_MEAN_MS = 50.0, 1000.0, 400.0
MILP = "modelarts-optimal"
# (trainers, nodes, largest size): the size for all, the paper's for its MILP
ALL = (35, 800, 64)
PAPER = ((30, 70, 16), (45, 110, 16), (60, 150, 16))


def a_state(rng: random.Random, trainers: int, nodes: int, largest: int) -> State:
    """In the middle of a run."""
    problem = random_problems.like_table_2(rng, trainers, nodes)
    free, active = [f"n{i:04d}" for i in range(nodes)], []
    for demand in problem.demands:
        total = demand.value.at(demand.max_nodes) * rng.uniform(600, 36_000)
        top = min(demand.max_nodes, largest)
        trainer = Trainer(
            demand.id, demand.value, demand.min_nodes, top, 18.0, 12.0, total,
            requested_nodes=max(demand.min_nodes, min(8, top)), reports_loss=True,
        )  # fmt: skip
        held = min(demand.current, top)
        mine, free = free[:held], free[held:]
        done, run_s = rng.uniform(0, 0.9) * total, rng.uniform(0, 36_000)
        losses = Losses(1.0, rng.random(), done, rng.random() / total)
        active.append(Active(trainer, frozenset(mine), done, 0.0, run_s, run_s * 8, losses))
    pool = frozenset(free).union(*(a.nodes for a in active))
    return State(trainers, 100_000.0, pool, tuple(active))


def decide_ms(policy: Policy, state: State) -> float:
    """From the state to checked counts."""
    began = time.process_time()
    decision, _ = policy.decide(state, Event(state.at_s, (TimerDue(),)))
    check_counts([a.trainer for a in state.active], len(state.pool), decision.counts)
    return 1e3 * (time.process_time() - began)


def installed() -> dict[str, Policy]:
    """Those that share a pool."""
    settings = PolicySettings(Exact(), OBJECTIVES["throughput"])
    found: dict[str, Policy] = {}
    for name in policy_names():
        with suppress(UserError):
            found[name] = build_policy(name, settings)
    # Its cap of 16 nodes would leave most of 800 nodes idle, and the problem without a conflict.
    found[f"{MILP}, cap 64"] = build_policy(
        MILP, PolicySettings(Exact(), OBJECTIVES["throughput"], options=(("cap", 64),))
    )
    return found


def main() -> int:
    """1 if a policy is over its limit."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--seed", type=int, default=SEED)
    options.add_argument("--decisions", type=int, default=DECISIONS)
    chosen = options.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    packages = ", ".join(f"{name} {version(name)}" for name in ("bftrainer", "highspy", "numpy"))
    load = os.getloadavg()[0]
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}; Python {platform.python_version()}, {packages}"
    )
    policies = installed()
    rng = random.Random(chosen.seed)
    for policy in policies.values():  # importing a solver is not deciding
        decide_ms(policy, a_state(random.Random(0), 3, 10, 8))
    times: dict[tuple[str, tuple[int, int, int]], list[float]] = {}
    for _ in range(chosen.decisions):
        state = a_state(rng, *ALL)
        for name in rng.sample(sorted(policies), len(policies)):
            times.setdefault((name, ALL), []).append(decide_ms(policies[name], state))
    for size in PAPER:
        for _ in range(max(chosen.decisions // 3, 1)):
            times.setdefault((MILP, size), []).append(decide_ms(policies[MILP], a_state(rng, *size)))
    table = Table(title="Milliseconds per decision, from the state to checked counts")
    for heading in ("trainers x nodes", "policy", "decisions", "mean", "p50", "p99", "max", "limit", ""):
        table.add_column(heading, justify="left" if heading == "policy" else "right", no_wrap=True)
    slow = False
    for (name, (trainers, nodes, _)), took in times.items():
        mean, (p50, p99) = float(np.mean(took)), np.percentile(took, (50, 99))
        if (trainers, nodes) == ALL[:2]:
            limit = MILP_LIMIT_MS if name.startswith(MILP) else LIMIT_MS
            over, text = p99 > limit, f"p99 {limit:g}"
        else:
            over, text = mean > PAPER_MEAN_MS, f"mean {PAPER_MEAN_MS:g}"
        slow |= over
        cells = (f"{x:,.2f}" for x in (mean, p50, p99, max(took)))
        table.add_row(f"{trainers} x {nodes}", name, str(len(took)), *cells, text, "OVER" if over else "")
    console.print(table)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
