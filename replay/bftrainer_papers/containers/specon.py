"""SpeCon [SpeCon 4.2, 5.2, Algorithms 3 to 5]: containers that have converged move away from
containers that still progress.

Algorithms, lines and sections are those of the thesis. Corrected misprints: lines 11-12 of
Algorithm 3 are read as WC.remove, CC.insert; its three cases exclude each other (as the text says;
as printed, a container would pass through all three at once); line 27 of Algorithm 5 is read as
|w_j|. Our choices: E is normalized to [0, 1]; before the second interval there is no previous G,
and a small G counts as slower; the converged duration counts from the entry into CC; Algorithm 5
starts when all containers are in CC, moves each container once, and moves no container that is
alone on its worker.

Several trainers share a worker here, so this policy runs in the simulation of workers and not on a
pool of whole nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.errors import UserError
from bftrainer_papers.containers.hosts import ContainerHost, WorkerDecision


class ConvergenceCategory(Enum):
    """The value is the weight in [SpeCon Algorithm 4, 6.2.1]."""

    PROGRESSING = 2.0
    WATCHING = 1.5
    CONVERGED = 1.0


@dataclass(frozen=True, slots=True)
class TrackedContainer:
    """The container monitor's state of one container."""

    id: str
    category: ConvergenceCategory = ConvergenceCategory.PROGRESSING
    loss: float | None = None
    growth: float = math.inf
    converged_s: float = math.inf
    migrated: bool = False
    rebalanced: bool = False


@dataclass(frozen=True, slots=True)
class MonitorState:
    """The policy's memory: the containers in order of arrival, and the time of the next
    categorization.
    """

    tracked: tuple[TrackedContainer, ...] = ()
    next_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SpeCon:
    """The policy SpeCon; ``alpha`` and ``interval_s`` (t_m - t_m-1) are as in [SpeCon 6.2.3]."""

    alpha: float = 0.01
    interval_s: float = 30.0
    name: str = "specon"

    def decide(
        self, at_s: float, workers: Sequence[ContainerHost], memory: object
    ) -> tuple[WorkerDecision, object]:
        """Return the moves of containers between workers, and the monitor's new state.

        Once per interval, every container is put into a category by how much its loss still
        changes, and containers that have converged may move away from those that progress. At any
        time, new containers are added and, once all have converged, the cluster is rebalanced.
        """
        monitor = (
            memory
            if isinstance(memory, MonitorState)
            else MonitorState(next_s=at_s + self.interval_s)
        )
        place_and_container = {
            container.id: (w, container)
            for w, worker in enumerate(workers)
            for container in worker.containers
        }
        tracked_ids = {t.id for t in monitor.tracked}
        new = tuple(
            TrackedContainer(name, loss=c.loss)
            for name, (_, c) in place_and_container.items()
            if name not in tracked_ids
        )
        tracked = {t.id: t for t in (*monitor.tracked, *new) if t.id in place_and_container}
        worker_of = {name: w for name, (w, _) in place_and_container.items()}
        worker_before = dict(worker_of)
        next_s = monitor.next_s
        if at_s >= next_s:
            next_s = at_s + self.interval_s
            for name in tuple(tracked):
                tracked[name], asks = self.monitored(
                    tracked[name], place_and_container[name][1].loss, at_s
                )
                if (
                    asks and _growing_on(worker_of[name], worker_of, tracked) > 1
                ):  # [SpeCon Algorithm 3, line 15]
                    worker_of[name] = target(worker_of[name], worker_of, tracked, workers)
                    tracked[name] = replace(tracked[name], migrated=True)
        if tracked and all(t.category is ConvergenceCategory.CONVERGED for t in tracked.values()):
            for name, w in rebalance(worker_of, tracked, len(workers)):
                worker_of[name] = w
                tracked[name] = replace(tracked[name], rebalanced=True)
        moves = tuple((name, w) for name, w in worker_of.items() if w != worker_before[name])
        return WorkerDecision(moves=moves, wake_at_s=next_s if tracked else None), MonitorState(
            tuple(tracked.values()), next_s
        )

    def monitored(
        self, t: TrackedContainer, loss: float | None, at_s: float
    ) -> tuple[TrackedContainer, bool]:
        """Run [SpeCon Algorithm 3] for one container; return its new state, and whether it asks to
        move.

        Its category steps from PROGRESSING over WATCHING to CONVERGED while its loss changes ever
        less, and a further step is the request to move (line 16). A change above ``alpha`` leads
        back to PROGRESSING.
        """
        if t.migrated or loss is None:
            return t, False
        # The first loss has none before it to compare with.
        if t.loss is None:
            return replace(t, loss=loss), False
        growth = abs(loss - t.loss)
        now = replace(t, loss=loss, growth=growth)
        if growth > self.alpha:  # lines 19-22
            return replace(
                now, category=ConvergenceCategory.PROGRESSING, converged_s=math.inf
            ), False
        if not (growth < t.growth and growth < self.alpha):  # lines 17-18
            return now, False
        if t.category is ConvergenceCategory.PROGRESSING:  # lines 7-9
            return replace(now, category=ConvergenceCategory.WATCHING), False
        if t.category is ConvergenceCategory.WATCHING:  # lines 10-12
            return replace(now, category=ConvergenceCategory.CONVERGED, converged_s=at_s), False
        return now, True  # lines 13-16


