"""A constant pool: the same nodes from beginning to end, until all trainers are done."""

from __future__ import annotations

from collections.abc import Sequence

from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.replay_world import Arrival


def fixed_window(nodes: int, start_s: float, end_s: float) -> LogWindow:
    """A window with ``nodes`` nodes that never leave."""
    names = frozenset(f"n{i:06d}" for i in range(nodes))
    return LogWindow(start_s, end_s, names, (), nodes, f"{nodes} constant nodes")


def long_enough(arrivals: Sequence[Arrival], nodes: int) -> LogWindow:
    """Return a window in which all trainers finish even if they run one after the other at their
    slowest.
    """
    first_s = min(arrival.at_s for arrival in arrivals)
    last_s = max(arrival.at_s for arrival in arrivals)
    work_s = 0.0
    for arrival in arrivals:
        trainer = arrival.trainer
        total = arrival.actual_samples or trainer.samples_total
        assert total is not None, "a fixed pool runs until all are done"
        slowest = min(rate for rate in trainer.curve.per_s if rate > 0)
        # With room for a hundred rescales of each trainer.
        work_s += total / slowest + 100 * (trainer.growth_s + trainer.scale_down_s)
    return fixed_window(nodes, first_s, last_s + 2 * work_s + 86_400.0)
