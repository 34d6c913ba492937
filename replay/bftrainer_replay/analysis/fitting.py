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
"""All conditions; without time; devices; partition; each :class:`Block` but NONE; and size."""
_MOST_CLASSES = 2048
_MOST_CHANGES = 1_000_000
"""Of which a hundredth can be looked at."""
_MOST_BYTES = 64_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Class:
    """Needs that the same nodes satisfy. Both arrays are over the nodes of the fragments: suited,
    in a partition.
    """

    suited: NDArray[np.bool_]
    in_partition: NDArray[np.bool_]


class Fitting:
    """The waiting jobs and idle nodes of a window, moved forward from moment to moment.

    A node that is idle at the window's end counts as idle for ever after: how long it stays so is
    not known.
    """

    def __init__(self, window: LogWindow, fragments: Fragments, queue: Queue) -> None:
        eligible = queue.eligible_s.kept
        if (eligible[1:] < eligible[:-1]).any():
            queue = queue.only(np.argsort(eligible, kind="stable"))
        # The queue's own columns, of which there may be 44 million rows; a job that does not count
        # has never waited.
        least_s, real = max(window.debounce_s, 1e-3), np.zeros(len(queue.nodes), dtype=np.bool_)
        for part in queue.parts():
            until_s, eligible_s = queue.waits_until(part), queue.eligible_s[part]
            real[part] = (
                (until_s >= eligible_s + least_s)
                & np.isfinite(eligible_s)
                & (until_s > window.start_s)
            )
            real[part] &= eligible_s < window.end_s
        until = Times.gathered(
            np.where(real[part], queue.waits_until(part), 0.0) for part in queue.parts()
        )
        self._queue, self._begins, self._ends = queue, queue.eligible_s, until
        self._block_of = np.array([int(each.block) for each in queue.all_needs], dtype=np.int8)
        names = sorted(set(fragments.nodes))
        number = {name: place for place, name in enumerate(names)}
        common = np.zeros(len(queue.all_needs), dtype=np.int64)
        for part in queue.parts():
            common += np.bincount(queue.needs[part][real[part]], minlength=len(common))
        self._classes, self._class_of, self.left_out = _classes(
            queue.all_needs, common, window.site.nodes, names
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
            inside = np.clip(until[part][real[part]], window.start_s, window.end_s)
            inside -= np.clip(self._begins[part][real[part]], window.start_s, window.end_s)
            self.waiting_s += float(inside.sum())
        # A job also stops to fit when a node's remaining idle time falls below its limit.
        is_each = np.count_nonzero(real) < _MOST_CHANGES
        late_s = self._too_late(queue.limit_s[real]) if is_each else None
        self.changes_s: NDArray[np.float64] | None = None
        if late_s is not None:
            ends_s = until[real]
            self.changes_s = np.unique(
                np.concatenate((self._begins[real], ends_s[np.isfinite(ends_s)], late_s))
            )

    def _too_late(self, limits: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """None if these are too many to look at each."""
        limits = np.unique(limits[np.isfinite(limits) & (limits > 0)])
        ends = np.unique(self._idle_until[np.isfinite(self._idle_until)])
        if len(limits) * len(ends) > _MOST_CHANGES:
            return None
        found: NDArray[np.float64] = np.subtract.outer(ends, limits).ravel() + 1e-3
        return found

    def at(self, at_s: float) -> tuple[int, NDArray[np.int64] | None]:
        """The number of idle nodes, and how many of them waiting jobs could take at each level;
        None: no job waits.
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
        jobs = self._waiting
        sizes, needs = np.maximum(self._queue.nodes[jobs], 1), self._queue.needs[jobs]
        limits = np.nan_to_num(self._queue.limit_s[jobs], nan=0.0, posinf=np.inf, copy=False)
        classes, blocks = self._class_of[needs], self._block_of[needs]
        nodes, left_s = self._idle_node[self._idle], self._idle_until[self._idle] - at_s
        level = np.where(sizes <= idle, _NO_PARTITION, _TOO_LARGE)
        usable = np.zeros((_NO_PARTITION, idle), dtype=np.bool_)
        for kind in np.unique(classes).tolist():
            mine = np.flatnonzero(classes == kind)
            in_partition = self._classes[kind].in_partition[nodes]
            suited = in_partition & self._classes[kind].suited[nodes]
            level[mine[sizes[mine] <= np.count_nonzero(in_partition)]] = _NO_DEVICES
            fit = mine[sizes[mine] <= np.count_nonzero(suited)]
            if len(fit):
                longest = np.sort(left_s[suited])[::-1]
                in_time = longest[sizes[fit] - 1] >= limits[fit]
                level[fit] = np.where(in_time, _FITS, _TOO_LONG)
            free = mine[blocks[mine] == Block.NONE]
            best = level[free].min(initial=_TOO_LARGE)
            if best == _FITS:
                usable[_FITS] |= suited & (left_s >= limits[free[level[free] == _FITS]].min())
            if best <= _TOO_LONG:
                usable[_TOO_LONG] |= suited
            if best <= _NO_DEVICES:
                usable[_NO_DEVICES] |= in_partition
        level = np.where((blocks > 0) & (level < _TOO_LARGE), _NO_PARTITION + blocks, level)
        asked = np.bincount(
            level,
            weights=sizes if not self._no_cap else np.full(len(sizes), idle),
            minlength=LEVELS,
        )
        usable = np.logical_or.accumulate(usable, axis=0)
        most = np.concatenate(
            (np.count_nonzero(usable, axis=1), np.full(LEVELS - _NO_PARTITION, idle))
        )
        found: NDArray[np.int64] = np.minimum(most, np.cumsum(asked)).astype(np.int64)
        return found


def _moved(
    now: NDArray[np.int64], ends: NDArray[np.float64] | Times, before: int, begun: int, at_s: float
) -> NDArray[np.int64]:
    """The numbers of what has begun and not ended, from those of an earlier moment."""
    every = np.concatenate((now, np.arange(before, begun))) if begun > before else now
    found: NDArray[np.int64] = every[ends[every] > at_s]
    return found


def _classes(
    all_needs: tuple[JobNeeds, ...],
    common: NDArray[np.int64],
    facts: LoggedNodes | None,
    names: list[str],
) -> tuple[list[_Class], NDArray[np.int64], int]:
    """The classes, the class of each needs, and how many needs are beyond the limit: every node
    suits those.
    """
    everyone = np.ones(len(names), dtype=np.bool_)
    classes = [_Class(everyone, everyone)]
    of_needs = np.zeros(len(all_needs), dtype=np.int64)
    if facts is None or not len(names):
        return classes, of_needs, 0
    number = {name: place for place, name in enumerate(facts.names)}
    here = np.array([number[name] for name in names], dtype=np.int64)
    most = max(1, min(_MOST_CLASSES, _MOST_BYTES // (2 * len(facts.names))))
    same: dict[tuple[object, ...], list[int]] = {}
    for place in np.argsort(-common, kind="stable")[: np.count_nonzero(common)].tolist():
        each = all_needs[place]
        same.setdefault((each.partition, each.constraint, each.cores, each.devices), []).append(
            place
        )
    for places in list(same.values())[:most]:
        each = all_needs[places[0]]
        of_needs[places] = len(classes)
        classes.append(_Class(facts.suited(each)[here], facts.of_partition(each.partition)[here]))
    return classes, of_needs, max(0, len(same) - most)
