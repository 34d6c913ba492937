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
from collections.abc import Iterator, Mapping
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
    """Return the delay of each main job that waited for held nodes, the longest first."""
    audit = _Audit(log)
    delays = [delay for job in log.jobs if not job.is_holder for delay in audit.delay(job)]
    return tuple(sorted(delays, key=lambda delay: (-delay.seconds, delay.job.rank)))


@dataclass(frozen=True, slots=True)
class _Course:
    """How many nodes of a partition are idle, and how many are held, from each moment on."""

    times_s: Floats
    idle: Counts
    held: Counts


class _Audit:
    """Finds the delays of main jobs in a log, with what is computed once for all jobs."""

    def __init__(self, log: JobLog) -> None:
        """Compute the nodes and the courses of all partitions, and three arrays of times, one entry
        per main job that has started.
        """
        self._log = log
        self._members = _nodes_of_partitions(log)
        self._courses = _node_counts_by_partition(log, self._members)
        self._started = [job for job in log.jobs if not job.is_holder and job.start_s is not None]
        self._eligible_s = np.array([job.eligible_s for job in self._started], dtype=np.float64)
        self._start_s = np.array([job.start_s for job in self._started], dtype=np.float64)
        self._end_s = np.array(list(map(_end_s, self._started)), dtype=np.float64)

    def delay(self, job: PastJob) -> Iterator[MainDelay]:
        """Yield the longest stretch in which a main job waited for held nodes; nothing if there is
        none.
        """
        begin_s = max(job.eligible_s, self._log.begin_s)
        end_s = self._log.end_s if job.start_s is None else job.start_s
        if not (begin_s < end_s) or job.size < 1:  # it did not wait within the log
            return
        stretches = [
            stretch
            for partition in job.partition.split(",")
            for stretch in self._waits_for_held_nodes(job, partition, begin_s, end_s)
        ]
        if stretches:
            yield max(stretches, key=lambda stretch: stretch.seconds)

    def _waits_for_held_nodes(
        self, job: PastJob, partition: str, begin_s: float, end_s: float
    ) -> Iterator[MainDelay]:
        """Yield the stretches of time in which a job waited for held nodes of one partition."""
        course = self._courses.get(partition)
        if course is None:
            return
        times_s = course.times_s
        # The moment that lasts at begin_s, up to the last one before end_s.
        first = max(int(np.searchsorted(times_s, begin_s, side="right")) - 1, 0)
        stop = int(np.searchsorted(times_s, end_s, side="left"))
        idle, held = course.idle[first:stop], course.held[first:stop]
        needs_held_nodes = (idle < job.size) & (idle + held >= job.size)
        candidates = [int(offset) + first for offset in np.flatnonzero(needs_held_nodes)]
        if not candidates:
            return
        ahead = self._earlier_in_queue(job, partition, begin_s, end_s)
        moments = [
            moment for moment in candidates if self._could_run(job, ahead, partition, moment)
        ]
        for run in _consecutive_runs(moments):
            begin_moment = run[0]
            end_moment = run[-1] + 1
            stretch_begin_s = max(float(times_s[begin_moment]), begin_s)
            stretch_end_s = end_s
            if end_moment < len(times_s):
                stretch_end_s = min(float(times_s[end_moment]), end_s)
            if stretch_end_s > stretch_begin_s:
                yield MainDelay(
                    job=job,
                    begin_s=stretch_begin_s,
                    end_s=stretch_end_s,
                    missing=job.size - int(course.idle[begin_moment]),
                    held=int(course.held[begin_moment]),
                )

    def _could_run(self, job: PastJob, ahead: list[PastJob], partition: str, moment: int) -> bool:
        """Whether backfill would have started the job if held nodes had been idle, at one moment:
        the index ``moment`` in the partition's course. ``ahead``: the jobs before it in the queue.
        """
        course = self._courses[partition]
        at_s = max(float(course.times_s[moment]), job.eligible_s)
        waiting = _waiting_jobs(ahead, at_s)
        if not waiting:
            return True
        free = int(course.idle[moment] + course.held[moment])
        plan = _Plan(at_s, free, self._expected_releases(partition, at_s))
        for other in waiting[:_PLANNED_JOBS]:
            plan.add(other.size, other.limit_s)
            if not plan.fits_now(job.size, job.limit_s):  # further jobs cannot make it fit
                return False
        return plan.fits_now(job.size, job.limit_s)

    def _expected_releases(self, partition: str, at_s: float) -> list[tuple[float, int]]:
        """Return (time, nodes) of each main job that runs at ``at_s``: when it reaches its time
        limit, and how many nodes of the partition it has.
        """
        is_running = (self._start_s <= at_s) & (self._end_s > at_s)
        releases = []
        for index in map(int, np.flatnonzero(is_running)):
            job = self._started[index]
            node_count = len(job.nodes)
            if job.partition != partition:
                node_count = len(job.nodes & self._members[partition])
            if node_count:
                limit_end_s = float(self._start_s[index]) + job.limit_s
                # A job past its limit counts as ending now.
                releases.append((max(limit_end_s, at_s), node_count))
        return releases

    def _earlier_in_queue(
        self, job: PastJob, partition: str, begin_s: float, end_s: float
    ) -> list[PastJob]:
        """Return the main jobs that waited for nodes of a partition at the same time as this job
        and were before it in the queue, in the order of the queue. Jobs that waited for something
        else as well are left out: they took no nodes from it.
        """
        members = self._members[partition]
        has_waited = (self._eligible_s < end_s) & (self._start_s > begin_s)
        others = [self._started[index] for index in map(int, np.flatnonzero(has_waited))]
        before = [other for other in others if other.rank < job.rank and not other.other_reason]
        ahead = [
            other
            for other in before
            if other.nodes and (other.partition == partition or other.nodes & members)
        ]
        return sorted(ahead, key=_queue_order)


