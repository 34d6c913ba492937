"""A simulated cluster: main jobs, a scheduler with backfill, and a pilot that holds idle nodes.

The scheduler plans after everything that changes; the pilot looks at fixed intervals. Holders have
the lowest priority: no plan of a main job counts with one that can be preempted.
"""

from __future__ import annotations

import enum
import heapq
import math
import random
from bisect import insort
from dataclasses import dataclass, field

import numpy as np

from bftrainer.decide.yielding.low_water import LowWater
from bftrainer.decide.yielding.node_sets import NumberedNodes
from bftrainer_replay.main_queue.backfill import Backfill, free_for
from bftrainer_replay.main_queue.holders import NONE, HeldNodes
from bftrainer_replay.main_queue.jobs import MainJobs
from bftrainer_replay.main_queue.looks import (
    Looks,
    NeverYields,
    QueueView,
    Yields,
    YieldsBlindly,
)
from bftrainer_replay.main_queue.ways import FreeingWay, PilotRules

_NEVER_S = -math.inf
_ROUNDING_S = 1e-6


class _What(enum.IntEnum):
    """What happens, in the order in which it happens at one instant."""

    JOB_ENDS = 0
    HOLDERS_EXPIRE = 1
    NODES_ARRIVE = 2  # those of released holders
    JOB_COMES = 3
    HOLDERS_AGE = 4
    PILOT_LOOKS = 5


@dataclass(slots=True)
class NodeSeconds:
    """Node-seconds until the last submission, and what the pilot did. ``available_node_s``: not in
    use by main jobs. ``held_node_s``: of these, held.
    """

    available_node_s: float = 0.0
    held_node_s: float = 0.0
    holder_starts: int = 0
    releases: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """What became of each main job: when it started, and for how long held nodes had kept it from
    starting (seconds).
    """

    start_s: tuple[float, ...]
    delay_s: tuple[float, ...]
    tally: NodeSeconds


def simulate(
    jobs: MainJobs,
    backfill: Backfill,
    rules: PilotRules | None = None,
    noise_s: float = 0.0,
    seed: int = 1,
) -> Schedule:
    """Run all jobs. Without ``rules`` there is no pilot. With ``noise_s``, each start comes a
    random time of 0 to so many seconds late.
    """
    return Cluster(jobs, backfill, rules, noise_s, random.Random(seed)).run()


