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
    """What a pilot sees at ``now_s``. ``changes`` counts starts and ends of main jobs."""

    now_s: float
    pending: Sequence[int]
    idle: int
    leaving: int
    held: int
    submitted: int
    started: int
    ended: int

    @property
    def changes(self) -> int:
        """How often a main job has started or ended."""
        return self.started + self.ended


@dataclass(frozen=True, slots=True)
class LookDecision:
    """What to release. ``blocks``: nothing may be requested now. ``looks_again``: another look is
    due although nothing may have changed.
    """

    release_count: int = 0
    blocks: bool = False
    looks_again: bool = False


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
    ``void_s``: when the scheduler had not taken them, after ``changes`` of the cluster.
    """

    looks: int = 0
    enough_s: float = math.inf
    void_s: float = math.inf
    changes: int = 0
    void_count: int = 0


@dataclass(slots=True)
class Yields:
    """A pilot that watches the queue: it offers nodes to every waiting job that fits on idle and
    held nodes, in order of priority, until it starts or a backfill cycle has not taken them.
    """

    jobs: MainJobs
    rules: PilotRules
    offers: dict[int, _Offer] = field(default_factory=dict)

    def decide(self, view: QueueView) -> LookDecision:
        """Decide after a look at the queue."""
        idle, others = view.idle, view.leaving + view.held
        needed, blocks = 0, False
        offers: dict[int, _Offer] = {}
        for job in view.pending:
            size = self.jobs.nodes[job]
            fits, offer = size <= idle + others, self.offers.get(job)
            if offer is None and not fits:
                continue
            offer = offers[job] = offer or _Offer()
            self._judge(offer, view, is_enough=size <= idle)
            if offer.void_s < math.inf or not fits:
                continue
            blocks = True
            needed += size
            if size <= idle:
                offer.looks += 1
                offer.enough_s = min(offer.enough_s, view.now_s)
            else:
                offer.looks, offer.enough_s = 0, math.inf
            from_idle = min(size, idle)
            idle -= from_idle
            others -= size - from_idle
        self.offers = offers
        release_count = min(max(needed - view.idle - view.leaving, 0), view.held)
        return LookDecision(release_count, blocks, blocks)

    def _judge(self, offer: _Offer, view: QueueView, *, is_enough: bool) -> None:
        """Make an offer void that no backfill cycle took, and repeat a void one after a main job
        has started or ended.
        """
        if offer.void_s < math.inf:
            rest_s = min(FIRST_REST_S * 2 ** (offer.void_count - 1), LONGEST_REST_S)
            age_s = view.now_s - offer.void_s
            has_changed = view.changes != offer.changes and age_s >= rest_s
            if has_changed or age_s >= self.rules.worst_wait_s:
                offer.void_s, offer.looks, offer.enough_s = math.inf, 0, math.inf
            return
        if not is_enough or offer.looks < LOOKS:
            return
        if _last_cycle_s(view.now_s, self.rules.cycle_s) > offer.enough_s + CLOCK_STEP_S:
            offer.void_s, offer.changes = view.now_s, view.changes
            offer.void_count += 1


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
        decision = next_blind(glance, view.held, self.memory, self.rules.notice_s)
        self.memory = decision.memory
        memory = decision.memory
        return LookDecision(decision.release_count, memory.offers, memory.is_due)
