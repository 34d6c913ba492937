"""What a scheduler with backfill starts now, and which nodes its plan leaves free for how long.
Pure; nodes are counted, not named.

``pending`` are numbers of jobs in the order of their priority, ``ends`` when running jobs and
holders end at the latest, with their nodes, in order of time.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bftrainer_replay.main_queue.jobs import MainJobs

Ends = Callable[[], list[tuple[float, int]]]
"""Planned ends as (seconds, nodes), in order; not every plan needs them."""
Levels = list[tuple[float, int]]
"""From the first time on no more than so many nodes are free, and so on; the nodes fall."""
SLURM_DEPTH = 100
"""``bf_max_job_test`` of Slurm when it was young, and here the number of reservations."""


class Backfill(Protocol):
    """A scheduler's plan."""

    @property
    def name(self) -> str:
        """The name in words."""

    def starts(
        self, now_s: float, idle: int, ends: Ends, pending: Sequence[int], jobs: MainJobs
    ) -> list[int]:
        """Return the jobs that start now."""

    def levels(
        self, now_s: float, idle: int, ends: Ends, pending: Sequence[int], jobs: MainJobs
    ) -> Levels:
        """Return how many nodes stay free until when, after what starts now."""


@dataclass(slots=True)
class _EasyWalk:
    """An EASY plan in progress: jobs that start, and the reservation of the first that cannot."""

    idle: int
    starts: list[int]
    shadow_s: float = math.inf
    extra: int = 0


@dataclass(frozen=True, slots=True)
class Easy:
    """First come, first served; the first job that must wait has a reservation, and a later one
    starts where it does not delay that (EASY: Lifka 1995).
    """

    name: str = "EASY"

    def starts(
        self, now_s: float, idle: int, ends: Ends, pending: Sequence[int], jobs: MainJobs
    ) -> list[int]:
        """Return the jobs that start now."""
        return self._walked(now_s, idle, ends, pending, jobs, always_reserves=False).starts

    def levels(
        self, now_s: float, idle: int, ends: Ends, pending: Sequence[int], jobs: MainJobs
    ) -> Levels:
        """Return how many nodes stay free until when: up to the reservation, and from then on."""
        walk = self._walked(now_s, idle, ends, pending, jobs, always_reserves=True)
        if math.isinf(walk.shadow_s):
            return [(now_s, walk.idle)]
        return [(now_s, walk.idle), (walk.shadow_s, min(walk.idle, walk.extra))]

    def _walked(
        self,
        now_s: float,
        idle: int,
        ends: Ends,
        pending: Sequence[int],
        jobs: MainJobs,
        *,
        always_reserves: bool,
    ) -> _EasyWalk:
        """Go through the pending jobs in order. The reservation is computed only if a job behind it
        is small enough to start, or if it is asked for.
        """
        nodes, limits_s = jobs.nodes, jobs.limit_s
        walk = _EasyWalk(idle, [])
        place = 0
        while place < len(pending) and nodes[pending[place]] <= walk.idle:
            walk.starts.append(pending[place])
            walk.idle -= nodes[pending[place]]
            place += 1
        if place == len(pending):
            return walk
        head, has_shadow = pending[place], False
        if always_reserves:
            self._reserve(walk, now_s, nodes[head], ends, jobs)
            has_shadow = True
        for job in pending[place + 1 :]:
            size = nodes[job]
            if size > walk.idle:
                continue
            if not walk.idle:
                break
            if not has_shadow:
                self._reserve(walk, now_s, nodes[head], ends, jobs)
                has_shadow = True
            if now_s + limits_s[job] > walk.shadow_s:
                if size > walk.extra:
                    continue
                walk.extra -= size
            walk.starts.append(job)
            walk.idle -= size
        return walk

    def _reserve(
        self, walk: _EasyWalk, now_s: float, size: int, ends: Ends, jobs: MainJobs
    ) -> None:
        """Note when ``size`` nodes will be free, and how many others are free then."""
        planned = [*ends(), *((now_s + jobs.limit_s[job], jobs.nodes[job]) for job in walk.starts)]
        planned.sort()
        free = walk.idle
        for place, (end_s, count) in enumerate(planned):
            free += count
            is_last_of_instant = place + 1 == len(planned) or planned[place + 1][0] > end_s
            if free >= size and is_last_of_instant:
                walk.shadow_s, walk.extra = max(end_s, now_s), free - size
                return