def _nodes_of_partitions(log: JobLog) -> dict[str, frozenset[str]]:
    """Return the nodes of each partition: those that the scheduler lists, and those on which its
    jobs ran. A node on which only holders ran may be of any partition that shares nodes with the
    holders', so it counts in all of these.
    """
    nodes: dict[str, set[str]] = defaultdict(set)
    for name, listed_nodes in log.partitions.items():
        nodes[name] |= listed_nodes
    held: dict[str, set[str]] = defaultdict(set)
    for job in log.jobs:
        if job.start_s is not None:
            (held if job.is_holder else nodes)[job.partition] |= job.nodes
    known_nodes = frozenset[str]().union(*nodes.values())
    for holder_partition, holder_nodes in held.items():
        unknown_nodes = holder_nodes - known_nodes
        for members in list(nodes.values()):
            if members & holder_nodes:
                members |= unknown_nodes
        nodes[holder_partition] |= holder_nodes
    return {name: frozenset(members) for name, members in nodes.items()}


def _node_counts_by_partition(
    log: JobLog, members: Mapping[str, frozenset[str]]
) -> dict[str, _Course]:
    """Return the course of each partition: how many of its nodes are idle and held from each moment
    on. The moments are the same for all partitions.
    """
    changes = _node_changes_by_time(log)
    times_s = sorted(changes)
    partitions_of: dict[str, list[str]] = defaultdict(list)
    for name, nodes in members.items():
        for node in nodes:
            partitions_of[node].append(name)
    idle = {name: np.zeros(len(times_s), dtype=np.int64) for name in members}
    held = {name: np.zeros(len(times_s), dtype=np.int64) for name in members}
    counts = {name: [len(nodes), 0] for name, nodes in members.items()}  # idle and held nodes
    # By node, the numbers of main jobs and holders on it: index False and True.
    job_counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for moment, at_s in enumerate(times_s):
        for nodes, step, is_holder in changes[at_s]:
            for node in nodes:
                old_state = _node_state(job_counts[node])
                job_counts[node][is_holder] += step
                new_state = _node_state(job_counts[node])
                if old_state != new_state:
                    for name in partitions_of[node]:
                        _recount_node(counts[name], old_state, new_state)
        for name, (idle_count, held_count) in counts.items():
            idle[name][moment] = idle_count
            held[name][moment] = held_count
    all_times_s = np.array(times_s, dtype=np.float64)
    return {name: _Course(all_times_s, idle[name], held[name]) for name in members}