def scores(
    at: Mapping[str, int], tracked: Mapping[str, TrackedContainer], workers: int
) -> list[float]:
    """Return 2 |PC| + 1.5 |WC| + 1 |CC| of every worker: [SpeCon Algorithm 4, lines 2-3]."""
    totals = [0.0] * workers
    for name, w in at.items():
        totals[w] += tracked[name].category.value
    return totals


def target(
    home: int,
    at: Mapping[str, int],
    tracked: Mapping[str, TrackedContainer],
    workers: Sequence[ContainerHost],
) -> int:
    """Return the worker to which a container moves, by [SpeCon Algorithm 4].

    It is the one with the lowest score, the weighted number of its containers. Of several such, it
    is ``home``, where the container is, or else the one with the lowest consumption.
    """
    score = scores(at, tracked, len(workers))
    lowest_scored = [w for w, value in enumerate(score) if value == min(score)]
    if home in lowest_scored:
        return home
    return min(lowest_scored, key=lambda w: (workers[w].consumption, w))


def rebalance(
    at: Mapping[str, int], tracked: Mapping[str, TrackedContainer], workers: int
) -> list[tuple[str, int]]:
    """Return the moves (container, new worker) that even out the workers: [SpeCon Algorithm 5].

    With bf the mean number of containers per worker, rounded down: idle workers get up to bf
    containers. If no worker is idle, those with less than bf - 1 get up to bf - 1.
    """
    container_count = [0] * workers
    for w in at.values():
        container_count[w] += 1
    factor = len(at) // workers  # bf, line 9
    idle = [w for w in range(workers) if container_count[w] == 0]
    wanted_count = factor if idle else factor - 1  # lines 12 and 21
    workers_with_room = idle or [w for w in range(workers) if container_count[w] < wanted_count]
    # Line 5 orders by d = t - t_c, the time since a container converged, the shortest first. Ties
    # go by name.
    free = sorted(
        (name for name in at if not tracked[name].rebalanced),
        key=lambda n: (-tracked[n].converged_s, n),
    )
    moves: list[tuple[str, int]] = []
    for w in workers_with_room:
        while container_count[w] < wanted_count:
            # The next free container that is on a worker with enough, and not alone there.
            name = next(
                (n for n in free if at[n] not in workers_with_room and container_count[at[n]] > 1),
                None,
            )
            if name is None:
                return moves
            free.remove(name)
            container_count[at[name]] -= 1
            container_count[w] += 1
            moves.append((name, w))
    return moves


def _growing_on(worker: int, at: Mapping[str, int], tracked: Mapping[str, TrackedContainer]) -> int:
    """Return |PC| + |WC| of a worker: its containers that have not converged."""
    return sum(
        1
        for name, w in at.items()
        if w == worker and tracked[name].category is not ConvergenceCategory.CONVERGED
    )


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``; always raises :class:`UserError`, as the policy cannot
    run on a pool.
    """
    raise UserError(
        "policy specon moves trainers between workers that several trainers share, but a pool "
        "allocates whole nodes; "
        "to run it, use: bftrainer replay reproduce specon"
    )
