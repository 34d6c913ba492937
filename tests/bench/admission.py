"""Milliseconds per decision when every trainer is admitted: ``python tests/bench/admission.py``.

A decision is what the loop does at one event: observe it, ask the policy (objective fair, exact
solver, its answer checked), place, adopt, in CPU time. At each event some nodes leave and others
join; all trainers have the curves of Table 2 and hold what the last decision gave them. Limits: p99
5 ms with 300 trainers and 20 ms with 2,000, on 800 nodes, on an idle machine. A fixed loop of
Python is timed beside them, since machines differ.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.table import Table

from bftrainer.decide.allocation.chain import build_allocator
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.core.coordinator import adopt, decide, observe
from bftrainer.decide.domain.events import Event, PoolChanged, TrainerSubmitted
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer_replay.workload.curves import TABLE_2

CASES = ((35, 800), (100, 800), (300, 800), (2000, 800), (2000, 88))
EVENTS = 150


@dataclass
class OnCpu:
    """The policy, and the CPU time of each of its decisions."""

    policy: BFTrainer
    took_s: list[float] = field(default_factory=list)
    name: str = "on CPU"

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        began = time.process_time()
        answer = self.policy.decide(state, event)
        self.took_s.append(time.process_time() - began)
        return answer


def calibration_ms() -> float:
    """What the machine takes for a fixed amount of Python."""
    began = time.process_time()
    sum(i * i % 7 for i in range(100_000))
    return 1e3 * (time.process_time() - began)


def decisions_ms(
    trainers: int, nodes: int, models: int, seed: int = 1
) -> tuple[list[float], list[float]]:
    """Times of whole decisions, and of the policy alone."""
    rng = random.Random(seed)
    curves = list(TABLE_2.values())[:models]
    names = [f"n{i:04d}" for i in range(nodes + nodes // 4)]
    changes = [
        TrainerSubmitted(
            Trainer(f"t{i}", rng.choice(curves), 1, 64, 18.0, 12.0, rng.uniform(0.5, 1.5) * 1e8)
        )
        for i in range(trainers)
    ]
    objective = OBJECTIVES["fair"]
    policy = OnCpu(BFTrainer(build_allocator("exact", 10.0), objective, objective.forward_s))
    state = State(None)
    pool = set(names[:nodes])
    event = Event(0.0, (PoolChanged(joined=frozenset(pool)), *changes))
    whole = []
    for k in range(EVENTS):
        began = time.process_time()
        before = observe(state, event)
        state = adopt(before, decide(before, policy, event))
        whole.append(1e3 * (time.process_time() - began))
        changed = rng.choice((1, 1, 2, 8))
        left = frozenset(rng.sample(sorted(pool), changed))
        joined = frozenset(rng.sample(sorted(set(names) - pool), changed))
        pool = (pool - left) | joined
        done = tuple(
            (a.trainer.id, a.samples_done + 100.0 * len(a.nodes)) for a in state.active if a.nodes
        )
        event = Event(60.0 * (k + 1), (PoolChanged(joined, left),), done)
    return whole[10:], [1e3 * took_s for took_s in policy.took_s[10:]]


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    table = Table(
        "trainers x nodes",
        "models",
        "p50 ms",
        "p99 ms",
        "policy p50",
        "policy p99",
        "calibration ms",
    )
    for trainers, nodes in CASES:
        for models in (1, 7):
            before = calibration_ms()
            whole, alone = decisions_ms(trainers, nodes, models)
            spent = (before + calibration_ms()) / 2
            found = [*np.percentile(whole, (50, 99)), *np.percentile(alone, (50, 99))]
            table.add_row(
                f"{trainers} x {nodes}", f"{models}", *(f"{ms:.1f}" for ms in found), f"{spent:.1f}"
            )
    Console().print(table)


if __name__ == "__main__":
    main()