_IDLE, _HELD, _BUSY = range(3)  # the first two are indices into the counts of a partition


def _node_state(job_counts: list[int]) -> int:
    """Return the state of a node, from [number of main jobs on it, number of holders]."""
    main_jobs, holders = job_counts
    if main_jobs > 0:
        return _BUSY
    return _HELD if holders > 0 else _IDLE


def _recount_node(counts: list[int], old_state: int, new_state: int) -> None:
    """Count a node in its new state and no longer in the old one; busy nodes are not counted."""
    if old_state != _BUSY:
        counts[old_state] -= 1
    if new_state != _BUSY:
        counts[new_state] += 1


def _node_changes_by_time(log: JobLog) -> dict[float, list[tuple[frozenset[str], int, bool]]]:
    """Return by time which nodes a job takes (1) or leaves (-1), and whether it is a holder. An
    outage takes its node as a main job does.
    """
    changes: dict[float, list[tuple[frozenset[str], int, bool]]] = defaultdict(list)
    changes[log.begin_s] = []
    for job in log.jobs:
        if job.start_s is not None and job.nodes:
            changes[job.start_s].append((job.nodes, 1, job.is_holder))
            if job.end_s is not None:
                changes[max(job.end_s, job.start_s)].append((job.nodes, -1, job.is_holder))
    for outage in log.outages:
        node = frozenset({outage.node})
        changes[outage.start_s].append((node, 1, False))
        if outage.end_s is not None:
            changes[max(outage.end_s, outage.start_s)].append((node, -1, False))
    return changes


class _Plan:
    """Free nodes over time, as backfill plans them: each job starts as early as it fits, and delays
    none that was planned before.
    """

    def __init__(self, at_s: float, free: int, releases: list[tuple[float, int]]) -> None:
        """Plan from ``at_s`` on, with ``free`` nodes then, and ``releases`` of (time, nodes).

        From each time on, as many nodes are free as the entry of the same index says.
        """
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
        return self._is_free_for(0, size, limit_s)

    def add(self, size: int, limit_s: float) -> None:
        """Plan a job at the earliest time at which it fits; one that never fits is not planned."""
        for start in range(len(self._times_s)):
            if self._is_free_for(start, size, limit_s):
                end_s = self._times_s[start] + limit_s
                self._begin_step_at(end_s)
                for step in range(start, len(self._times_s)):
                    if self._times_s[step] < end_s:
                        self._free[step] -= size
                return

    def _is_free_for(self, start: int, size: int, limit_s: float) -> bool:
        """Whether ``size`` nodes are free for ``limit_s`` seconds from the step ``start`` on."""
        end_s = self._times_s[start] + limit_s
        for step in range(start, len(self._times_s)):
            if self._times_s[step] >= end_s:
                return True
            if self._free[step] < size:
                return False
        return True

    def _begin_step_at(self, at_s: float) -> None:
        """Let a step begin at a time, so that the number of free nodes can change there."""
        step = bisect.bisect_left(self._times_s, at_s)
        is_step = step < len(self._times_s) and self._times_s[step] == at_s
        if not is_step and at_s < math.inf:
            self._times_s.insert(step, at_s)
            self._free.insert(step, self._free[step - 1])


def _waiting_jobs(jobs: list[PastJob], at_s: float) -> list[PastJob]:
    """Return the jobs that were waiting at a time. Jobs that never started are left out."""
    return [
        job
        for job in jobs
        if job.eligible_s <= at_s and job.start_s is not None and at_s < job.start_s
    ]


def _end_s(job: PastJob) -> float:
    """Return when a job ended; infinite while it runs."""
    return math.inf if job.end_s is None else job.end_s


def _queue_order(job: PastJob) -> tuple[float, float, str]:
    return job.rank


def _consecutive_runs(numbers: list[int]) -> Iterator[list[int]]:
    """Yield the runs of consecutive numbers in a sorted list: 1, 2, 5 -> [1, 2], [5]."""
    run: list[int] = []
    for number in numbers:
        if run and number != run[-1] + 1:
            yield run
            run = []
        run.append(number)
    if run:
        yield run
