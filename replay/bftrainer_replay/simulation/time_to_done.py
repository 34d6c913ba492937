"""How long every trainer takes from its submission to its end, and the fluid bound on that.

The *fluid bound*: all idle nodes work from their first second, at the best rate per node of each
trainer, without rescale costs, on any number of trainers at once. Then the nodes are one server of
varying speed, and the shortest remaining work first leaves the fewest trainers unfinished at any
time: no policy has a smaller mean or an earlier last completion. A trainer alone at its best size
bounds its own completion as well.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bftrainer.decide.domain.model import Trainer, rates
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.progress import ReplayedTrainer
from bftrainer_replay.simulation.replay_world import Arrival


@dataclass(frozen=True, slots=True)
class TimeToDone:
    """Hours from submission to the end: mean and 95th percentile; ``last_h``: from the first
    submission to the last end.

    Trainers that are not done by the end of the window (``unfinished``) count as if they ended
    then: with them, the true values are larger. None without trainers.
    """

    mean_h: float | None
    p95_h: float | None
    last_h: float | None
    unfinished: int

    def text(self, hours: float | None) -> str:
        """One of the times, marked as a lower bound if trainers are unfinished."""
        if hours is None:
            return "-"
        mark = "≥ " if self.unfinished else ""
        return f"{mark}{hours:,.1f}"


def time_to_done(
    window: LogWindow, arrivals: Sequence[Arrival], runs: Sequence[ReplayedTrainer]
) -> TimeToDone:
    """Measure the times until done of all trainers that are submitted before the window ends."""
    finished_s = {run.trainer.id: run.finished_s for run in runs}
    since_s = _submitted(window, arrivals)
    ends_s = [finished_s.get(a.trainer.id) for a in arrivals if a.at_s <= window.end_s]
    done_s = [window.end_s if end_s is None else end_s for end_s in ends_s]
    return _summary(since_s, done_s, ends_s.count(None))


def fluid_bound(window: LogWindow, arrivals: Sequence[Arrival]) -> TimeToDone | None:
    """Compute times that no policy goes below: if all nodes were one server that each training uses
    at its best rate per node. It bounds mean and last (no percentile); None if a trainer's length
    is unknown.
    """
    trainers = [a.truth for a in arrivals if a.at_s <= window.end_s]
    if any(trainer.samples_total is None for trainer in trainers):
        return None
    since_s = _submitted(window, arrivals)
    sizes = pool_sizes_of(window)
    node_s = np.concatenate(([0.0], np.cumsum(sizes.nodes * sizes.duration_s)))
    times_s = np.append(sizes.start_s, window.end_s)
    # The first instant at which so much node-time has passed.
    rises = np.append(True, np.diff(node_s) > 0)
    works = [_least_node_s(trainer) for trainer in trainers]
    served = _shortest_first(np.interp(since_s, times_s, node_s).tolist(), works)
    done_s = np.interp(served, node_s[rises], times_s[rises], right=window.end_s)
    late = np.array(served) > node_s[-1]
    alone_s = [
        s + (t.samples_total or 0.0) / (max(rates(t)) or 1.0)
        for s, t in zip(since_s, trainers, strict=True)
    ]
    # Which trainer has which completion is not fixed: the bound is on the mean and on the last.
    fluid = _summary(since_s, done_s.tolist(), int(late.sum()))
    alone = _summary(since_s, np.minimum(alone_s, window.end_s).tolist(), 0)
    if fluid.mean_h is None or fluid.last_h is None or alone.mean_h is None or alone.last_h is None:
        return fluid
    return TimeToDone(
        max(fluid.mean_h, alone.mean_h), None, max(fluid.last_h, alone.last_h), fluid.unfinished
    )


def _submitted(window: LogWindow, arrivals: Sequence[Arrival]) -> list[float]:
    """Return when each trainer is submitted, at the window's start at the earliest."""
    return [max(a.at_s, window.start_s) for a in arrivals if a.at_s <= window.end_s]


def _summary(since_s: Sequence[float], done_s: Sequence[float], unfinished: int) -> TimeToDone:
    """Compute mean, percentile and last of the times between submissions and ends."""
    if not done_s:
        return TimeToDone(None, None, None, 0)
    took_h = (np.array(done_s) - np.array(since_s)) / 3600
    last_h = (max(done_s) - min(since_s)) / 3600
    return TimeToDone(float(took_h.mean()), float(np.percentile(took_h, 95)), last_h, unfinished)


def _least_node_s(trainer: Trainer) -> float:
    """Return the fewest node-seconds that the training takes: at its best rate per node."""
    best = max(rate / n for n, rate in enumerate(rates(trainer)) if n)
    return (trainer.samples_total or 0.0) / best if best else 0.0


def _shortest_first(released: Sequence[float], works: Sequence[float]) -> list[float]:
    """Return when each job is done on one server of speed 1 that always works on the one with the
    shortest remaining work.

    ``released[j]`` is when job j arrives, in any order, ``works[j]`` its work.
    """
    order = sorted(range(len(works)), key=lambda j: released[j])
    done = [0.0] * len(works)
    waiting: list[tuple[float, int]] = []
    now, k = 0.0, 0
    while k < len(order) or waiting:
        if not waiting:
            now = max(now, released[order[k]])
        while k < len(order) and released[order[k]] <= now:
            heapq.heappush(waiting, (works[order[k]], order[k]))
            k += 1
        left, j = heapq.heappop(waiting)
        until = released[order[k]] if k < len(order) else np.inf
        if now + left <= until:
            now += left
            done[j] = now
        else:
            heapq.heappush(waiting, (left - (until - now), j))
            now = until
    return done
