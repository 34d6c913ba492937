"""Decide when to release held nodes where the site hides the queue. Pure.

The scheduler's counters tell that a job was submitted, has started or has ended, and not which.
When somebody waits and a job has been submitted or has ended, the pilot releases 1, 2, 4 ... nodes,
one step at each glance, until as many jobs have started as have come. If none starts although all
nodes are released, the offer is void: the pilot holds nodes again until the next such event.

Own holders count in the same counters. They are expected there before they can be counted, and each
one takes away one count of others at most once, so no event is lost for good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bftrainer.cluster.model import JobCounters
from bftrainer.times import PilotS

VOID_S = 3.0
"""After the last node was released and its trainers have left, a job that can start has started."""
EXPECTED_S = 60.0
"""Own holders that are not counted by then never will be."""
FREE_VOIDS = 3
FIRST_REST_S, LONGEST_REST_S = 10.0, 300.0
"""After more void offers in a row than :data:`FREE_VOIDS`, the next one comes no sooner than that,
doubled each time: pilots that do not see one another would offer nodes to each other for ever.
"""


@dataclass(frozen=True, slots=True)
class OwnJobs:
    """Holders of this pilot since its start: those that it has submitted, and those that have ended
    or were told to. ``pending``: how many wait now.
    """

    submitted: int = 0
    ended: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class Glance:
    """The scheduler's counters at one glance (``at_s``: the pilot's time), and the own holders in
    them.
    """

    at_s: PilotS
    counters: JobCounters
    own: OwnJobs


@dataclass(frozen=True, slots=True)
class OthersCount:
    """What has happened to other users' jobs between two glances."""

    submitted: int
    started: int
    ended: int


@dataclass(frozen=True, slots=True)
class Expected:
    """How many own holders the scheduler's counters do not count yet, as far as this pilot knows;
    the last was added at ``at_s``.
    """

    submitted: int = 0
    started: int = 0
    ended: int = 0
    at_s: PilotS = PilotS(-math.inf)


@dataclass(frozen=True, slots=True)
class BlindMemory:
    """What a decision remembers for the next glance.

    ``waiting``: jobs of others that wait, as far as the counters tell. While nodes are offered,
    ``step`` is how many leave at the next glance (0: no offer), ``goal`` the number of waiting jobs
    at which it is over. ``all_released_s``: since when nothing is left to release.
    """

    glance: Glance | None = None
    expected: Expected = Expected()
    waiting: int = 0
    step: int = 0
    goal: int = 0
    all_released_s: PilotS | None = None
    voids: int = 0
    rest_until_s: PilotS = PilotS(-math.inf)

    @property
    def offers(self) -> bool:
        """Whether nodes are being offered, so that nothing may be requested."""
        return self.step > 0


@dataclass(frozen=True, slots=True)
class BlindDecision:
    """How many held nodes to release now, and a line for the log of events where an offer ends."""

    memory: BlindMemory
    release_count: int = 0
    words: str = ""


def next_blind(
    glance: Glance, held_count: int, memory: BlindMemory, notice_s: float
) -> BlindDecision:
    """Decide how many held nodes to release after a glance at the scheduler's counters; the same
    glance counts once.

    ``held_count`` nodes can be released. ``notice_s``: how long trainers may take to leave.
    """
    before = memory.glance
    if before is not None and glance.at_s <= before.at_s:
        return BlindDecision(memory)
    if before is None:
        waiting = max(glance.counters.pending - glance.own.pending, 0)
        return BlindDecision(replace(memory, glance=glance, waiting=waiting))
    others, expected = _of_others(before, glance, memory.expected)
    waiting = max(memory.waiting + others.submitted - others.started, 0)
    if glance.counters.pending_at_s > before.counters.pending_at_s:
        shown = glance.counters.pending - glance.own.pending
        waiting = max(shown, min(others.submitted, waiting), 0)
    memory = replace(memory, glance=glance, expected=expected, waiting=waiting)
    if memory.offers:
        return _go_on(glance, held_count, memory, notice_s)
    has_come = others.submitted > 0 or others.ended > 0
    if not has_come or not waiting or not held_count or glance.at_s < memory.rest_until_s:
        return BlindDecision(memory)
    goal = max(waiting - max(others.submitted, 1), 0)
    memory = replace(memory, step=1, goal=goal, all_released_s=None)
    return _go_on(glance, held_count, memory, notice_s)


def _go_on(glance: Glance, held_count: int, memory: BlindMemory, notice_s: float) -> BlindDecision:
    """Continue an offer of nodes: release the next nodes, or end the offer because a main job has
    started or none takes the nodes.
    """
    if memory.waiting <= memory.goal:
        return BlindDecision(replace(memory, step=0, voids=0), words="a main job has started")
    if held_count:
        count = min(memory.step, held_count)
        memory = replace(memory, step=2 * memory.step, all_released_s=None)
        return BlindDecision(memory, count)
    if memory.all_released_s is None:
        return BlindDecision(replace(memory, all_released_s=glance.at_s))
    if glance.at_s - memory.all_released_s < VOID_S + notice_s:
        return BlindDecision(memory)
    voids = memory.voids + 1
    rest_s = 0.0
    if voids > FREE_VOIDS:
        rest_s = min(FIRST_REST_S * 2 ** (voids - FREE_VOIDS - 1), LONGEST_REST_S)
    rest_until_s = PilotS(glance.at_s + rest_s)
    memory = replace(memory, step=0, voids=voids, rest_until_s=rest_until_s)
    return BlindDecision(memory, words="no main job has started: the nodes are held again")


def _of_others(before: Glance, now: Glance, expected: Expected) -> tuple[OthersCount, Expected]:
    """Divide what the counters show between two glances into other users' jobs and own holders.
    Returns the counts of the others, and the own holders that are still expected in the counters.

    Counters restart at midnight: then what they show is all that is known.
    """
    was, is_now = before.counters, now.counters
    is_reset = is_now.submitted < was.submitted or is_now.ended < was.ended
    base = JobCounters(0.0, 0, 0, 0) if is_reset else was
    submitted, ended = now.own.submitted - before.own.submitted, now.own.ended - before.own.ended
    at_s = now.at_s if submitted or ended else expected.at_s
    if now.at_s - at_s > EXPECTED_S:
        expected = Expected()
    to_come = Expected(
        expected.submitted + submitted,
        expected.started + submitted,
        expected.ended + ended,
        at_s,
    )
    counted = OthersCount(
        is_now.submitted - base.submitted,
        max(is_now.started - base.started, 0),
        is_now.ended - base.ended,
    )
    own = Expected(
        min(max(to_come.submitted, 0), counted.submitted),
        min(max(to_come.started, 0), counted.started),
        min(max(to_come.ended, 0), counted.ended),
    )
    others = OthersCount(
        counted.submitted - own.submitted,
        counted.started - own.started,
        counted.ended - own.ended,
    )
    rest = Expected(
        to_come.submitted - own.submitted,
        to_come.started - own.started,
        to_come.ended - own.ended,
        at_s,
    )
    return others, rest
