"""How many held nodes a simulated pilot releases after a look, and whether it may hold others now.

The rules are those of the pilot (:mod:`bftrainer.pilot.nodes.yielding`), with nodes counted instead
of named; the blind rule is the pilot's own function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bftrainer.cluster.model import JobCounters
from bftrainer.pilot.nodes.blind_yielding import BlindMemory, Glance, OwnJobs, next_blind
from bftrainer.pilot.nodes.yielding import CLOCK_STEP_S, FIRST_REST_S, LONGEST_REST_S, LOOKS
from bftrainer.times import PilotS
from bftrainer_replay.main_queue.jobs import MainJobs
from bftrainer_replay.main_queue.ways import PilotRules


@dataclass(frozen=True, slots=True)
class QueueView:
    """What a pilot sees at ``now_s``: ``pending`` jobs in the order of their priority, and how many
    main jobs were submitted, have started and have ended so far.
    """

    now_s: float
    pending: Sequence[int]
    idle: int
    leaving: int
    held: int
    submitted: int
    started: int
    ended: int


@dataclass(frozen=True, slots=True)
class LookDecision:
    """What to release. ``blocks``: nothing may be requested now. ``looks_again``: another look is
    due although nothing may have changed, and one at ``next_s`` in any case.
    """

    release_count: int = 0
    blocks: bool = False
    looks_again: bool = False
    next_s: float = math.inf


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
class _Offer:
    """Nodes that are offered to a job: for how many ``looks`` enough were idle, since ``enough_s``.
    ``void_s``: when the scheduler had not taken them; ``ended`` jobs had ended until then, and
    ``ahead`` were waiting before it.
    """

    looks: int = 0
    enough_s: float = math.inf
    void_s: float = math.inf
    ended: int = 0
    ahead: int = 0
    void_count: int = 0

    def begin(self) -> None:
        """Count the looks from the beginning."""
        self.looks, self.enough_s, self.void_s = 0, math.inf, math.inf


@dataclass(slots=True)
class Yields:
    """A pilot that watches the queue: it offers nodes to every waiting job that fits on idle and
    held nodes, in order of priority, until it starts or a backfill cycle has not taken them. All
    idle nodes count, for whomever they were released.

    Nodes are counted here, so that a start may have been on nodes by which others are judged: all
    of them are judged from the beginning then. A real pilot sees which nodes they are.
    """

    jobs: MainJobs
    rules: PilotRules
    offers: dict[int, _Offer] = field(default_factory=dict)
    started: int = 0

    def decide(self, view: QueueView) -> LookDecision:
        """Decide after a look at the queue."""
        idle, others = view.idle, view.leaving + view.held
        available = idle + others
        needed, blocks = 0, False
        has_started, self.started = view.started != self.started, view.started
        offers: dict[int, _Offer] = {}
        for ahead, job in enumerate(view.pending):
            size, offer = self.jobs.nodes[job], self.offers.get(job)
            if offer is None and size > available:
                continue
            offer = offers[job] = offer or _Offer()
            if has_started and offer.void_s == math.inf:
                offer.begin()
            self._judge(offer, view, ahead, is_enough=size <= view.idle)
            if offer.void_s < math.inf or size > idle + others:
                continue
            blocks = True
            needed += size
            from_idle = min(size, idle)
            idle -= from_idle
            others -= size - from_idle
        self.offers = offers
        release_count = min(max(needed - view.idle - view.leaving, 0), view.held)
        return LookDecision(release_count, blocks, blocks)

    def _judge(self, offer: _Offer, view: QueueView, ahead: int, *, is_enough: bool) -> None:
        """Make an offer void that no backfill cycle took, and repeat a void one after a main job
        has ended, or one that waited before it has started.
        """
        if offer.void_s < math.inf:
            rest_s = min(FIRST_REST_S * 2 ** min(offer.void_count - 1, 10), LONGEST_REST_S)
            age_s = view.now_s - offer.void_s
            has_changed = view.ended != offer.ended or ahead != offer.ahead
            if not (has_changed and age_s >= rest_s) and age_s < self.rules.worst_wait_s:
                return
            offer.begin()
        elif is_enough and offer.looks >= LOOKS:
            last_cycle_s = _last_cycle_s(view.now_s, self.rules.cycle_s)
            if last_cycle_s > offer.enough_s + CLOCK_STEP_S:
                offer.void_s, offer.ended, offer.ahead = view.now_s, view.ended, ahead
                offer.void_count += 1
                return
        if is_enough:
            offer.looks += 1
            offer.enough_s = min(offer.enough_s, view.now_s)
        else:
            offer.begin()


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
        decision = next_blind(glance, view.held, memory, notice_s, view.leaving)
        self.memory = memory = decision.memory
        count, next_s = decision.release_count, memory.next_offer_s
        return LookDecision(count, memory.offers, memory.is_due, next_s)
