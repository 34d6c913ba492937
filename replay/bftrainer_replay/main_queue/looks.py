"""Which held nodes a simulated pilot releases after a look, and whether it may hold others now.

The rules are the live pilot's own functions (:mod:`bftrainer.decide.yielding`). What is simulated
is one pilot, whose trainers leave at once, and jobs that may use all nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bftrainer.decide.yielding.blind import BlindMemory, Glance, OwnJobs, next_blind
from bftrainer.decide.yielding.facts import (
    HolderStage,
    JobCounters,
    NodeWait,
    OwnHolder,
    WaitingQueue,
    YieldRules,
)
from bftrainer.decide.yielding.judging import next_repeat_s
from bftrainer.decide.yielding.memory import YieldMemory
from bftrainer.decide.yielding.node_sets import NumberedNodes
from bftrainer.decide.yielding.pool import OtherHolders
from bftrainer.decide.yielding.rule import YieldDecision, decide_offers
from bftrainer.times import PilotS
from bftrainer_replay.main_queue.holders import NONE, HeldNodes
from bftrainer_replay.main_queue.jobs import MainJobs
from bftrainer_replay.main_queue.ways import PilotRules


@dataclass(frozen=True, slots=True)
class QueueView:
    """What a pilot sees at ``now_s``: ``pending`` jobs in the order of their priority, the nodes,
    those that were busy when it saw them last, and how many main jobs were submitted, have started
    and have ended so far. ``starts`` are all jobs that have started, in order.
    """

    now_s: float
    pending: Sequence[int]
    idle: NumberedNodes
    leaving: NumberedNodes
    held: HeldNodes
    submitted: int
    starts: Sequence[int]
    ended: int

    @property
    def started(self) -> int:
        """How many main jobs have started."""
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class LookDecision:
    """The nodes to release. ``blocks``: nothing may be requested now, ``reserved``: none of these
    nodes. ``looks_again``: another look is due although nothing may have changed, and one at
    ``next_s`` in any case.
    """

    released: NumberedNodes = NONE
    blocks: bool = False
    looks_again: bool = False
    next_s: float = math.inf
    reserved: NumberedNodes = NONE


NOTHING = LookDecision()


class Looks(Protocol):
    """The part of a pilot that decides what to release."""

    def decide(self, view: QueueView) -> LookDecision:
        """Decide after a look."""


class NeverYields:
    """A pilot that releases nothing for main jobs."""

    def decide(self, view: QueueView) -> LookDecision:
        """Release nothing."""
        return NOTHING


@dataclass(slots=True)
class Yields:
    """A pilot that watches the queue. ``seen_starts`` main jobs had started at the look before."""

    jobs: MainJobs
    rules: PilotRules
    memory: YieldMemory = field(default_factory=YieldMemory)
    seen_starts: int = 0
    _all: NumberedNodes = field(init=False)
    _waits: dict[int, NodeWait] = field(default_factory=dict)
    _rules: YieldRules = field(init=False)

    def __post_init__(self) -> None:
        rules = self.rules
        self._all = NumberedNodes.first_of_all(self.jobs.machine_nodes)
        self._rules = YieldRules(rules.notice_s, rules.look_s, rules.worst_wait_s)

    def decide(self, view: QueueView) -> LookDecision:
        """Decide after a look at the queue."""
        decision = self._decided(view)
        self.memory = memory = decision.memory
        releases = (h.nodes for release in decision.releases for h in release.holders)
        return LookDecision(
            NONE.union(*releases),
            memory.blocks,
            any(offer.void is None and offer.looks for offer in memory.offers) or memory.blocks,
            self._next_s(view.now_s),
            NONE | memory.reserved,
        )

    def _decided(self, view: QueueView) -> YieldDecision:
        """Return the decision of the pilot's own rule."""
        now_s, held = view.now_s, view.held
        started = view.starts[self.seen_starts :]
        queue = WaitingQueue(
            PilotS(now_s),
            now_s,
            PilotS(now_s - self.rules.look_s),
            tuple(self._wait(job) for job in view.pending),
            (),
            view.idle,
            self._all - view.idle - view.leaving - held.nodes,
            tuple((str(job), now_s) for job in started),
            _last_cycle_s(now_s, self.rules.cycle_s),
            (self._all,),
        )
        own = [
            OwnHolder(
                str(group.number),
                str(group.number),
                group.nodes,
                HolderStage.READY,
                PilotS(group.start_s),
            )
            for group in held.groups
        ]
        self.seen_starts = view.started
        return decide_offers(
            queue,
            own,
            OtherHolders(view.leaving),
            self.memory,
            self._rules,
        )

    def _wait(self, job: int) -> NodeWait:
        """Return a waiting job as the rule sees it. Jobs are in order of their priority."""
        if job not in self._waits:
            size = self.jobs.nodes[job]
            self._waits[job] = NodeWait(str(job), size, -float(job), self._all)
        return self._waits[job]

    def _next_s(self, now_s: float) -> float:
        """Return when the decision may be another one although nothing has happened."""
        memory = self.memory
        times_s = [
            next_repeat_s(offer, self._rules) for offer in memory.offers if offer.void is not None
        ]
        times_s += [offer.rest_until_s for offer in memory.offers]
        times_s.append(memory.rest_until_s)
        return min((at_s for at_s in times_s if at_s > now_s), default=math.inf)


def _last_cycle_s(now_s: float, cycle_s: float) -> float:
    """Return when the latest backfill cycle began."""
    return math.floor(now_s / cycle_s) * cycle_s if cycle_s else now_s


@dataclass(slots=True)
class YieldsBlindly:
    """A pilot that sees only how many jobs were submitted, have started and have ended: after a
    submission or an end, it releases 1, 2, 4 ... nodes until a job has started.
    """

    rules: PilotRules
    memory: BlindMemory = field(default_factory=BlindMemory)

    def decide(self, view: QueueView) -> LookDecision:
        """Decide after a glance at the counters."""
        cycle_s = _last_cycle_s(view.now_s, self.rules.cycle_s)
        counts = view.submitted, view.started, view.ended
        counters = JobCounters(view.now_s, *counts, planned_s=cycle_s)
        glance = Glance(PilotS(view.now_s), counters, OwnJobs())
        memory, notice_s = self.memory, self.rules.notice_s
        decision = next_blind(glance, view.held.count, memory, notice_s, len(view.leaving))
        self.memory = memory = decision.memory
        released = view.held.youngest(decision.release_count, view.now_s)
        return LookDecision(released, memory.offers, memory.is_due, memory.next_offer_s)
