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
    """Return the times until done of all trainers that are submitted before the window ends.

    One that is not done counts as if it ended with the window.
    """
    finished_s = {run.trainer.id: run.finished_s for run in runs}
    submitted_s = _submitted_s(window, arrivals)
    ends_s = [
        finished_s.get(arrival.trainer.id) for arrival in arrivals if arrival.at_s <= window.end_s
    ]
    done_s = [window.end_s if end_s is None else end_s for end_s in ends_s]
    return _times_summary(submitted_s, done_s, unfinished=ends_s.count(None))


def fluid_bound(window: LogWindow, arrivals: Sequence[Arrival]) -> TimeToDone | None:
    """Return times that no policy goes below; None if a trainer's length is unknown.

    They hold if all nodes were one server that each training uses at its best rate per node (see
    the module). They bound the mean and the last; there is no percentile.
    """
    trainers = [arrival.truth for arrival in arrivals if arrival.at_s <= window.end_s]
    if any(trainer.samples_total is None for trainer in trainers):
        return None
    submitted_s = _submitted_s(window, arrivals)
    sizes = pool_sizes_of(window)
    # The server's clock is the node-time that has passed since the window's start.
    node_s = np.concatenate(([0.0], np.cumsum(sizes.nodes * sizes.duration_s)))
    times_s = np.append(sizes.start_s, window.end_s)
    works_node_s = [_least_node_s(trainer) for trainer in trainers]
    submitted_node_s = np.interp(submitted_s, times_s, node_s).tolist()
    done_node_s = _shortest_first(submitted_node_s, works_node_s)
    # Back to time: the first instant at which so much node-time has passed.
    is_first_instant = np.append(True, np.diff(node_s) > 0)
    done_s = np.interp(
        done_node_s, node_s[is_first_instant], times_s[is_first_instant], right=window.end_s
    )
    is_unfinished = np.array(done_node_s) > node_s[-1]
    alone_s = [
        at_s + (trainer.samples_total or 0.0) / (max(rates(trainer)) or 1.0)
        for at_s, trainer in zip(submitted_s, trainers, strict=True)
    ]
    # Which trainer has which completion is not fixed: the bound is on the mean and on the last.
    fluid = _times_summary(submitted_s, done_s.tolist(), int(is_unfinished.sum()))
    alone = _times_summary(submitted_s, np.minimum(alone_s, window.end_s).tolist(), 0)
    if fluid.mean_h is None or fluid.last_h is None or alone.mean_h is None or alone.last_h is None:
        return fluid
    return TimeToDone(
        mean_h=max(fluid.mean_h, alone.mean_h),
        p95_h=None,
        last_h=max(fluid.last_h, alone.last_h),
        unfinished=fluid.unfinished,
    )


def _submitted_s(window: LogWindow, arrivals: Sequence[Arrival]) -> list[float]:
    """Return when each trainer of the window is submitted, at its start at the earliest; trainers
    that are submitted after its end are left out.
    """
    return [
        max(arrival.at_s, window.start_s) for arrival in arrivals if arrival.at_s <= window.end_s
    ]


def _times_summary(
    since_s: Sequence[float], done_s: Sequence[float], unfinished: int
) -> TimeToDone:
    """Return mean, 95th percentile and last of the times from submissions (``since_s``) to ends."""
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
    """Return when each job is done on one server of speed 1, in the jobs' order.

    The server always works on the job with the shortest remaining work. ``released[j]`` is when job
    j arrives, in any order, ``works[j]`` its work.
    """
    order = sorted(range(len(works)), key=lambda job: released[job])
    done = [0.0] * len(works)
    waiting: list[tuple[float, int]] = []  # remaining work, job
    now, position = 0.0, 0  # order[position] is the next job to arrive
    while position < len(order) or waiting:
        if not waiting:
            now = max(now, released[order[position]])
        while position < len(order) and released[order[position]] <= now:
            heapq.heappush(waiting, (works[order[position]], order[position]))
            position += 1
        remaining, job = heapq.heappop(waiting)
        next_arrival = released[order[position]] if position < len(order) else np.inf
        if now + remaining <= next_arrival:
            now += remaining
            done[job] = now
        else:  # the next job may be shorter
            heapq.heappush(waiting, (remaining - (next_arrival - now), job))
            now = next_arrival
    return done
