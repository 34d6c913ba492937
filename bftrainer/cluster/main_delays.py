"""How long main jobs waited for nodes that pilots held, from an account of past jobs. Pure.

A main job could have run while the idle and the held nodes of its partition were enough for it, and
the jobs ahead of it in the queue did not need them, as backfill plans: by the time limits of all
jobs, with held nodes as idle ones. It waited *for held nodes* while the idle ones alone were not
enough. The longest such stretch of a job is its delay. Nothing in it is the word of a pilot.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer.cluster.past_jobs import JobLog, PastJob

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
_PLANNED_JOBS = 100
"""Backfill plans no more by default (bf_max_job_test)."""


@dataclass(frozen=True, slots=True)
class MainDelay:
    """The longest stretch in which a main job waited for held nodes.

    ``missing``: how many held nodes it needed beside idle ones when the stretch began; ``held`` how
    many of its partition were held.
    """

    job: PastJob
    begin_s: float
    end_s: float
    missing: int
    held: int

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


def main_delays(log: JobLog) -> tuple[MainDelay, ...]:
    """The delay of each main job that has one, the longest first."""
    audit = _Audit(log)
    delays = [delay for job in log.jobs if not job.is_holder for delay in audit.delay(job)]
    return tuple(sorted(delays, key=lambda delay: (-delay.seconds, delay.job.rank)))


@dataclass(frozen=True, slots=True)
class _Moments:
    """The state of all nodes from each moment to the next one, as sets of bits."""

    times_s: Floats
    busy: list[int]
    held: list[int]


class _Audit:
    """The log as a course of moments, with what is computed once for each partition."""

    def __init__(self, log: JobLog) -> None:
        self._log = log
        names = frozenset[str]().union(*(job.nodes for job in log.jobs), *log.partitions.values())
        self._bits = {name: 1 << place for place, name in enumerate(sorted(names))}
        self._moments = self._course()
        self._masks = self._masks_of_partitions()
        self._counts: dict[str, tuple[Counts, Counts]] = {}
        self._started = [job for job in log.jobs if not job.is_holder and job.start_s is not None]
        self._own_bits = [_union(job.nodes, self._bits) for job in self._started]
        self._eligible_s = np.array([job.eligible_s for job in self._started], dtype=np.float64)
        self._start_s = np.array([job.start_s for job in self._started], dtype=np.float64)
        self._end_s = np.array(list(map(_end_s, self._started)), dtype=np.float64)

    def delay(self, job: PastJob) -> Iterator[MainDelay]:
        """The delay of a main job; nothing where there is none."""
        begin_s = max(job.eligible_s, self._log.begin_s)
        end_s = self._log.end_s if job.start_s is None else job.start_s
        if not (begin_s < end_s) or job.size < 1:
            return
        stretches = [
            stretch
            for partition in job.partition.split(",")
            for stretch in self._stretches(job, partition, begin_s, end_s)
        ]
        if stretches:
            yield max(stretches, key=lambda stretch: stretch.seconds)

    def _stretches(
        self, job: PastJob, partition: str, begin_s: float, end_s: float
    ) -> Iterator[MainDelay]:
        """The stretches in which the job waited for held nodes of a partition."""
        mask = self._masks.get(partition, 0)
        if not mask:
            return
        idle, held = self._counts_of(partition)
        times_s = self._moments.times_s
        first = max(int(np.searchsorted(times_s, begin_s, side="right")) - 1, 0)
        last = int(np.searchsorted(times_s, end_s, side="left"))
        here, held_here = idle[first:last], held[first:last]
        lacks = (here < job.size) & (here + held_here >= job.size)
        candidates = np.flatnonzero(lacks) + first
        if not len(candidates):
            return
        ahead = self._ahead(job, mask, begin_s, end_s)
        places = [int(place) for place in candidates]
        waits = [place for place in places if self._could_run(job, ahead, mask, place)]
        for run in _runs(waits):
            stretch_begin_s = max(float(times_s[run[0]]), begin_s)
            after = run[-1] + 1
            stretch_end_s = min(float(times_s[after]) if after < len(times_s) else end_s, end_s)
            if stretch_end_s > stretch_begin_s:
                missing = job.size - int(idle[run[0]])
                yield MainDelay(job, stretch_begin_s, stretch_end_s, missing, int(held[run[0]]))

    def _could_run(self, job: PastJob, ahead: list[PastJob], mask: int, place: int) -> bool:
        """Whether backfill would have started the job if held nodes had been idle."""
        at_s = max(float(self._moments.times_s[place]), job.eligible_s)
        waiting = _waiting(ahead, at_s)
        if not waiting:
            return True
        free = mask & ~self._moments.busy[place]
        plan = _Plan(at_s, free.bit_count(), self._releases(mask, at_s))
        for other in waiting[:_PLANNED_JOBS]:
            plan.add(other.size, other.limit_s)
            if not plan.fits_now(job.size, job.limit_s):
                return False
        return plan.fits_now(job.size, job.limit_s)

    def _releases(self, mask: int, at_s: float) -> list[tuple[float, int]]:
        """When the main jobs that run on nodes of a partition reach their time limits, and how many
        of its nodes each has.
        """
        runs = (self._start_s <= at_s) & (self._end_s > at_s)
        releases = []
        for place in np.flatnonzero(runs):
            job = self._started[int(place)]
            nodes = (self._own_bits[int(place)] & mask).bit_count()
            if nodes:
                releases.append((max(float(self._start_s[place]) + job.limit_s, at_s), nodes))
        return releases

    def _ahead(self, job: PastJob, mask: int, begin_s: float, end_s: float) -> list[PastJob]:
        """Main jobs that waited for nodes of a partition at the same time, in the order of the
        queue up to this job. What waited for something else as well took no nodes from it.
        """
        waited = (self._eligible_s < end_s) & (self._start_s > begin_s)
        ahead = [
            self._started[place]
            for place in map(int, np.flatnonzero(waited))
            if self._own_bits[place] & mask
        ]
        return sorted(
            (other for other in ahead if other.rank < job.rank and not other.other_reason),
            key=_rank,
        )

    def _course(self) -> _Moments:
        """All moments at which a node is taken or left, by main jobs (or an outage) and holders."""
        log = self._log
        changes: dict[float, list[tuple[frozenset[str], int, bool]]] = defaultdict(list)
        for job in log.jobs:
            if job.start_s is not None and job.nodes:
                changes[job.start_s].append((job.nodes, 1, job.is_holder))
                if job.end_s is not None:
                    changes[max(job.end_s, job.start_s)].append((job.nodes, -1, job.is_holder))
        for outage in log.outages:
            node = frozenset({outage.node}) & self._bits.keys()
            changes[outage.start_s].append((node, 1, False))
            if outage.end_s is not None:
                changes[outage.end_s].append((node, -1, False))
        changes.setdefault(log.begin_s, [])
        states = {False: _Occupied(self._bits), True: _Occupied(self._bits)}
        times_s, busy, held = [], [], []
        for at_s in sorted(changes):
            for nodes, step, is_holder in changes[at_s]:
                states[is_holder].change(nodes, step)
            times_s.append(at_s)
            busy.append(states[False].bits)
            held.append(states[True].bits & ~states[False].bits)
        return _Moments(np.array(times_s, dtype=np.float64), busy, held)

    def _masks_of_partitions(self) -> dict[str, int]:
        """The nodes of each partition. One that only holders had may be of any partition that
        shares nodes with theirs.
        """
        nodes: dict[str, set[str]] = defaultdict(set)
        for name, listed in self._log.partitions.items():
            nodes[name] |= listed
        held: dict[str, set[str]] = defaultdict(set)
        for job in self._log.jobs:
            if job.start_s is not None:
                (held if job.is_holder else nodes)[job.partition] |= job.nodes
        placed = frozenset[str]().union(*nodes.values())
        for partition, members in held.items():
            unplaced = members - placed
            for own in list(nodes.values()):
                if own & members:
                    own |= unplaced
            nodes[partition] |= members
        return {name: _union(members, self._bits) for name, members in nodes.items()}

    def _counts_of(self, partition: str) -> tuple[Counts, Counts]:
        """How many nodes of a partition are idle, and how many are held, from each moment on."""
        if partition not in self._counts:
            mask, moments = self._masks[partition], self._moments
            both = zip(moments.busy, moments.held, strict=True)
            idle = [(mask & ~busy & ~held).bit_count() for busy, held in both]
            held_counts = [(mask & held).bit_count() for held in moments.held]
            counts = np.array(idle, dtype=np.int64), np.array(held_counts, dtype=np.int64)
            self._counts[partition] = counts
        return self._counts[partition]


class _Occupied:
    """Nodes with jobs: several may share one."""

    def __init__(self, bits: Mapping[str, int]) -> None:
        self._bits = bits
        self._jobs: dict[str, int] = defaultdict(int)
        self.bits = 0

    def change(self, nodes: Iterable[str], step: int) -> None:
        """A job comes (1) or leaves (-1)."""
        for node in nodes:
            self._jobs[node] += step
            bit = self._bits[node]
            self.bits = self.bits | bit if self._jobs[node] > 0 else self.bits & ~bit


class _Plan:
    """Free nodes over time, as backfill plans them: each job starts as early as it fits, and delays
    none that was planned before.
    """

    def __init__(self, at_s: float, free: int, releases: list[tuple[float, int]]) -> None:
        self._times_s = [at_s]
        self._free = [free]
        for end_s, nodes in sorted(releases):
            if end_s == self._times_s[-1]:
                self._free[-1] += nodes
            elif end_s < math.inf:
                self._times_s.append(end_s)
                self._free.append(self._free[-1] + nodes)

    def fits_now(self, size: int, limit_s: float) -> bool:
        """Whether a job could start now without delaying any that is planned."""
        return self._fits(0, size, limit_s)

    def add(self, size: int, limit_s: float) -> None:
        """Plan a job; one that never fits needs no nodes."""
        for first in range(len(self._times_s)):
            if self._fits(first, size, limit_s):
                end_s = self._times_s[first] + limit_s
                self._split(end_s)
                for place in range(first, len(self._times_s)):
                    if self._times_s[place] < end_s:
                        self._free[place] -= size
                return

    def _fits(self, first: int, size: int, limit_s: float) -> bool:
        end_s = self._times_s[first] + limit_s
        for place in range(first, len(self._times_s)):
            if self._times_s[place] >= end_s:
                return True
            if self._free[place] < size:
                return False
        return True

    def _split(self, at_s: float) -> None:
        """Let a step begin at a time."""
        place = bisect.bisect_left(self._times_s, at_s)
        is_step = place < len(self._times_s) and self._times_s[place] == at_s
        if not is_step and at_s < math.inf:
            self._times_s.insert(place, at_s)
            self._free.insert(place, self._free[place - 1])


def _union(nodes: Iterable[str], bits: Mapping[str, int]) -> int:
    union = 0
    for node in nodes:
        union |= bits[node]
    return union


def _waiting(jobs: list[PastJob], at_s: float) -> list[PastJob]:
    """Those of some started jobs that were waiting at a time."""
    return [
        job
        for job in jobs
        if job.eligible_s <= at_s and job.start_s is not None and at_s < job.start_s
    ]


def _end_s(job: PastJob) -> float:
    """When a job ended; never, while it runs."""
    return math.inf if job.end_s is None else job.end_s


def _rank(job: PastJob) -> tuple[float, float, str]:
    return job.rank


def _runs(places: list[int]) -> Iterator[list[int]]:
    """Runs of consecutive places."""
    run: list[int] = []
    for place in places:
        if run and place != run[-1] + 1:
            yield run
            run = []
        run.append(place)
    if run:
        yield run