@dataclass(frozen=True, slots=True)
class Conservative:
    """Each of the first ``depth`` pending jobs has the earliest reservation that delays none before
    it, as in Slurm's backfill.
    """

    name: str = "conservative"
    depth: int = SLURM_DEPTH

    def starts(
        self, now_s: float, idle: int, ends: Ends, pending: Sequence[int], jobs: MainJobs
    ) -> list[int]:
        """Return the jobs that start now."""
        candidates = pending[: self.depth]
        nodes = jobs.nodes
        if not any(nodes[job] <= idle for job in candidates):
            return []
        profile = _Profile.of(now_s, idle, ends())
        smallest = _smallest_from(candidates, nodes)
        starts = []
        for place, job in enumerate(candidates):
            if smallest[place] > profile.free[0]:
                break
            if profile.reserve(nodes[job], jobs.limit_s[job]) <= now_s:
                starts.append(job)
        return starts

    def levels(
        self, now_s: float, idle: int, ends: Ends, pending: Sequence[int], jobs: MainJobs
    ) -> Levels:
        """Return how many nodes stay free until when, beside all reservations."""
        if not pending:
            return [(now_s, idle)]
        profile = _Profile.of(now_s, idle, ends())
        for job in pending[: self.depth]:
            profile.reserve(jobs.nodes[job], jobs.limit_s[job])
        levels: Levels = []
        for at_s, free in zip(profile.times_s, profile.free, strict=True):
            if not levels or free < levels[-1][1]:
                levels.append((at_s, free))
        return levels


def _smallest_from(candidates: Sequence[int], nodes: Sequence[int]) -> list[int]:
    """Return, for each place of the queue, the smallest job from there on."""
    smallest = [nodes[job] for job in candidates]
    for place in range(len(smallest) - 2, -1, -1):
        smallest[place] = min(smallest[place], smallest[place + 1])
    return smallest


@dataclass(slots=True)
class _Profile:
    """How many nodes are free from each time on: ``free[k]`` from ``times_s[k]``."""

    times_s: list[float]
    free: list[int]

    @classmethod
    def of(cls, now_s: float, idle: int, ends: Sequence[tuple[float, int]]) -> _Profile:
        """Return the profile of running jobs and holders alone."""
        times_s, free = [now_s], [idle]
        for end_s, count in ends:
            at_s = max(end_s, now_s + 1e-3)  # What ends now is not idle yet.
            if at_s > times_s[-1]:
                times_s.append(at_s)
                free.append(free[-1] + count)
            else:
                free[-1] += count
        return cls(times_s, free)

    def reserve(self, size: int, limit_s: float) -> float:
        """Take ``size`` nodes for ``limit_s`` at the earliest time at which they are free, and
        return that time (infinite: never).
        """
        place = self._earliest(size, limit_s)
        if place < 0:
            return math.inf
        at_s = self.times_s[place]
        until = self._cut(at_s + limit_s)
        for step in range(place, until):
            self.free[step] -= size
        return at_s

    def _earliest(self, size: int, limit_s: float) -> int:
        """Return the first step from which ``size`` nodes are free for ``limit_s``; -1: none."""
        times_s, free = self.times_s, self.free
        place, steps = 0, len(free)
        while place < steps:
            if free[place] < size:
                place += 1
                continue
            until = bisect_left(times_s, times_s[place] + limit_s)
            obstacle = next((step for step in range(place, until) if free[step] < size), -1)
            if obstacle < 0:
                return place
            place = obstacle + 1
        return -1

    def _cut(self, at_s: float) -> int:
        """Let a step begin at a time; return its place."""
        place = bisect_right(self.times_s, at_s)
        if self.times_s[place - 1] == at_s:
            return place - 1
        self.times_s.insert(place, at_s)
        self.free.insert(place, self.free[place - 1])
        return place


def free_for(now_s: float, levels: Levels, room: int) -> list[tuple[int, float]]:
    """Return for how long at most ``room`` idle nodes stay free: (nodes, seconds), the shortest
    first.
    """
    free = min(room, levels[0][1])
    windows = []
    for place in range(len(levels)):
        is_last = place + 1 == len(levels)
        staying = 0 if is_last else max(levels[place + 1][1], 0)
        window_s = math.inf if is_last else levels[place + 1][0] - now_s
        if free > staying:
            windows.append((free - staying, window_s))
            free = staying
    return windows


BACKFILLS: dict[str, Backfill] = {"easy": Easy(), "conservative": Conservative()}
"""The schedulers that can be simulated, by the values of ``--backfill``."""
