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
"""Number of levels. Each disregards one more condition of a job's request: level 0 none; then the
time limit; devices; the partition; each :class:`Block` but NONE; and, at the last level, the size.
"""
_MAX_CLASSES = 2048
_MAX_CHANGES = 1_000_000
"""Limit for the changes that are listed. With more, the caller samples moments: it has time to
judge about a hundredth of these changes.
"""
_MAX_BYTES = 64_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Class:
    """A class of needs that the same nodes satisfy. Its masks are over the node groups of the
    window: those with the devices and features for these needs, and those in their partition.
    """

    suited: NDArray[np.bool_]
    in_partition: NDArray[np.bool_]


class Fitting:
    """Judges how many idle nodes of a window its waiting jobs could use, at one moment after
    another in order of time.

    A node that is idle at the window's end counts as idle for ever after: when it leaves the pool
    is not known.

    ``waiting_s`` is the time that all jobs waited in the window. ``changes_s`` are the times at
    which the number of usable nodes may change, apart from changes of the pool; None if these are
    too many. ``left_out`` counts combinations of needs that count as suited by every node.
    """

    def __init__(self, window: LogWindow, fragments: Fragments, queue: Queue) -> None:
        """Prepare to judge the waiting jobs of ``queue`` on the idle periods (``fragments``) of a
        window.

        Sorts waits and idle periods by their starts, and puts the needs of jobs (partition,
        devices, features) into classes that the same nodes satisfy.
        """
        eligible = queue.eligible_s.packed
        if (eligible[1:] < eligible[:-1]).any():
            queue = queue.selected(np.argsort(eligible, kind="stable"))
        # The queue may have 44 million rows: its own columns are used, with the jobs that do not
        # count. The wait of such a job ends at 0 s, so that it waits at no moment.
        waits = _that_wait(queue, window)
        wait_ends = Times.from_parts(
            np.where(waits[part], queue.waits_until(part), 0.0) for part in queue.parts()
        )
        self._queue = queue
        self._wait_begins, self._wait_ends = queue.eligible_s, wait_ends
        self._block_of_needs = np.array(
            [int(needs.block) for needs in queue.all_needs], dtype=np.int8
        )
        # A group of nodes that are idle together counts as often as it has nodes.
        present, groups = np.unique(fragments.group, return_inverse=True)
        self._weights = fragments.groups.weights[present]
        firsts = fragments.groups.first[present].tolist()
        names = [fragments.groups.names[first] for first in firsts]
        jobs_of_needs = np.zeros(len(queue.all_needs), dtype=np.int64)
        for part in queue.parts():
            needs_of_part = queue.needs[part][waits[part]]
            jobs_of_needs += np.bincount(needs_of_part, minlength=len(jobs_of_needs))
        self._classes, self._class_of_needs, self.left_out = _classes_of_needs(
            queue.all_needs, jobs_of_needs, window.site.nodes, names
        )
        # Idle periods as arrays in order of their starts; a group is an index into ``names``.
        order = np.argsort(fragments.start_s, kind="stable")
        ends_s = fragments.end_s[order]
        self._idle_group = groups[order]
        self._idle_from = fragments.start_s[order]
        self._idle_until = np.where(ends_s >= window.end_s, np.inf, ends_s)
        # Of the waiting jobs, the queue may have the smallest alone: others could use more nodes.
        self._has_unlimited_demand = queue.only_smallest
        # The jobs that wait and the periods in which a node is idle, at the moment of the last call
        # of at(): indices into the arrays above. Those with higher indices than the next begin
        # later.
        self._waiting_jobs = np.empty(0, dtype=np.int64)
        self._idle_periods = np.empty(0, dtype=np.int64)
        self._next_job = self._next_period = 0
        self.waiting_s = 0.0
        for part in queue.parts():
            inside_s = np.clip(wait_ends[part][waits[part]], window.start_s, window.end_s)
            inside_s -= np.clip(self._wait_begins[part][waits[part]], window.start_s, window.end_s)
            self.waiting_s += float(inside_s.sum())
        # A job also stops to fit when a node's remaining idle time falls below its limit.
        too_late_s = None
        if np.count_nonzero(waits) < _MAX_CHANGES:
            too_late_s = self._too_late(queue.limit_s[waits])
        self.changes_s: NDArray[np.float64] | None = None
        if too_late_s is not None:
            ends_s = wait_ends[waits]
            self.changes_s = np.unique(
                np.concatenate((self._wait_begins[waits], ends_s[np.isfinite(ends_s)], too_late_s))
            )

    def _too_late(self, limits_s: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the moments at which the remaining idle time of some node falls below a time
        limit.

        From such a moment on, jobs with that limit no longer fit on the node. None if there are too
        many.
        """
        limits_s = np.unique(limits_s[np.isfinite(limits_s) & (limits_s > 0)])
        ends_s = np.unique(self._idle_until[np.isfinite(self._idle_until)])
        if len(limits_s) * len(ends_s) > _MAX_CHANGES:
            return None
        # A millisecond later: at the difference itself, the job still fits.
        moments_s: NDArray[np.float64] = np.subtract.outer(ends_s, limits_s).ravel() + 1e-3
        return moments_s

    def at(self, at_s: float) -> tuple[int, NDArray[np.int64] | None]:
        """Advance to a moment; return the number of idle nodes, and how many of them jobs could
        take.

        The second value has one number per level (:meth:`_takeable_nodes`: how much of the jobs'
        requests is disregarded); None if no node is idle or no job waits. A moment must not be
        before that of the last call.
        """
        n_begun_periods = int(np.searchsorted(self._idle_from, at_s, side="right"))
        self._idle_periods = _going_on_at(
            self._idle_periods, self._idle_until, self._next_period, n_begun_periods, at_s
        )
        self._next_period = n_begun_periods
        n_begun_waits = self._wait_begins.count_until(at_s)
        self._waiting_jobs = _going_on_at(
            self._waiting_jobs, self._wait_ends, self._next_job, n_begun_waits, at_s
        )
        self._next_job = n_begun_waits
        n_idle = int(self._weights[self._idle_group[self._idle_periods]].sum())
        if not n_idle or not len(self._waiting_jobs):
            return n_idle, None
        return n_idle, self._takeable_nodes(n_idle, at_s)

    def _takeable_nodes(self, n_idle: int, at_s: float) -> NDArray[np.int64]:
        """Return how many of the idle nodes the waiting jobs could take, for each level.

        A level is how much of a job's request is disregarded: at level 0 (``_FITS``) nothing, at
        each further level one condition more, such as the time limit, then the devices, then the
        partition. No more nodes are takeable than the jobs of that level and of those below ask
        for. Idle nodes and waiting jobs are those of :meth:`at`, and there are some of both.
        """
        jobs = self._waiting_jobs
        sizes, needs = np.maximum(self._queue.nodes[jobs], 1), self._queue.needs[jobs]
        # A job without a recorded limit fits by time.
        limits_s = np.nan_to_num(self._queue.limit_s[jobs], nan=0.0, posinf=np.inf, copy=False)
        classes, blocks = self._class_of_needs[needs], self._block_of_needs[needs]
        groups = self._idle_group[self._idle_periods]
        weights = self._weights[groups]
        left_s = self._idle_until[self._idle_periods] - at_s
        longest_first = np.argsort(-left_s, kind="stable")
        # The lowest level at which each job fits, and the idle nodes that some job without a block
        # could use at each level, except those at a lower level.
        level = np.where(sizes <= n_idle, _NO_PARTITION, _TOO_LARGE)
        usable = np.zeros((_NO_PARTITION, len(groups)), dtype=np.bool_)
        for class_index in np.unique(classes).tolist():
            of_class = np.flatnonzero(classes == class_index)
            in_partition = self._classes[class_index].in_partition[groups]
            suited = in_partition & self._classes[class_index].suited[groups]
            level[of_class[sizes[of_class] <= weights[in_partition].sum()]] = _NO_DEVICES
            fit = of_class[sizes[of_class] <= weights[suited].sum()]
            if len(fit):
                # A job of n nodes can stay as long as the n-th of the nodes that stay longest.
                longest = longest_first[suited[longest_first]]
                nth = longest[np.searchsorted(np.cumsum(weights[longest]), sizes[fit])]
                is_in_time = left_s[nth] >= limits_s[fit]
                level[fit] = np.where(is_in_time, _FITS, _TOO_LONG)
            unblocked = of_class[blocks[of_class] == Block.NONE]
            best = level[unblocked].min(initial=_TOO_LARGE)
            if best == _FITS:
                # A node is usable if some job could stay on it: the one with the shortest time
                # limit.
                shortest_limit_s = limits_s[unblocked[level[unblocked] == _FITS]].min()
                usable[_FITS] |= suited & (left_s >= shortest_limit_s)
            if best <= _TOO_LONG:
                usable[_TOO_LONG] |= suited
            if best <= _NO_DEVICES:
                usable[_NO_DEVICES] |= in_partition
        # A blocked job fits only where its block is disregarded.
        level = np.where((blocks > 0) & (level < _TOO_LARGE), _NO_PARTITION + blocks, level)
        demand = np.full(len(sizes), n_idle) if self._has_unlimited_demand else sizes
        demand_of_level = np.bincount(level, weights=demand, minlength=LEVELS)
        # What is usable at a level is usable where more is disregarded.
        usable = np.logical_or.accumulate(usable, axis=0)
        # Without a condition on partitions, all idle nodes are usable.
        supply = np.concatenate((usable @ weights, np.full(LEVELS - _NO_PARTITION, n_idle)))
        levels: NDArray[np.int64] = np.minimum(supply, np.cumsum(demand_of_level)).astype(np.int64)
        return levels


def _that_wait(queue: Queue, window: LogWindow) -> NDArray[np.bool_]:
    """Return a mask of the jobs that wait in the window for at least the log's debounce time.

    Shorter waits do not count, as shorter idle periods do not.
    """
    shortest_s = max(window.debounce_s, 1e-3)
    waits = np.zeros(len(queue.nodes), dtype=np.bool_)
    for part in queue.parts():
        until_s, eligible_s = queue.waits_until(part), queue.eligible_s[part]
        is_long = np.isfinite(eligible_s) & (until_s >= eligible_s + shortest_s)
        waits[part] = is_long & (until_s > window.start_s) & (eligible_s < window.end_s)
    return waits


def _going_on_at(
    current: NDArray[np.int64],
    ends: NDArray[np.float64] | Times,
    begin: int,
    end: int,
    at_s: float,
) -> NDArray[np.int64]:
    """Return the indices of the waits (or idle periods) still going on at ``at_s``.

    Candidates are ``current``, those going on at the previous moment, and ``begin`` to ``end`` - 1,
    those begun since. ``ends`` are the ends of all.
    """
    candidates = np.concatenate((current, np.arange(begin, end))) if end > begin else current
    going_on: NDArray[np.int64] = candidates[ends[candidates] > at_s]
    return going_on


def _classes_of_needs(
    all_needs: tuple[JobNeeds, ...],
    jobs_of_needs: NDArray[np.int64],
    facts: LoggedNodes | None,
    names: list[str],
) -> tuple[list[_Class], NDArray[np.int64], int]:
    """Return classes of needs that the same nodes satisfy, the class of each needs, and how many
    are left out.

    The needs of a job are its partition, constraint, cores and devices. The classes of most jobs
    come first. The needs that are left out are in class 0, which every node suits.
    ``jobs_of_needs`` counts the jobs with each of ``all_needs``; ``names`` are the first nodes of
    the groups.
    """
    all_nodes = np.ones(len(names), dtype=np.bool_)
    classes = [_Class(all_nodes, all_nodes)]
    class_of_needs = np.zeros(len(all_needs), dtype=np.int64)
    if facts is None or not len(names):
        return classes, class_of_needs, 0
    index_of = {name: index for index, name in enumerate(facts.names)}
    window_nodes = np.array([index_of[name] for name in names], dtype=np.int64)
    max_classes = max(1, min(_MAX_CLASSES, _MAX_BYTES // (2 * len(facts.names))))
    # Equal needs but for block and account: their indices, those of most jobs first.
    groups: dict[tuple[object, ...], list[int]] = {}
    most_jobs_first = np.argsort(-jobs_of_needs, kind="stable")
    for needs_index in most_jobs_first[: np.count_nonzero(jobs_of_needs)].tolist():
        needs = all_needs[needs_index]
        key = (needs.partition, needs.constraint, needs.cores, needs.devices)
        groups.setdefault(key, []).append(needs_index)
    for indices in list(groups.values())[:max_classes]:
        needs = all_needs[indices[0]]
        class_of_needs[indices] = len(classes)
        in_partition = facts.of_partition(needs.partition)[window_nodes]
        classes.append(_Class(facts.suited(needs)[window_nodes], in_partition))
    return classes, class_of_needs, max(0, len(groups) - max_classes)
