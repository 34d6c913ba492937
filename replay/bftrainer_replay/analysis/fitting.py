"""Which waiting jobs fit on the idle nodes of a moment, condition by condition. The moments must be
asked for in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.analysis.window_fragments import Fragments
from bftrainer_replay.logs.columns import Times
from bftrainer_replay.logs.job_needs import Block, JobNeeds
from bftrainer_replay.logs.logged_nodes import LoggedNodes
from bftrainer_replay.logs.model import LogWindow, Queue

_FITS, _TOO_LONG, _NO_DEVICES, _NO_PARTITION = range(4)
_TOO_LARGE = _NO_PARTITION + len(Block)
LEVELS = _TOO_LARGE + 1
"""Which conditions are judged: all; without time; then without devices; without partition; without
each :class:`Block` but NONE; and without size.
"""
_MAX_CLASSES = 2048
_MAX_CHANGES = 1_000_000
"""Changes of what fits beyond which moments are sampled: about a hundredth can be looked at."""
_MAX_BYTES = 64_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Class:
    """A class of jobs' needs that the same nodes satisfy. Its arrays say of each node of the window
    whether it suits these needs, and whether it is in their partition.
    """

    suited: NDArray[np.bool_]
    in_partition: NDArray[np.bool_]


class Fitting:
    """Judges how many idle nodes of a window its waiting jobs could use, at one moment after
    another in order of time.

    A node that is idle at the window's end counts as idle for ever after: how long it stays so is
    not known.
    """

    def __init__(self, window: LogWindow, fragments: Fragments, queue: Queue) -> None:
        eligible = queue.eligible_s.kept
        if (eligible[1:] < eligible[:-1]).any():
            queue = queue.only(np.argsort(eligible, kind="stable"))
        # The queue's own columns, of which there may be 44 million rows; a job that does not count
        # has never waited.
        waits = _that_wait(queue, window)
        until = Times.gathered(
            np.where(waits[part], queue.waits_until(part), 0.0) for part in queue.parts()
        )
        self._queue, self._begins, self._ends = queue, queue.eligible_s, until
        self._block_of = np.array([int(needs.block) for needs in queue.all_needs], dtype=np.int8)
        names = sorted(set(fragments.nodes))
        number = {name: place for place, name in enumerate(names)}
        jobs_of_needs = np.zeros(len(queue.all_needs), dtype=np.int64)
        for part in queue.parts():
            needs_of_part = queue.needs[part][waits[part]]
            jobs_of_needs += np.bincount(needs_of_part, minlength=len(jobs_of_needs))
        self._classes, self._class_of, self.left_out = _classes(
            queue.all_needs, jobs_of_needs, window.site.nodes, names
        )
        starts = np.argsort(fragments.start_s, kind="stable")
        nodes = np.array([number[name] for name in fragments.nodes], dtype=np.int64)
        self._idle_from, self._idle_node = fragments.start_s[starts], nodes[starts]
        ends = fragments.end_s[starts]
        self._idle_until = np.where(ends >= window.end_s, np.inf, ends)
        self._no_cap = queue.only_smallest
        self._waiting = np.empty(0, dtype=np.int64)
        self._idle = np.empty(0, dtype=np.int64)
        self._next_job = self._next_fragment = 0
        self.waiting_s = 0.0
        for part in queue.parts():
            inside = np.clip(until[part][waits[part]], window.start_s, window.end_s)
            inside -= np.clip(self._begins[part][waits[part]], window.start_s, window.end_s)
            self.waiting_s += float(inside.sum())
        # A job also stops to fit when a node's remaining idle time falls below its limit.
        late_s = None
        if np.count_nonzero(waits) < _MAX_CHANGES:
            late_s = self._too_late(queue.limit_s[waits])
        self.changes_s: NDArray[np.float64] | None = None
        if late_s is not None:
            ends_s = until[waits]
            self.changes_s = np.unique(
                np.concatenate((self._begins[waits], ends_s[np.isfinite(ends_s)], late_s))
            )

    def _too_late(self, limits: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the moments at which the remaining idle time of some node falls below some job's
        time limit, so that the job no longer fits there; None if these are too many to look at.
        """
        limits = np.unique(limits[np.isfinite(limits) & (limits > 0)])
        ends = np.unique(self._idle_until[np.isfinite(self._idle_until)])
        if len(limits) * len(ends) > _MAX_CHANGES:
            return None
        moments_s: NDArray[np.float64] = np.subtract.outer(ends, limits).ravel() + 1e-3
        return moments_s

    def at(self, at_s: float) -> tuple[int, NDArray[np.int64] | None]:
        """Advance to a moment; return the number of idle nodes, and how many of them waiting jobs
        could take at each level (:meth:`_levels`). None instead if no job waits.
        """
        begun = int(np.searchsorted(self._idle_from, at_s, side="right"))
        self._idle = _moved(self._idle, self._idle_until, self._next_fragment, begun, at_s)
        self._next_fragment, begun = begun, self._begins.until(at_s)
        self._waiting = _moved(self._waiting, self._ends, self._next_job, begun, at_s)
        self._next_job = begun
        idle = len(self._idle)
        if not idle or not len(self._waiting):
            return idle, None
        return idle, self._levels(idle, at_s)

    def _levels(self, idle: int, at_s: float) -> NDArray[np.int64]:
        """Return how many of the idle nodes the waiting jobs could take, for each level.

        A level is how much of a job's request is disregarded: at level 0 (``_FITS``) nothing, at
        each further level one condition more, such as the time limit, then the devices, then the
        partition.
        """
        jobs = self._waiting
        sizes, needs = np.maximum(self._queue.nodes[jobs], 1), self._queue.needs[jobs]
        limits = np.nan_to_num(self._queue.limit_s[jobs], nan=0.0, posinf=np.inf, copy=False)
        classes, blocks = self._class_of[needs], self._block_of[needs]
        nodes, left_s = self._idle_node[self._idle], self._idle_until[self._idle] - at_s
        level = np.where(sizes <= idle, _NO_PARTITION, _TOO_LARGE)
        usable = np.zeros((_NO_PARTITION, idle), dtype=np.bool_)
        for kind in np.unique(classes).tolist():
            of_class = np.flatnonzero(classes == kind)
            in_partition = self._classes[kind].in_partition[nodes]
            suited = in_partition & self._classes[kind].suited[nodes]
            level[of_class[sizes[of_class] <= np.count_nonzero(in_partition)]] = _NO_DEVICES
            fit = of_class[sizes[of_class] <= np.count_nonzero(suited)]
            if len(fit):
                longest = np.sort(left_s[suited])[::-1]
                in_time = longest[sizes[fit] - 1] >= limits[fit]
                level[fit] = np.where(in_time, _FITS, _TOO_LONG)
            free = of_class[blocks[of_class] == Block.NONE]
            best = level[free].min(initial=_TOO_LARGE)
            if best == _FITS:
                usable[_FITS] |= suited & (left_s >= limits[free[level[free] == _FITS]].min())
            if best <= _TOO_LONG:
                usable[_TOO_LONG] |= suited
            if best <= _NO_DEVICES:
                usable[_NO_DEVICES] |= in_partition
        level = np.where((blocks > 0) & (level < _TOO_LARGE), _NO_PARTITION + blocks, level)
        demand = np.full(len(sizes), idle) if self._no_cap else sizes
        demand_of_level = np.bincount(level, weights=demand, minlength=LEVELS)
        usable = np.logical_or.accumulate(usable, axis=0)
        supply = np.concatenate(
            (np.count_nonzero(usable, axis=1), np.full(LEVELS - _NO_PARTITION, idle))
        )
        levels: NDArray[np.int64] = np.minimum(supply, np.cumsum(demand_of_level)).astype(np.int64)
        return levels


