"""Accounts of a cluster's week, as conservative backfill makes them with a pilot that holds every idle
node: honest, or with holders that stay for a while when a main job wants their nodes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from bftrainer.cluster.past_jobs import JobLog, PastJob

WEEK_S = 7 * 86_400.0


@dataclass(frozen=True)
class Asked:
    """A job as it is submitted; ``limit_s`` is at least ``run_s``."""

    id: str
    at_s: float
    size: int
    run_s: float
    limit_s: float


@dataclass
class _Run:
    """A job that runs, or did."""

    job: Asked
    start_s: float
    end_s: float
    nodes: list[str]

    @property
    def planned_end_s(self) -> float:
        return self.start_s + self.job.limit_s

    @property
    def record(self) -> PastJob:
        job = self.job
        return PastJob(
            job.id,
            "main",
            job.size,
            job.at_s,
            self.start_s,
            self.end_s,
            frozenset(self.nodes),
            "ann",
            job.limit_s,
        )


def week(
    seed: int,
    nodes: int = 24,
    jobs: int = 400,
    late_s: Mapping[int, float] | None = None,
) -> tuple[JobLog, dict[str, float]]:
    """The account, and the delays that were planted, by job.

    ``late_s``: for so many seconds, all holders stay when the job of this place in the order of
    starts could start; no other job starts or ends meanwhile.
    """
    late_s = late_s or {}
    asked = _asked(random.Random(seed), nodes, jobs)
    names = [f"n{place:03}" for place in range(nodes)]
    idle_since = dict.fromkeys(names, 0.0)
    running: list[_Run] = []
    runs: list[_Run] = []
    waiting: list[Asked] = []
    holders: list[PastJob] = []
    planted: dict[str, float] = {}
    now_s = 0.0
    while asked or running:
        events_s = [run.end_s for run in running[:1]] + [job.at_s for job in asked[:1]]
        now_s = max(now_s, min(events_s))
        while running and running[0].end_s <= now_s:
            idle_since |= dict.fromkeys(running.pop(0).nodes, now_s)
        while asked and asked[0].at_s <= now_s:
            waiting.append(asked.pop(0))
        while (job := _next(waiting, running, nodes, now_s)) is not None:
            if stay_s := late_s.get(len(runs), 0.0):
                planted[job.id] = stay_s
                now_s += stay_s
                for run in running:
                    run.end_s = max(run.end_s, now_s)
            waiting.remove(job)
            own = sorted(idle_since)[: job.size]
            holders += [_holder(name, idle_since.pop(name), now_s) for name in own]
            runs.append(_Run(job, now_s, now_s + job.run_s, own))
            running = sorted([*running, runs[-1]], key=lambda run: run.end_s)
    holders += [_holder(name, since_s, now_s) for name, since_s in idle_since.items()]
    assert not waiting
    records = [run.record for run in runs]
    kept = [holder for holder in holders if holder.start_s != holder.end_s]
    return JobLog((*records, *kept), 0.0, now_s, {"main": frozenset(names)}), planted


def _holder(node: str, start_s: float, end_s: float) -> PastJob:
    """A holder of a pilot, which takes a node as soon as it is idle."""
    return PastJob(
        f"h-{node}-{start_s:g}",
        "scavenger",
        1,
        start_s,
        start_s,
        end_s,
        frozenset({node}),
        "pilot",
        is_holder=True,
    )


def _next(waiting: list[Asked], running: list[_Run], nodes: int, now_s: float) -> Asked | None:
    """The job that conservative backfill starts now: in the order of the queue, each gets the
    earliest time at which it fits beside all that run or are planned.
    """
    plans = [(now_s, max(run.planned_end_s, now_s + 1.0), run.job.size) for run in running]
    for job in waiting:
        ends_s = sorted(end_s for _, end_s, _ in plans)
        start_s = next(at_s for at_s in [now_s, *ends_s] if _fits(job, at_s, plans, nodes))
        if start_s == now_s and job.size + sum(run.job.size for run in running) <= nodes:
            return job
        plans.append((start_s, start_s + job.limit_s, job.size))
    return None


def _fits(job: Asked, at_s: float, plans: list[tuple[float, float, int]], nodes: int) -> bool:
    """Whether a job fits beside others from a time on, at each moment until its time limit."""
    end_s = at_s + job.limit_s
    moments_s = [at_s, *(start_s for start_s, _, _ in plans if at_s < start_s < end_s)]
    return all(
        job.size + sum(size for start, end, size in plans if start <= moment_s < end) <= nodes
        for moment_s in moments_s
    )


def _asked(chance: random.Random, nodes: int, jobs: int) -> list[Asked]:
    times = sorted(float(chance.randrange(int(WEEK_S))) for _ in range(jobs))
    asked = []
    for place, at_s in enumerate(times):
        size = min(chance.choice((1, 1, 1, 2, 2, 3, 4, 6, 8, 12, 16)), nodes)
        run_s = float(chance.randrange(30, 12_000))
        factor = chance.choice((1.0, 1.0, 1.5, 3.0, 10.0))
        asked.append(Asked(f"{place}", at_s, size, run_s, float(round(run_s * factor))))
    return asked


def without_partitions(log: JobLog) -> JobLog:
    """The same, as sacct alone shows it."""
    return replace(log, partitions={})
