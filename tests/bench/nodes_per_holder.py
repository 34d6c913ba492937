"""Holder jobs of 1, 4 and 16 nodes on the Summit week: jobs submitted, idle node-hours used, U.

    python tests/bench/nodes_per_holder.py [NODES]

A job of several nodes takes nodes that became idle in one look. Slurm preempts whole jobs: when the main queue takes one node
of a job, the others are idle again and come back with a new job two looks later. The decisions are those of every replay; only
the log of idle nodes is changed. U is relative to the static outcome of all idle node-hours, so that what is lost shows.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from bftrainer.allocation.exact import Exact
from bftrainer.api import PolicySettings, build_policy, find_objective
from bftrainer.domain.events import PoolChanged
from bftrainer_replay.api import (
    LogWindow,
    PoolEvent,
    Scenario,
    cut,
    diverse,
    equivalent_nodes,
    open_log,
    play,
    static_outcome,
    submissions,
)

SUMMIT = "summit-2021-02/summit-2021-02-events.csv.gz"
START_S = 1612988475.0  # 2021-02-10 20:21:15, the beginning of the paper's week
HOURS = 168.0
LOOK_S = 10.0


@dataclass
class Holders:
    """Jobs of up to ``most`` nodes over a log of idle nodes."""

    most: int
    away_s: float = 2 * LOOK_S + 0.5
    job_of: dict[str, int] = field(default_factory=dict)
    nodes_of: dict[int, set[str]] = field(default_factory=dict)
    back: dict[float, set[str]] = field(default_factory=dict)
    jobs: int = 0

    def submit(self, nodes: frozenset[str]) -> None:
        names = sorted(nodes)
        for i in range(0, len(names), self.most):
            self.jobs += 1
            self.nodes_of[self.jobs] = set(names[i : i + self.most])
            self.job_of |= dict.fromkeys(names[i : i + self.most], self.jobs)

    def preempt(self, taken: frozenset[str], at_s: float) -> frozenset[str]:
        """What leaves: the whole jobs of nodes that are taken."""
        gone: set[str] = set()
        for job in sorted({self.job_of[name] for name in taken if name in self.job_of}):
            gone |= self.nodes_of.pop(job)
        for name in gone:
            del self.job_of[name]
        for waiting in self.back.values():
            waiting -= taken
        if idle := gone - taken:
            self.back.setdefault(at_s + self.away_s, set()).update(idle)
        return frozenset(gone)

    def events(self, window: LogWindow) -> Iterator[PoolEvent]:
        self.submit(window.initial)
        for event in window.events:
            yield from self.returned(event.at_s)
            gone = self.preempt(event.change.left, event.at_s)
            self.submit(event.change.joined)
            if gone or event.change.joined:
                yield PoolEvent(event.at_s, PoolChanged(event.change.joined, gone))
        yield from self.returned(window.end_s)

    def returned(self, before_s: float) -> Iterator[PoolEvent]:
        for at_s in sorted(at_s for at_s in self.back if at_s < before_s):
            if nodes := frozenset(self.back.pop(at_s)):
                self.submit(nodes)
                yield PoolEvent(at_s, PoolChanged(nodes, frozenset()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?", default=1024, metavar="NODES")
    nodes = parser.parse_args().nodes
    data = Path(os.environ.get("BFTRAINER_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
    if not (data / SUMMIT).exists():
        sys.exit(f"no Summit log in {data}; BFTRAINER_DATA names the folder")
    whole = open_log(data / SUMMIT).log
    order = (data / "summit-2021-02/summit-nodes-in-column-order.txt").read_text().split()
    window = cut(whole, start_s=START_S, end_s=START_S + HOURS * 3600.0, nodes=order[:nodes])
    arrivals = diverse(submissions(window.start_s, count=3000, spacing_s=0.0), seed=1)
    scenario = Scenario(window, arrivals, max_parallel=35)
    static, idle_h = static_outcome(scenario), equivalent_nodes(window) * HOURS
    print(f"{nodes} nodes, {HOURS:g} h, {idle_h:.0f} idle node-hours, 3,000 diverse trainers, P_jmax 35, T_fwd 120 s")
    print("| nodes per holder | jobs submitted | per hour, mean and most | node-hours held | U |")
    for most in (1, 4, 16):
        holders = Holders(most)
        submitted: dict[int, int] = {}
        events = []
        before = 0
        for event in holders.events(window):
            hour = int((event.at_s - window.start_s) // 3600)
            submitted[hour] = submitted.get(hour, 0) + holders.jobs - before
            before = holders.jobs
            events.append(event)
        held = replace(window, events=tuple(events))
        policy = build_policy("bftrainer", PolicySettings(Exact(), find_objective("throughput")))
        outcome = play(replace(scenario, window=held), policy, keep_entries=False)
        used_h = equivalent_nodes(held) * HOURS
        print(
            f"| {most} | {holders.jobs:,} | {holders.jobs / HOURS:.0f}, {max(submitted.values()):,} | {used_h:,.0f} "
            f"({100 * used_h / idle_h:.1f} %) | {100 * outcome.totals.samples / static:.1f} % |",
            flush=True,
        )


if __name__ == "__main__":
    main()
