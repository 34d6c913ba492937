"""A queue started at many past moments of a log: how long each trainer took from there to its
end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.ports import Policy
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow, piece, spans_within
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import Arrival

_RECENT_S = 3600.0


def took_s(
    log: LogWindow,
    trainers: Sequence[Trainer],
    policy: Policy,
    max_parallel: int | None,
    start_s: float,
) -> NDArray[np.float64]:
    """Replay the trainers from ``start_s``; return the seconds that each takes to its end.

    They are infinite where the log ends first. Costs are those of drivers with warm workers (cost
    model ``overlap``).
    """
    arrivals = tuple(Arrival(start_s, trainer) for trainer in trainers)
    scenario = Scenario(
        piece(log, start_s, log.end_s), arrivals, max_parallel, CostModel.OVERLAP, until_done=True
    )
    outcome = play(scenario, policy, keep_entries=False)
    finished_s = {run.trainer.id: run.finished_s for run in outcome.runs}
    ends_s = [finished_s.get(trainer.id) for trainer in trainers]
    return np.array([np.inf if end_s is None else end_s - start_s for end_s in ends_s])


def recent_nodes(log: LogWindow, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the pool over the hour before each moment, relative to its mean over the log."""
    sizes = pool_sizes_of(log)
    recent = (sizes.node_s_by(at_s) - sizes.node_s_by(at_s - _RECENT_S)) / _RECENT_S
    return np.asarray(recent / max(sizes.node_s() / log.span_s, 1e-9))


def even_starts(log: LogWindow) -> Iterator[float]:
    """Yield moments of the log without end. However many are taken, they are spread evenly over the
    log (the van der Corput sequence).
    """
    for index in itertools.count():
        reversed_bits = f"{index:032b}"[::-1]
        share = int(reversed_bits, 2) / 2**32
        yield log.start_s + share * log.span_s


def without_gaps(log: LogWindow) -> LogWindow:
    """Return a log without its gaps: its clock stands still in them, and later events move."""

    if not log.gaps:
        return log

    def shifted_s(at_s: float) -> float:
        earlier_gaps = spans_within(log.gaps, log.start_s, at_s)
        return at_s - sum(end_s - start_s for start_s, end_s in earlier_gaps)

    events = tuple(replace(event, at_s=shifted_s(event.at_s)) for event in log.events)
    return replace(log, end_s=shifted_s(log.end_s), events=events, gaps=())
