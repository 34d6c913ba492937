"""Decide when to release held nodes where the site hides the queue. Pure.

The scheduler's counters tell that a job was submitted, has started or has ended, and not which.
When jobs wait and one has been submitted or has ended, the pilot releases 1, 2, 4 ... nodes, one
step at each glance, until as many jobs have started as were submitted; after an end, until no job
waits. If all nodes are released and idle, and a complete backfill cycle has used none of them, the
offer is void: the pilot holds nodes again until the next such event. Void offers are rationed: a
job that comes when none is left waits for the next one, at most :data:`REFILL_S`.

An event may be missed, and a job may become eligible without one. So while jobs wait, nodes are
offered after :data:`RETRY_S` without an event as well.

Own holders count in the same counters. They are expected there before they can be counted, and each
one takes away one count of others at most once, so no event is lost for good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bftrainer.decide.yielding.backfill_cycles import CYCLE_S
from bftrainer.decide.yielding.facts import CLOCK_STEP_S, JobCounters
from bftrainer.decide.yielding.pool import LEAVING_S
from bftrainer.times import PilotS

VOID_S = 3.0
"""After the last node was released and its trainers have left, a job that can start has started."""
EXPECTED_S = 60.0
"""Own holders that are not counted by then never will be."""
MAX_CREDIT = 10.0
"""The number of void offers that may follow one another without a rest."""
REFILL_S = 60.0
"""After that, there is one for each time so long. Pilots that do not see one another, and a user
who submits and cancels jobs all the time, would otherwise move all trainers for ever.
"""
RETRY_S = 600.0
"""While jobs wait and nothing happens, nodes are offered again after this time."""
MAX_STEPS = 8
"""No offer takes more steps than this to release all nodes, however many there are."""


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
class Bell:
    """The submissions and ends of other users' jobs that no offer has answered yet; the latest was
    seen at ``at_s``.
    """

    submitted: int = 0
    ended: int = 0
    at_s: PilotS = PilotS(-math.inf)

    @property
    def rings(self) -> bool:
        """Whether there are any."""
        return self.submitted > 0 or self.ended > 0

    def rung_by(self, others: OthersCount, at_s: PilotS) -> Bell:
        """Return the bell after one more glance."""
        if not others.submitted and not others.ended:
            return self
        return Bell(self.submitted + others.submitted, self.ended + others.ended, at_s)


@dataclass(frozen=True, slots=True)
class BlindMemory:
    """What a decision remembers for the next glance.

    ``expected``: own holders that the counters have not counted yet. ``waiting``: jobs of others
    that wait, as far as the counters tell. While nodes are offered, ``step`` is how many are
    released at the next glance (0: no offer), ``goal`` the number of waiting jobs at which the
    offer is over. ``all_released_s``: since when nothing is left to release. ``bell``: what
    has happened since the latest offer began. ``credit``: how many void offers are allowed.
    ``last_submission_s``: the scheduler's time of the glance that saw the latest submission.
    ``all_idle_s``: since when all released nodes are idle; ``has_leaving``: some were not when
    trainers had had their time. ``rest_from_s``: when the
    latest offer ended, or a job began to wait.
    """

    glance: Glance | None = None
    expected: Expected = Expected()
    waiting: int = 0
    step: int = 0
    goal: int = 0
    all_released_s: PilotS | None = None
    bell: Bell = Bell()
    credit: float = MAX_CREDIT
    last_submission_s: float = -math.inf
    all_idle_s: PilotS | None = None
    has_leaving: bool = False
    rest_from_s: PilotS = PilotS(-math.inf)

    @property
    def next_offer_s(self) -> float:
        """When nodes are offered even if nothing happens; infinite while none are needed."""
        if self.offers or not self.waiting:
            return math.inf
        return self.rest_from_s + RETRY_S

    @property
    def offers(self) -> bool:
        """Whether nodes are being offered, so that nothing may be requested."""
        return self.step > 0

    @property
    def is_due(self) -> bool:
        """Whether an offer goes on, or begins as soon as the credit allows it: the next glance
        decides although nothing may have changed.
        """
        return self.offers or self.bell.rings


@dataclass(frozen=True, slots=True)
class BlindDecision:
    """How many held nodes to release now, and a line for the log of events where an offer ends."""

    memory: BlindMemory
    release_count: int = 0
    words: str = ""


def next_blind(
    glance: Glance,
    held_count: int,
    memory: BlindMemory,
    notice_s: float,
    leaving_count: int = 0,
    *,
    is_starting: bool = False,
) -> BlindDecision:
    """Decide how many held nodes to release after a glance at the scheduler's counters; the same
    glance counts once. The first glance only counts the jobs that wait: they have come without an
    offer if there are holders already, which are those of a pilot before this one.

    ``held_count`` nodes can be released, ``leaving_count`` have been and are not idle yet.
    ``is_starting``: there are holders that are not ready. ``notice_s``: how long trainers may take
    to leave.
    """
    previous = memory.glance
    if previous is not None and glance.at_s <= previous.at_s:
        return BlindDecision(memory)
    if previous is None:
        waiting = max(glance.counters.pending - glance.own.pending, 0)
        bell = Bell(waiting, 0, glance.at_s) if held_count or is_starting else Bell()
        return BlindDecision(
            replace(memory, glance=glance, waiting=waiting, bell=bell, rest_from_s=glance.at_s)
        )
    others, expected = _split_counts(previous, glance, memory.expected)
    waiting = max(memory.waiting + others.submitted - others.started, 0)
    bell = memory.bell.rung_by(others, glance.at_s)
    last_submission_s = memory.last_submission_s
    if others.submitted:
        last_submission_s = glance.counters.at_s
    if glance.counters.pending_at_s != previous.counters.pending_at_s:
        # The scheduler has counted its pending jobs again. A count from before the latest
        # submission may leave that job out: then it only raises the estimate.
        # Nor is it certain that holders which are pending now were pending then.
        counted = glance.counters.pending
        pending = max(counted - glance.own.pending, 0)
        if pending > waiting:  # jobs whose submissions no offer has answered
            bell = bell.rung_by(OthersCount(pending - waiting, 0, 0), glance.at_s)
        if glance.counters.pending_at_s > last_submission_s:
            waiting = min(waiting, counted)
        waiting = max(pending, waiting)
    memory = replace(
        memory,
        glance=glance,
        expected=expected,
        waiting=waiting,
        bell=bell,
        last_submission_s=last_submission_s,
        credit=min(memory.credit + (glance.at_s - previous.at_s) / REFILL_S, MAX_CREDIT),
    )
    if memory.offers:
        # The nodes of an ended job may be enough for any that waits.
        goal = 0 if others.ended else memory.goal
        offer = replace(memory, goal=goal)
        return _continue_offer(glance, held_count, offer, notice_s, leaving_count)
    if not waiting:
        return BlindDecision(replace(memory, bell=Bell(), rest_from_s=glance.at_s))
    if not held_count:  # What happens while holders start counts as soon as they have.
        bell = memory.bell if is_starting else _unjudged(glance, memory.bell)
        return BlindDecision(replace(memory, bell=bell))
    is_due = memory.bell.rings or glance.at_s >= memory.next_offer_s
    if not is_due or memory.credit < 1.0:
        return BlindDecision(memory)
    return _begin_offer(glance, held_count, memory, notice_s, leaving_count)


def _begin_offer(
    glance: Glance, held_count: int, memory: BlindMemory, notice_s: float, leaving_count: int
) -> BlindDecision:
    """Release the first nodes, after an event, or because nothing has happened for long."""
    # Over once as many jobs have started as have come; an end may make room for any that waits.
    bell = memory.bell
    goal = max(memory.waiting - bell.submitted, 0) if bell.rings and not bell.ended else 0
    offer = replace(
        memory,
        step=-(-held_count // 2 ** (MAX_STEPS - 1)),
        goal=goal,
        all_released_s=None,
        bell=Bell(),
    )
    return _continue_offer(glance, held_count, offer, notice_s, leaving_count)


def _continue_offer(
    glance: Glance, held_count: int, memory: BlindMemory, notice_s: float, leaving_count: int
) -> BlindDecision:
    """Continue an offer of nodes: release the next nodes, or end the offer because as many main
    jobs have started as have come, or because none takes the nodes. Call only while nodes are
    offered.
    """
    if memory.waiting <= memory.goal:
        memory = replace(memory, step=0, bell=Bell(), rest_from_s=glance.at_s)
        return BlindDecision(memory, words="a main job has started")
    if held_count:
        count = min(memory.step, held_count)
        memory = replace(memory, step=2 * memory.step, all_released_s=None, all_idle_s=None)
        return BlindDecision(memory, count)
    if memory.all_released_s is None:
        return BlindDecision(replace(memory, all_released_s=glance.at_s, all_idle_s=None))
    memory = _with_idle_time(glance, memory, notice_s, leaving_count)
    idle_s = memory.all_idle_s
    if idle_s is None or glance.at_s - idle_s < VOID_S or not _has_cycle(glance, idle_s):
        return BlindDecision(memory)
    bell, credit = _unjudged(glance, memory.bell), memory.credit - 1.0
    memory = replace(memory, step=0, bell=bell, credit=credit, rest_from_s=glance.at_s)
    return BlindDecision(memory, words="no main job has started: the nodes are held again")


def _unjudged(glance: Glance, bell: Bell) -> Bell:
    """Return what the scheduler may not have come to while nodes were idle: what happened in the
    last seconds, or since the latest complete backfill cycle began.
    """
    is_judged = glance.at_s - bell.at_s >= VOID_S and _has_cycle(glance, bell.at_s)
    return Bell() if is_judged else bell


def _with_idle_time(
    glance: Glance, memory: BlindMemory, notice_s: float, leaving_count: int
) -> BlindMemory:
    """Note since when all released nodes are idle: trainers have had their time to leave, and no
    holder is ending. One that hangs is not waited for.
    """
    assert memory.all_released_s is not None
    notice_end_s = PilotS(memory.all_released_s + notice_s)
    if memory.all_idle_s is not None or glance.at_s < notice_end_s:
        return memory
    if not leaving_count:
        previous_s = glance.at_s if memory.has_leaving else notice_end_s
        return replace(memory, all_idle_s=previous_s, has_leaving=False)
    if glance.at_s >= notice_end_s + LEAVING_S:
        return replace(memory, all_idle_s=glance.at_s, has_leaving=False)
    return replace(memory, has_leaving=True)


def _has_cycle(glance: Glance, since_s: PilotS) -> bool:
    """Whether a complete backfill cycle has begun after a time of the pilot's, or would have by
    now. Where the scheduler does not show its cycles, none is waited for.
    """
    planned_s = glance.counters.planned_s
    if planned_s is None or glance.at_s - since_s > CYCLE_S:
        return True
    age_s = glance.counters.at_s - planned_s
    if age_s < -CLOCK_STEP_S:  # from before the scheduler's clock was set back
        return False
    return glance.at_s - age_s > since_s + CLOCK_STEP_S


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
