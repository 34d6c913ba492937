"""A simulation of workers: containers share a processor under soft limits, slow each other down,
and may be moved.

Every container gets its fair share up to its limit. Capacity that the limits leave unused goes to
the containers that can use it (Docker's soft limits [FlowCon 5.1.1]), so a worker with enough work
is always fully used. ``contention`` is the cost of a co-runner: containers together progress at 1 /
(1 + contention * (k - 1)) of the worker's speed, where k is (sum of shares)^2 / sum of shares^2:
the number of containers if their shares are equal, and near 1 if one container has nearly
everything. A move stops a container for ``migration_s`` (save and resume: under 5 s [SpeCon 3.3]),
which it spends on the new worker without a share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bftrainer_papers.containers.hosts import Container, ContainerHost, WorkerPolicy
from bftrainer_replay.simulation.losses import LossCurve

MIGRATION_S = 5.0
_DONE = 1e-9


@dataclass(frozen=True, slots=True)
class ContainerJob:
    """A job of ``work_s`` seconds on a whole worker. It uses at most ``demand`` of a worker's
    processor, and ``memory`` of its memory.
    """

    id: str
    at_s: float
    work_s: float
    losses: LossCurve
    demand: float = 1.0
    memory: float = 0.1


@dataclass(slots=True)
class RunningContainer:
    """A job on a worker."""

    job: ContainerJob
    worker: int
    limit: float = 1.0
    done_s: float = 0.0
    used_s: float = 0.0
    share: float = 0.0
    paused_until_s: float = -math.inf
    moves: int = 0
    finished_s: float | None = None


Placement = Callable[[ContainerJob, Sequence[ContainerHost]], int]


def least_used(job: ContainerJob, workers: Sequence[ContainerHost]) -> int:
    """Place a job as the default scheduler does: on the worker with the lowest resource use, the
    first of equals.
    """
    return min(range(len(workers)), key=lambda w: (workers[w].consumption, w))


def soft_shares(demands: Sequence[float], limits: Sequence[float]) -> list[float]:
    """Return each container's share of one processor, divided as Docker's soft limits do.

    First, the processor is divided evenly, no share above min(demand, limit); what is left is then
    divided in the same way among those that demand more than their limit. The shares sum to 1 or,
    if this is less, to the sum of demands.
    """
    shares = _max_min_shares(
        1.0, [min(demand, limit) for demand, limit in zip(demands, limits, strict=True)]
    )
    more = _max_min_shares(
        max(1.0 - sum(shares), 0.0),
        [demand - share for demand, share in zip(demands, shares, strict=True)],
    )
    return [share + m for share, m in zip(shares, more, strict=True)]


def _max_min_shares(capacity: float, caps: Sequence[float]) -> list[float]:
    """Divide ``capacity`` into max-min fair shares under caps."""
    shares = [0.0] * len(caps)
    for place, j in enumerate(sorted(range(len(caps)), key=lambda j: (caps[j], j))):
        shares[j] = min(max(caps[j], 0.0), capacity / (len(caps) - place))
        capacity -= shares[j]
    return shares


@dataclass(slots=True)
class WorkerWorld:
    """Plays ``jobs`` on ``workers`` under a policy; without one, containers share freely and stay
    where they were placed.
    """

    workers: int
    jobs: Sequence[ContainerJob]
    policy: WorkerPolicy | None = None
    contention: float = 0.0
    migration_s: float = MIGRATION_S
    placement: Placement = least_used
    now_s: float = 0.0
    running: list[RunningContainer] = field(default_factory=list)
    finished: list[RunningContainer] = field(default_factory=list)
    on_decision: Callable[[WorkerWorld], None] | None = None

    def play(self) -> list[RunningContainer]:
        """Run until all jobs complete; return their containers in order of completion.

        Time jumps to the next arrival, completion, end of a move or wake-up that the policy asked
        for, whichever is first.
        """
        waiting = sorted(self.jobs, key=lambda job: job.at_s)
        memory: object = None
        wake_s = math.inf
        while waiting or self.running:
            arrival_s = waiting[0].at_s if waiting else math.inf
            self._advance_to(min(arrival_s, wake_s, self._next_change()))
            self._finish_containers()
            while waiting and waiting[0].at_s <= self.now_s:
                job = waiting.pop(0)
                self.running.append(RunningContainer(job, self.placement(job, self.observed())))
                self._divide_processors()
            if self.policy is not None:
                decision, memory = self.policy.decide(self.now_s, self.observed(), memory)
                wake_s = (
                    math.inf if decision.wake_at_s is None else max(decision.wake_at_s, self.now_s)
                )
                assert wake_s > self.now_s, (
                    "a policy must not wake up at the time of the decision itself"
                )
                limits = dict(decision.limits)
                moves = dict(decision.moves)
                for run in self.running:
                    # A container that the decision does not name has no limit.
                    run.limit = limits.get(run.job.id, 1.0)
                    if moves.get(run.job.id, run.worker) != run.worker:
                        run.worker, run.moves = moves[run.job.id], run.moves + 1
                        run.paused_until_s = self.now_s + self.migration_s
            self._divide_processors()
            if self.on_decision is not None:
                self.on_decision(self)
        return self.finished

    def observed(self) -> tuple[ContainerHost, ...]:
        """Return what a policy may see of each worker: its containers, and how much of it is used.

        The use is the mean of processor and memory, each at most 1.
        """
        seen = []
        for w in range(self.workers):
            containers_here = [run for run in self.running if run.worker == w]
            containers = tuple(
                Container(r.job.id, _present_loss(r), r.used_s) for r in containers_here
            )
            processor = min(sum(r.job.demand for r in containers_here), 1.0)
            seen.append(
                ContainerHost(
                    containers,
                    (processor + min(sum(r.job.memory for r in containers_here), 1.0)) / 2,
                )
            )
        return tuple(seen)

    def _divide_processors(self) -> None:
        """Divide each worker's processor among its containers; one that is being moved gets
        nothing.
        """
        for w in range(self.workers):
            here = [run for run in self.running if run.worker == w]
            active = [run for run in here if run.paused_until_s <= self.now_s]
            shares = soft_shares(
                [admitted.job.demand for admitted in active],
                [admitted.limit for admitted in active],
            )
            for run in here:
                run.share = 0.0
            for run, share in zip(active, shares, strict=True):
                run.share = share

    def _work_per_s(self, run: RunningContainer) -> float:
        """Return the work per second of a container: its share, less what others on its worker cost
        it.

        ``together`` is the effective number of containers (see the module): their number if the
        shares are equal, near 1 if one has nearly everything.
        """
        if not self.contention:
            return run.share
        shares = [r.share for r in self.running if r.worker == run.worker and r.share > 0]
        together = sum(shares) ** 2 / sum(share * share for share in shares)
        return run.share / (1 + self.contention * (together - 1))

    def _next_change(self) -> float:
        """Return when the next container completes or ends its move; infinity if none does."""
        times = [math.inf]
        for run in self.running:
            if run.paused_until_s > self.now_s:
                times.append(run.paused_until_s)
            elif run.share > 0:
                times.append(
                    self.now_s + max(run.job.work_s - run.done_s, 0.0) / self._work_per_s(run)
                )
        return min(times)

    def _advance_to(self, to_s: float) -> None:
        passed_s = to_s - self.now_s
        for run, speed in [(run, self._work_per_s(run)) for run in self.running if run.share > 0]:
            run.done_s += speed * passed_s
            run.used_s += run.share * passed_s
        self.now_s = to_s

    def _finish_containers(self) -> None:
        for run in [r for r in self.running if r.done_s >= r.job.work_s * (1 - _DONE)]:
            run.finished_s = self.now_s
            self.running.remove(run)
            self.finished.append(run)


def _present_loss(run: RunningContainer) -> float | None:
    return run.job.losses.at(min(run.done_s / run.job.work_s, 1.0))