def _that_wait(queue: Queue, window: LogWindow) -> NDArray[np.bool_]:
    """Return which jobs wait in the window, and for longer than the log's debounce time."""
    shortest_s = max(window.debounce_s, 1e-3)
    waits = np.zeros(len(queue.nodes), dtype=np.bool_)
    for part in queue.parts():
        until_s, eligible_s = queue.waits_until(part), queue.eligible_s[part]
        waits[part] = (
            (until_s >= eligible_s + shortest_s)
            & np.isfinite(eligible_s)
            & (until_s > window.start_s)
        )
        waits[part] &= eligible_s < window.end_s
    return waits


def _moved(
    now: NDArray[np.int64], ends: NDArray[np.float64] | Times, before: int, begun: int, at_s: float
) -> NDArray[np.int64]:
    """Return the numbers of the jobs (or idle periods) that are present at ``at_s``, from those
    present at an earlier moment and those that have begun since, ``before`` to ``begun``.
    """
    every = np.concatenate((now, np.arange(before, begun))) if begun > before else now
    present: NDArray[np.int64] = every[ends[every] > at_s]
    return present


def _classes(
    all_needs: tuple[JobNeeds, ...],
    jobs_of_needs: NDArray[np.int64],
    facts: LoggedNodes | None,
    names: list[str],
) -> tuple[list[_Class], NDArray[np.int64], int]:
    """Group the needs of jobs by the nodes that satisfy them: return the classes, the class of each
    needs, and how many combinations are left out.

    The most frequent come first; every node suits those that are left out.
    """
    everyone = np.ones(len(names), dtype=np.bool_)
    classes = [_Class(everyone, everyone)]
    of_needs = np.zeros(len(all_needs), dtype=np.int64)
    if facts is None or not len(names):
        return classes, of_needs, 0
    number = {name: place for place, name in enumerate(facts.names)}
    here = np.array([number[name] for name in names], dtype=np.int64)
    max_classes = max(1, min(_MAX_CLASSES, _MAX_BYTES // (2 * len(facts.names))))
    same: dict[tuple[object, ...], list[int]] = {}
    most_jobs_first = np.argsort(-jobs_of_needs, kind="stable")
    for place in most_jobs_first[: np.count_nonzero(jobs_of_needs)].tolist():
        needs = all_needs[place]
        key = (needs.partition, needs.constraint, needs.cores, needs.devices)
        same.setdefault(key, []).append(place)
    for places in list(same.values())[:max_classes]:
        needs = all_needs[places[0]]
        of_needs[places] = len(classes)
        in_partition = facts.of_partition(needs.partition)[here]
        classes.append(_Class(facts.suited(needs)[here], in_partition))
    return classes, of_needs, max(0, len(same) - max_classes)