@dataclass(slots=True)
class Cluster:
    """The state of the simulation. ``idle`` + ``leaving`` + held nodes + nodes of running jobs are
    all nodes, always. A job gets the idle nodes of the lowest numbers. ``running`` are the planned
    ends of main jobs, ``nodes_of`` their nodes.
    """

    jobs: MainJobs
    backfill: Backfill
    rules: PilotRules | None
    noise_s: float
    chance: random.Random
    now_s: float = 0.0
    idle: NumberedNodes = field(init=False)
    leaving: NumberedNodes = NONE
    holders: HeldNodes = field(default_factory=HeldNodes)
    running: list[tuple[float, int]] = field(default_factory=list)
    nodes_of: dict[int, NumberedNodes] = field(default_factory=dict)
    pending: list[int] = field(default_factory=list)
    start_s: list[float] = field(init=False)
    blocked_s: list[float] = field(init=False)
    tally: NodeSeconds = field(default_factory=NodeSeconds)
    submitted: int = 0
    starts: list[int] = field(default_factory=list)
    ended: int = 0
    _events: list[tuple[float, int, int]] = field(init=False)
    _arriving: dict[int, NumberedNodes] = field(default_factory=dict)
    _look_s: float = math.inf
    _looks: Looks = field(init=False)
    _mark: LowWater = field(default_factory=LowWater)
    _horizon_s: float = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.jobs)
        self.idle = NumberedNodes.first_of_all(self.jobs.machine_nodes)
        self.start_s = [math.nan] * count
        self.blocked_s = [math.nan] * count
        self._horizon_s = self.jobs.submit_s[-1] if count else 0.0
        self._events = [
            (submit_s, _What.JOB_COMES, job) for job, submit_s in enumerate(self.jobs.submit_s)
        ]
        self._looks = _looks_of(self.jobs, self.rules)

    def run(self) -> Schedule:
        """Let everything happen until the last main job has ended."""
        while self._events and not self._is_over():
            self._pass_time(self._events[0][0])
            if self._happen_all():
                self._schedule_at_once()
            if self._look_s == self.now_s:
                self._look_s = math.inf
                self._look()
        self.tally.holder_starts = self.holders.starts
        start_s, blocked_s = np.array(self.start_s), np.array(self.blocked_s)
        delay_s = np.where(np.isnan(blocked_s), 0.0, start_s - blocked_s)
        return Schedule(tuple(self.start_s), tuple(delay_s.tolist()), self.tally)

    def _is_over(self) -> bool:
        """Whether all main jobs have ended; a pilot would go on for ever."""
        return self.ended == len(self.jobs)

    def _pass_time(self, at_s: float) -> None:
        """Go on to the next instant."""
        passed_s = min(at_s, self._horizon_s) - min(self.now_s, self._horizon_s)
        if passed_s > 0:
            held = self.holders.count
            self.tally.held_node_s += held * passed_s
            self.tally.available_node_s += (len(self.idle) + held + len(self.leaving)) * passed_s
        self.now_s = at_s

    def _happen_all(self) -> bool:
        """Change the state by all events of this instant; return whether there were any besides
        looks of the pilot.
        """
        has_changed = False
        while self._events and self._events[0][0] == self.now_s:
            _, what, number = heapq.heappop(self._events)
            if what != _What.PILOT_LOOKS:
                self._happen(what, number)
                has_changed = True
        return has_changed

    def _happen(self, what: int, number: int) -> None:
        """Change the state by one event."""
        match what:
            case _What.JOB_ENDS:
                self.idle |= self.nodes_of.pop(number)
                self.running.remove(self._planned(number))
                self.ended += 1
            case _What.HOLDERS_EXPIRE:
                self.idle |= self.holders.expire(self.now_s)
            case _What.NODES_ARRIVE:
                nodes = self._arriving.pop(number)
                self.idle |= nodes
                self.leaving -= nodes
            case _What.JOB_COMES:
                self.pending.append(number)
                self.submitted += 1
            case _:
                pass  # Holders have come of age: the scheduler plans again.

    def _planned(self, job: int) -> tuple[float, int]:
        """Return until when the scheduler plans with a running job, and its nodes."""
        return self.start_s[job] + self.jobs.limit_s[job], self.jobs.nodes[job]

    def _schedule_at_once(self) -> None:
        """Start what the scheduler starts now, note which jobs held nodes keep from starting, and
        let the pilot look at its next turn.
        """
        if self.pending:
            self._start_jobs()
            self._note_blocked()
        if self.rules is not None:
            self._note_available()
            self._look_after(self.now_s)

    def _start_jobs(self) -> None:
        """Start the jobs that the scheduler starts now, on idle nodes first."""
        endable = self._endable()
        starts = self.backfill.starts(
            self.now_s, len(self.idle) + endable, self._ends, self.pending, self.jobs
        )
        for job in starts:
            self._start(job)
        if starts:
            begun = set(starts)
            self.pending = [job for job in self.pending if job not in begun]

    def _start(self, job: int) -> None:
        """Start a job; the scheduler preempts holders for what is missing."""
        size = self.jobs.nodes[job]
        nodes = self.idle.first(size)
        if size > len(nodes):
            preempted = self.holders.youngest(size - len(nodes), self._grown_up_s())
            self.holders.end(preempted)
            nodes |= preempted
        self.idle -= nodes
        self.nodes_of[job] = nodes
        late_s = self.chance.uniform(0.0, self.noise_s) if self.noise_s else 0.0
        self.start_s[job] = self.now_s + late_s
        self.starts.append(job)
        insort(self.running, self._planned(job))
        end_s = self.start_s[job] + self.jobs.run_s[job]
        heapq.heappush(self._events, (end_s, _What.JOB_ENDS, job))

    def _note_blocked(self) -> None:
        """Note the jobs that the scheduler would start now if no node were held."""
        in_the_way = self.holders.count + len(self.leaving)
        if not self.pending or not in_the_way or self._endable() == in_the_way:
            return
        available = len(self.idle) + in_the_way
        for job in self.backfill.starts(
            self.now_s, available, self._running_ends, self.pending, self.jobs
        ):
            if math.isnan(self.blocked_s[job]):
                self.blocked_s[job] = self.now_s

    def _grown_up_s(self) -> float:
        """Return the latest start of holders that the scheduler may preempt now."""
        if self.rules is None:
            return _NEVER_S
        match self.rules.way:
            case FreeingWay.SITE:
                return self.now_s
            case FreeingWay.LIFE:
                return self.now_s - self.rules.life_s + _ROUNDING_S
            case _:
                return _NEVER_S

    def _endable(self) -> int:
        """Return how many held nodes the scheduler may take now."""
        grown_up_s = self._grown_up_s()
        return self.holders.older_than(grown_up_s) if grown_up_s > _NEVER_S else 0

    def _running_ends(self) -> list[tuple[float, int]]:
        """Return the planned ends of main jobs."""
        return self.running

    def _ends(self) -> list[tuple[float, int]]:
        """Return the planned ends of main jobs and of holders that cannot be preempted now."""
        ends = [*self.running, *self.holders.ends(self._grown_up_s())]
        if self.leaving:
            ends.append((self.now_s, len(self.leaving)))
        ends.sort()
        return ends

    # The pilot.

    def _look_after(self, at_s: float) -> None:
        """Let the pilot look at its first turn after ``at_s``."""
        assert self.rules is not None
        interval_s = self.rules.look_s
        look_s = (math.floor(at_s / interval_s + 1e-9) + 1) * interval_s
        if look_s < self._look_s:
            self._look_s = look_s
            heapq.heappush(self._events, (look_s, _What.PILOT_LOOKS, 0))

    def _note_available(self) -> None:
        """Note how many nodes main jobs leave, for the low-water mark."""
        assert self.rules is not None
        window_s = self.rules.settled_s
        if not window_s:
            return
        available = len(self.idle) + len(self.leaving) + self.holders.count
        latest = self._mark.looks[-1][1] if self._mark.looks else None
        if latest == available:
            return
        if latest is not None:
            self._mark = self._mark.after_look(latest, self.now_s, window_s)
        self._mark = self._mark.after_look(available, self.now_s, window_s)

    def _look(self) -> None:
        """Release what main jobs wait for, shorten holders while jobs wait, and hold idle nodes."""
        assert self.rules is not None
        view = QueueView(
            self.now_s,
            self.pending,
            self.idle,
            self.leaving,
            self.holders,
            self.submitted,
            self.starts,
            self.ended,
        )
        decision = self._looks.decide(view)
        if decision.released:
            self._release(decision.released)
        if self.pending and self.holders.shorten(self.now_s + self.rules.busy_limit_s):
            self._expire_at(self.now_s + self.rules.busy_limit_s)
        if decision.looks_again:
            self._look_after(self.now_s)
        if decision.next_s < math.inf:
            self._look_after(max(decision.next_s, self.now_s))
        if not decision.blocks:
            self._hold(self.idle - decision.reserved)

    def _release(self, nodes: NumberedNodes) -> None:
        """End the holders on these nodes, which are idle a little later."""
        assert self.rules is not None
        self.holders.end(nodes)
        self.leaving |= nodes
        self.tally.releases += 1
        number = self.tally.releases
        self._arriving[number] = nodes
        arrive_s = self.now_s + self.rules.release_s
        heapq.heappush(self._events, (arrive_s, _What.NODES_ARRIVE, number))

    def _hold(self, nodes: NumberedNodes) -> None:
        """Hold idle nodes for as long as no plan needs them."""
        assert self.rules is not None
        rules = self.rules
        room = min(len(nodes), self._settled_room())
        if room <= 0:
            return
        limit_s = (
            min(rules.worst_wait_s, rules.busy_limit_s) if self.pending else rules.worst_wait_s
        )
        if rules.way in (FreeingWay.SITE, FreeingWay.LIFE) or not self.pending:
            self._start_holders(nodes.first(room), limit_s)
            return
        levels = self.backfill.levels(
            self.now_s, len(self.idle), self._ends, self.pending, self.jobs
        )
        for count, window_s in free_for(self.now_s, levels, room):
            chosen = nodes.first(count)
            nodes -= chosen
            if min(limit_s, window_s) >= rules.least_s:
                self._start_holders(chosen, min(limit_s, window_s))

    def _settled_room(self) -> int:
        """Return how many more nodes may be held below the low-water mark; look again when it
        rises.
        """
        assert self.rules is not None
        if not self.rules.settled_s:
            return len(self.idle)
        oldest = [look for look in self._mark.looks if look[0] >= self.now_s - self.rules.settled_s]
        looks = oldest or list(self._mark.looks[-1:])
        if len(looks) > 1:
            self._look_after(looks[0][0] + self.rules.settled_s)
        return looks[0][1] - self.holders.count if looks else 0

    def _start_holders(self, nodes: NumberedNodes, limit_s: float) -> None:
        """Hold idle nodes for ``limit_s`` at the latest."""
        assert self.rules is not None
        self.holders.start(self.now_s, self.now_s + limit_s, nodes)
        self.idle -= nodes
        self._expire_at(self.now_s + limit_s)
        if self.rules.way is FreeingWay.LIFE:
            grown_up_s = self.now_s + self.rules.life_s
            heapq.heappush(self._events, (grown_up_s, _What.HOLDERS_AGE, 0))

    def _expire_at(self, at_s: float) -> None:
        heapq.heappush(self._events, (at_s, _What.HOLDERS_EXPIRE, 0))


def _looks_of(jobs: MainJobs, rules: PilotRules | None) -> Looks:
    """Return how a pilot decides what to release."""
    if rules is not None and rules.way is FreeingWay.YIELD:
        return Yields(jobs, rules)
    if rules is not None and rules.way is FreeingWay.BLIND:
        return YieldsBlindly(rules)
    return NeverYields()
