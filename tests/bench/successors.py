"""What starting a trainer's successor ahead could gain at most: ``python tests/bench/successors.py`` (decision 9).

The Summit week of ../shared/data or $BFTRAINER_DATA on 1,024 nodes, with 2,000 ShuffleNet trainers, ten at a time, under cost
model ``overlap``: U as it is, and if the start S of every trainer's first nodes took no time, which no prediction can better.
Each replay takes about 5 s on one core.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cohort import window_of
from rich.console import Console
from rich.table import Table

from bftrainer.allocation.exact import Exact
from bftrainer.allocation.objectives import OBJECTIVES
from bftrainer.core.loop import run
from bftrainer.domain.events import Event
from bftrainer.domain.state import Nodes, Plan, State
from bftrainer.plugins import build_policy
from bftrainer.policies.settings import PolicySettings
from bftrainer_replay.api import Arrival, LogWindow, Scenario, hpo, static_outcome, submissions
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.world import ReplayWorld
from bftrainer_replay.workload.workload import RescaleCosts

COSTS = ((8.0, 0.12, 0.13), (16.0, 2.0, 12.0), (48.0, 6.0, 36.0), (160.0, 20.0, 120.0))
FORWARD_S = (120.0, 400.0)
PLACES, TRAINERS = 10, 2000


@contextmanager
def first_start_free() -> Iterator[None]:
    """A trainer's first nodes train at once."""
    rescale = ReplayedTrainer.rescale

    def started(self: ReplayedTrainer, after: Nodes, at_s: float) -> None:
        kept = self._costs
        if self.started_s is None:
            self._costs = replace(kept, start_s=0.0, from_zero_s=0.0)
        rescale(self, after, at_s)
        self._costs = kept

    ReplayedTrainer.rescale = started  # type: ignore[method-assign]
    try:
        yield
    finally:
        ReplayedTrainer.rescale = rescale  # type: ignore[method-assign]


def samples(window: LogWindow, arrivals: Sequence[Arrival], forward_s: float) -> float:
    """Samples of one replay."""
    world = ReplayWorld(window, arrivals, CostModel.OVERLAP)
    run(
        world,
        State(PLACES),
        build_policy("bftrainer", PolicySettings(Exact(), OBJECTIVES["throughput"], forward_s)),
        Nowhere(),
    )
    return world.totals().samples


class Nowhere:
    """A journal that keeps nothing."""

    def record(self, event: Event, state: State, plan: Plan) -> None:
        pass


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None).parse_args()
    window = window_of("Summit 1")
    table = Table(title="U in %")
    for heading in ("S, W^up, W^dw in s", "T_fwd", "as it is", "first start free", "points"):
        table.add_column(heading, justify="right")
    at_s = submissions(window.start_s, TRAINERS, 36.0)
    static = static_outcome(Scenario(window, hpo("shufflenet", at_s), PLACES))
    for costs in COSTS:
        arrivals = hpo("shufflenet", at_s, costs=RescaleCosts(costs[1], costs[2], costs[0]))
        for forward_s in FORWARD_S:
            if forward_s <= costs[0] + costs[1]:
                continue
            plain = samples(window, arrivals, forward_s)
            with first_start_free():
                free = samples(window, arrivals, forward_s)
            shares = (
                f"{100 * plain / static:.1f}",
                f"{100 * free / static:.1f}",
                f"{100 * (free - plain) / static:+.1f}",
            )
            table.add_row(", ".join(f"{cost:g}" for cost in costs), f"{forward_s:g}", *shares)
    Console().print(table)


if __name__ == "__main__":
    main()
