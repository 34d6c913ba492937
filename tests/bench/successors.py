"""What starting a trainer's successor ahead could gain at most: ``python tests/bench/successors.py``
(decision 9).

    python tests/bench/successors.py [--costs 1] [--hours 168]

The Summit week of ../shared/data or $BFTRAINER_DATA on 1,024 nodes, with 2,000 ShuffleNet trainers,
ten at a time, under cost model ``overlap``: U as it is, and if the start S of every trainer's first
nodes took no time, which no prediction can better. Each replay takes about 5 s on one core.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from plain_jobs import BESIDE, LOGS, window
from rich.console import Console
from rich.table import Table

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.domain.state import Nodes
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.play import Scenario, play, static_outcome
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.workload.workload import RescaleCosts, hpo, submissions

# S, W^up and W^dw in seconds
COSTS = ((8.0, 0.12, 0.13), (16.0, 2.0, 12.0), (48.0, 6.0, 36.0), (160.0, 20.0, 120.0))
FORWARD_S = (120.0, 400.0)
PLACES, TRAINERS = 10, 2000


@contextmanager
def first_start_free() -> Iterator[None]:
    """Within it, a trainer's first nodes train at once."""
    rescale = ReplayedTrainer.rescale

    def started(trainer: ReplayedTrainer, after: Nodes, at_s: float) -> None:
        costs = trainer._costs
        if trainer.started_s is None:
            trainer._costs = replace(costs, start_s=0.0, from_zero_s=0.0)
        rescale(trainer, after, at_s)
        trainer._costs = costs

    ReplayedTrainer.rescale = started  # type: ignore[method-assign]  # a change for this benchmark
    try:
        yield
    finally:
        ReplayedTrainer.rescale = rescale  # type: ignore[method-assign]  # as it was


def samples(log: LogWindow, arrivals: Sequence[Arrival], forward_s: float) -> float:
    """Samples of one replay."""
    policy = BFTrainer(Exact(), OBJECTIVES["throughput"], forward_s)
    scenario = Scenario(log, tuple(arrivals), PLACES, CostModel.OVERLAP)
    return play(scenario, policy, keep_entries=False).totals.samples


def main() -> None:
    """Print U with and without the first start, for each start and T_fwd."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--costs", type=int, default=len(COSTS), help="of the first so many rows")
    parser.add_argument("--hours", type=float, default=168.0)
    options = parser.parse_args()
    folder = Path(os.environ.get("BFTRAINER_DATA") or BESIDE)
    if not (folder / LOGS["Summit-1"][0]).exists():
        print(f"no log of Summit in {folder}")
        return
    with tempfile.TemporaryDirectory() as scratch:
        log = window(folder, "Summit-1", options.hours, Path(scratch))
    table = Table(title="U in %")
    for heading in ("S, W^up, W^dw in s", "T_fwd", "as it is", "first start free", "points"):
        table.add_column(heading, justify="right")
    at_s = submissions(log.start_s, TRAINERS, 36.0)
    static = static_outcome(Scenario(log, hpo("shufflenet", at_s), PLACES))
    for start_s, up_s, down_s in COSTS[: options.costs]:
        arrivals = hpo("shufflenet", at_s, costs=RescaleCosts(up_s, down_s, start_s))
        for forward_s in FORWARD_S:
            if forward_s <= start_s + up_s:
                continue
            plain = samples(log, arrivals, forward_s)
            with first_start_free():
                free = samples(log, arrivals, forward_s)
            table.add_row(
                f"{start_s:g}, {up_s:g}, {down_s:g}",
                f"{forward_s:g}",
                f"{100 * plain / static:.1f}",
                f"{100 * free / static:.1f}",
                f"{100 * (free - plain) / static:+.1f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
