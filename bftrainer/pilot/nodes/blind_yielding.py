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

    ``expected``: own holders that the counters have not counted yet. ``waiting``: jobs of others
    that wait, as far as the counters tell. While nodes are offered, ``step`` is how many are
    released at the next glance (0: no offer), ``goal`` the number of waiting jobs at which the
    offer is over. ``all_released_s``: since when nothing is left to release. ``void_count``: void
    offers in a row. ``rest_until_s``: no offer begins before this time.
    """

    glance: Glance | None = None
    expected: Expected = Expected()
    waiting: int = 0
    step: int = 0
    goal: int = 0
    all_released_s: PilotS | None = None
    void_count: int = 0
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
    glance counts once. The first glance only counts the jobs that wait.

    ``held_count`` nodes can be released. ``notice_s``: how long trainers may take to leave.
    """
    previous = memory.glance
    if previous is not None and glance.at_s <= previous.at_s:
        return BlindDecision(memory)
    if previous is None:
        waiting = max(glance.counters.pending - glance.own.pending, 0)
        return BlindDecision(replace(memory, glance=glance, waiting=waiting))
    others, expected = _split_counts(previous, glance, memory.expected)
    waiting = max(memory.waiting + others.submitted - others.started, 0)
    if glance.counters.pending_at_s > previous.counters.pending_at_s:
        # The scheduler has counted its pending jobs again. Its number replaces the estimate, but
        # may be older than the latest submissions.
        pending = glance.counters.pending - glance.own.pending
        waiting = max(pending, min(others.submitted, waiting), 0)
    memory = replace(memory, glance=glance, expected=expected, waiting=waiting)
    if memory.offers:
        return _continue_offer(glance, held_count, memory, notice_s)
    is_news = others.submitted > 0 or others.ended > 0
    if not is_news or not waiting or not held_count or glance.at_s < memory.rest_until_s:
        return BlindDecision(memory)
    # Over once as many jobs have started as have come; one where only an end made room for a job.
    goal = max(waiting - max(others.submitted, 1), 0)
    memory = replace(memory, step=1, goal=goal, all_released_s=None)
    return _continue_offer(glance, held_count, memory, notice_s)


def _continue_offer(
    glance: Glance, held_count: int, memory: BlindMemory, notice_s: float
) -> BlindDecision:
    """Continue an offer of nodes: release the next nodes, or end the offer because as many main
    jobs have started as have come, or because none takes the nodes. Call only while nodes are
    offered.
    """
    if memory.waiting <= memory.goal:
        return BlindDecision(replace(memory, step=0, void_count=0), words="a main job has started")
    if held_count:
        count = min(memory.step, held_count)
        memory = replace(memory, step=2 * memory.step, all_released_s=None)
        return BlindDecision(memory, count)
    if memory.all_released_s is None:
        return BlindDecision(replace(memory, all_released_s=glance.at_s))
    if glance.at_s - memory.all_released_s < VOID_S + notice_s:
        return BlindDecision(memory)
    void_count = memory.void_count + 1
    rest_s = 0.0
    if void_count > FREE_VOIDS:
        rest_s = min(FIRST_REST_S * 2 ** (void_count - FREE_VOIDS - 1), LONGEST_REST_S)
    rest_until_s = PilotS(glance.at_s + rest_s)
    memory = replace(memory, step=0, void_count=void_count, rest_until_s=rest_until_s)
    return BlindDecision(memory, words="no main job has started: the nodes are held again")


def _split_counts(
    previous: Glance, latest: Glance, expected: Expected
) -> tuple[OthersCount, Expected]:
    """Divide what the counters show between two glances into other users' jobs and own holders.
    ``expected``: own holders that the counters did not count until the ``previous`` glance. Returns
    the counts of the others, and the own holders that are still expected in the counters.

    Counters restart at midnight: then what they show is all that is known.
    """
    old, new = previous.counters, latest.counters
    is_reset = new.submitted < old.submitted or new.ended < old.ended
    base = JobCounters(0.0, 0, 0, 0) if is_reset else old
    own_submitted = latest.own.submitted - previous.own.submitted
    own_ended = latest.own.ended - previous.own.ended
    added_s = latest.at_s if own_submitted or own_ended else expected.at_s
    if latest.at_s - added_s > EXPECTED_S:
        expected = Expected()
    # Every own holder that was submitted is expected to start as well.
    uncounted = Expected(
        submitted=expected.submitted + own_submitted,
        started=expected.started + own_submitted,
        ended=expected.ended + own_ended,
        at_s=added_s,
    )
    counted = OthersCount(
        submitted=new.submitted - base.submitted,
        started=max(new.started - base.started, 0),
        ended=new.ended - base.ended,
    )
    own = Expected(
        submitted=min(max(uncounted.submitted, 0), counted.submitted),
        started=min(max(uncounted.started, 0), counted.started),
        ended=min(max(uncounted.ended, 0), counted.ended),
    )
    others = OthersCount(
        submitted=counted.submitted - own.submitted,
        started=counted.started - own.started,
        ended=counted.ended - own.ended,
    )
    still_expected = Expected(
        submitted=uncounted.submitted - own.submitted,
        started=uncounted.started - own.started,
        ended=uncounted.ended - own.ended,
        at_s=added_s,
    )
    return others, still_expected
