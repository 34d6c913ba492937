"""Decide which held nodes a pilot releases for main jobs that wait for nodes. Pure.

Where the scheduler does not end holders, or not at once, the pilot does. At each look at the queue
it walks through the waiting jobs by priority. A job that fits on idle and held nodes gets its nodes
from the idle ones first, then from those that are held. Nothing is requested until it has started.

The pilot cannot know why a job is pending: it may wait for a reservation of a larger job, a feature
or a license. So nodes are *offered*. An offer that a complete backfill cycle did not take is void:
the nodes may be held again until something has changed. A backfill cycle tries every waiting job on
all idle nodes. So it also judges jobs that fit on nodes which are idle for others: one cycle is
enough for a whole queue.

All pilots see the same queue and order the holders of all pilots alike, youngest first. The first
ones are released, each by its own pilot, so no node is released twice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bftrainer.cluster.model import ListedHolder, NodeWait
from bftrainer.counted import counted
from bftrainer.fragment_names import is_one_of_several, job_of, node_of
from bftrainer.pilot.nodes.held_fragments import HeldFragment
from bftrainer.times import PilotS

LOOKS = 2
"""Looks with enough idle nodes before an offer may be void."""
CYCLE_S = 120.0
"""Where the scheduler does not show its backfill cycles, one is over after this time."""
CLOCK_STEP_S = 1.0
"""Schedulers show whole seconds."""
RELEASED_S = 60.0
"""A released holder may still be listed as running for so long."""
LEAVING_S = 20.0
"""A holder that is ending may still have its node for so long after the notice."""
FIRST_REST_S, LONGEST_REST_S = 5.0, 60.0
"""After a void offer, the job's next one comes at the earliest after this time, doubled by each
further void offer: a job that waits for something else costs trainers a bounded number of moves.
Nodes that were released for a job that was canceled rest as well, doubled by each such job.
"""
CANCELED_S = 300.0
"""A canceled job counts for so long (:func:`_rest`)."""
UNPLANNED_VOIDS = 2
"""After so many void offers in a row, one of a job for which the scheduler plans no start is
repeated only after the longest wait: the plan counts with the ends of holders, so the job would be
in it if nodes were all that it lacks.
"""
RENEWED = 2
"""A node that so many holders have had, one after the other, while an offer was void is left idle
then until the job's offer has been judged again.
"""
RENEWAL_S = 600.0
"""No holder has to be renewed earlier than this (:data:`.making_way.BUSY_LIMIT_S`)."""
UNJUDGED_S = 120.0
"""Idle nodes by which a job with a void offer is judged put its next offer off for so long at most:
they may be nodes that it cannot use.
"""
STEPPED_S = 60.0
"""The scheduler's clock has been set if it differs by more from the pilot's than a look before."""
STRANGER_S = 2.0
"""Beyond a look, the holders of a user who has released none for a job before are waited for so
long: any user may start jobs that look like holders. Pilots of users who have are given their
trainers' time to leave.
"""
DISTRUST_S = 60.0
"""The holders of a user count as main jobs for so long at least after one was not released in
time.
"""


@dataclass(frozen=True, slots=True)
class WaitingQueue:
    """The queue at one look.

    ``at_s`` is the pilot's time of the look, ``server_s`` the scheduler's, ``before_s`` the pilot's
    time of the look before. ``planned_s`` is when the latest complete backfill cycle began (None:
    unknown), by the scheduler's clock. ``idle`` and ``busy`` are nodes, busy ones with main jobs.
    ``starts``: main jobs that have started lately, by the scheduler's clock.
    """

    at_s: PilotS
    server_s: float
    before_s: PilotS
    jobs: tuple[NodeWait, ...] = ()
    holders: tuple[ListedHolder, ...] = ()
    idle: frozenset[str] = frozenset()
    busy: frozenset[str] = frozenset()
    starts: tuple[tuple[str, float], ...] = ()
    planned_s: float | None = None


@dataclass(frozen=True, slots=True)
class YieldRules:
    """``notice_s``: how long trainers may take to leave. ``poll_s``: between two looks.
    ``worst_wait_s``: the longest time limit of a holder. ``own_pilot``: this pilot in the list of
    holders.
    """

    notice_s: float = 5.0
    poll_s: float = 2.0
    worst_wait_s: float = 1800.0
    own_pilot: str = ""


@dataclass(frozen=True, slots=True)
class VoidOffer:
    """When an offer turned out to be void. It is made again once the scheduler's plan may have
    changed after ``since_s`` (:class:`QueueChanges`) and ``rest_s`` have passed after ``at_s``, or
    the longest wait after ``offered_s``. ``since_s`` is when the cycle began that did not take it.

    ``enough_s``: the scheduler's time since which enough nodes are idle for the job, no matter
    who left them idle. Where it still was not taken then, ``at_s`` is later than ``offered_s``.
    ``is_outdated``: the job needs other nodes now.
    """

    at_s: PilotS
    rest_s: float
    since_s: PilotS
    offered_s: PilotS
    enough_s: float | None = None
    is_outdated: bool = False


@dataclass(frozen=True, slots=True)
class QueueChanges:
    """What may have changed the scheduler's plan for a waiting job between two looks: the end of a
    main job, which leaves nodes, and that one before it is no longer before it or needs other
    nodes, which changes a reservation. The start of a job behind it takes nodes and leaves none.

    ``ranks``: the negative priorities of the jobs that waited, in order. ``lowest``: for each, the
    lowest priority that any of these jobs so far has now (none: those that left the queue).
    """

    has_ended: bool
    ranks: tuple[float, ...]
    lowest: tuple[float, ...]

    @classmethod
    def of(cls, memory: YieldMemory, queue: WaitingQueue) -> QueueChanges:
        """Return the changes between the look that ``memory`` is from and this one.

        Where fewer nodes have become busy than the jobs needed that left the queue, another job has
        ended on the nodes that one of them has now, or one was canceled.
        """
        waiting = {job.job: job for job in queue.jobs}
        earlier = sorted((offer.job for offer in memory.offers), key=lambda job: -job.priority)
        needed = sum(job.size for job in earlier if job.job not in waiting)
        has_ended = memory.busy - queue.busy or len(queue.busy - memory.busy) < needed
        lowest: list[float] = []
        for was in earlier:
            job = waiting.get(was.job)
            priority = job.priority if job is not None and _is_same_need(job, was) else -math.inf
            lowest.append(min(priority, lowest[-1] if lowest else math.inf))
        return cls(bool(has_ended), tuple(-job.priority for job in earlier), tuple(lowest))

    def concern(self, was: NodeWait, job: NodeWait) -> bool:
        """Whether the plan for a job may have changed, which ``was`` another at the look before."""
        if self.has_ended:
            return True
        before = bisect_right(self.ranks, -was.priority)
        return before > 0 and self.lowest[before - 1] < job.priority


@dataclass(frozen=True, slots=True)
class Offer:
    """Nodes that are offered to a job.

    ``blocked_s``: the earliest time at which it may have waited for held nodes. ``released``: own
    nodes, since ``released_s``; ``released_before``: those of earlier offers, which were void or
    missed: the job did not fit any more, for the ``missed_count``-th time. What is idle then is
    left to it until ``rest_until_s``.
    ``enough_s``: the scheduler's time of the first of ``looks`` in a row in which the same nodes
    were idle, enough for the job, for whomever they were released. ``awaited``: holders of other
    pilots that are to be released, the first of these users since ``awaited_s``. ``spare``: nodes
    that were idle before any was released for it; ``refused``: those of them that it did not take
    in the cycle that began at ``refused_s``, and is not given.
    ``changed_s``: the latest look at which the scheduler's plan for it may have changed.
    """

    job: NodeWait
    seen_s: PilotS
    blocked_s: PilotS
    released: int = 0
    released_s: PilotS | None = None
    released_before: int = 0
    looks: int = 0
    enough_s: float | None = None
    awaited: frozenset[ListedHolder] = frozenset()
    awaited_s: PilotS = PilotS(math.inf)
    void: VoidOffer | None = None
    void_count: int = 0
    spare: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    refused_s: PilotS = PilotS(-math.inf)
    changed_s: PilotS = PilotS(-math.inf)
    missed_count: int = 0
    rest_until_s: PilotS = PilotS(-math.inf)

    @property
    def needs(self) -> NodeWait:
        """The job, with the nodes that it may take."""
        return replace(self.job, nodes=self.job.nodes - self.refused) if self.refused else self.job


@dataclass(frozen=True, slots=True)
class LateHolder:
    """A holder that was not released in time, seen to be late at ``first_s`` and at ``last_s``."""

    user: str
    job: str
    node: str
    first_s: PilotS
    last_s: PilotS


@dataclass(frozen=True, slots=True)
class YieldMemory:
    """What a decision remembers for the next look.

    ``released``: (job, node, when) of own holders. ``unresponsive``: holders that were not released
    in time. All holders of their users count as main jobs. ``responsive``: users who have released
    nodes for a job.
    ``leaving``: nodes that were to become idle for a job, and since when. ``canceled_s``: when jobs
    went away for which nodes had been released. ``rest_until_s``: until then nothing is requested.
    ``blocks``: whether nothing may be requested. ``reserved``: idle nodes that are not requested.
    ``holders``: (node, job, when it was seen last) of the latest holders of each node, at most
    :data:`RENEWED` of a node; none while no offer is void. ``idle_since``: (node, the scheduler's
    time of the first look of a row in which it was idle). ``busy``: nodes of main jobs.
    ``server_s``: the scheduler's time of the look.
    """

    look_s: PilotS = PilotS(-math.inf)
    offers: tuple[Offer, ...] = ()
    released: tuple[tuple[str, str, PilotS], ...] = ()
    unresponsive: tuple[LateHolder, ...] = ()
    responsive: frozenset[str] = frozenset()
    leaving: tuple[tuple[str, PilotS], ...] = ()
    canceled_s: tuple[PilotS, ...] = ()
    rest_until_s: PilotS = PilotS(-math.inf)
    blocks: bool = False
    reserved: frozenset[str] = frozenset()
    holders: tuple[tuple[str, str, PilotS], ...] = ()
    idle_since: tuple[tuple[str, float], ...] = ()
    busy: frozenset[str] = frozenset()
    server_s: float | None = None


@dataclass(frozen=True, slots=True)
class YieldRelease:
    """Own fragments that leave together for a job."""

    job: str
    names: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class JobServed:
    """A job for which own nodes were released is no longer pending.

    ``delay_s``: at most this time after it was blocked by held nodes it has started; None if it did
    not start. ``words``: the line in the log of events.
    """

    job: str
    delay_s: float | None
    words: str


@dataclass(frozen=True, slots=True)
class YieldDecision:
    """What to release, and for which jobs. ``served``: jobs that are no longer pending, for which
    nodes were released. ``hasten``: fragments that are leaving already, and that a job waits for
    now.
    """

    memory: YieldMemory
    releases: tuple[YieldRelease, ...] = ()
    hasten: frozenset[str] = frozenset()
    served: tuple[JobServed, ...] = ()


def next_yield(
    queue: WaitingQueue,
    own: Sequence[HeldFragment],
    costs: Mapping[str, float],
    memory: YieldMemory,
    rules: YieldRules,
) -> YieldDecision:
    """Decide which nodes to release after a look at the queue. The same look counts once.

    ``own`` are all fragments of this pilot; ``costs`` what trainers lose by leaving one, by name.
    """
    if queue.at_s <= memory.look_s:
        return YieldDecision(memory)
    if _has_stepped(queue, memory):
        memory = _without_server_times(memory)
    pool = _Pool.of(queue, own, costs, memory, rules)
    offers: list[Offer] = []
    releases: list[YieldRelease] = []
    earlier = {offer.job.job: offer for offer in memory.offers}
    waiting = frozenset(job.job for job in queue.jobs)
    changes = QueueChanges.of(memory, queue)
    blocks = False
    for job in sorted(queue.jobs, key=lambda job: (-job.priority, _number(job.job), job.job)):
        offer = _judged(_offer_of(job, earlier.get(job.job), queue, changes), queue, pool)
        if offer.void is None and pool.fits(offer.needs):
            blocks = True
            offer, names = pool.serve(offer, queue)
            if names:
                releases.append(YieldRelease(job.job, names, reason_of(job)))
        elif offer.void is None:
            offer = pool.watch(_missed(offer, queue), queue)
        offers.append(offer)
    if blocks and pool.pending:
        names = tuple(sorted(pool.pending))
        releases.append(YieldRelease("", names, "a main job waits for nodes"))
    served = tuple(
        _served(offer, queue)
        for offer in memory.offers
        if offer.released and offer.job.job not in waiting
    )
    canceled_s, rest_until_s = _rest(memory, served, queue.at_s)
    has_void = any(offer.void is not None for offer in offers)
    holders = _latest_holders(memory.holders, queue) if has_void else ()
    memory = YieldMemory(
        queue.at_s,
        tuple(offers),
        pool.released_after(releases),
        pool.unresponsive,
        pool.responsive,
        tuple(sorted(pool.awaited_since.items())),
        canceled_s,
        rest_until_s,
        blocks or queue.at_s < rest_until_s,
        _reserved(offers, queue, holders),
        holders,
        tuple(sorted(pool.idle_since.items())),
        queue.busy,
        queue.server_s,
    )
    return YieldDecision(memory, tuple(releases), frozenset(pool.hastened), served)


def _has_stepped(queue: WaitingQueue, memory: YieldMemory) -> bool:
    """Whether the scheduler's clock has been set since the look before."""
    if memory.server_s is None:
        return False
    passed_s = queue.at_s - memory.look_s
    return abs(queue.server_s - memory.server_s - passed_s) > STEPPED_S


def _without_server_times(memory: YieldMemory) -> YieldMemory:
    """Return a memory by which all nodes are idle since the next look."""
    offers = []
    for offer in memory.offers:
        void = None if offer.void is None else replace(offer.void, enough_s=None)
        offers.append(replace(offer, looks=0, enough_s=None, void=void))
    return replace(memory, offers=tuple(offers), idle_since=())


def _latest_holders(
    earlier: Iterable[tuple[str, str, PilotS]], queue: WaitingQueue
) -> tuple[tuple[str, str, PilotS], ...]:
    """Return the latest holders of each node after this look, :data:`RENEWED` of a node at most:
    (node, job, when it was seen last). Kept once for all offers, which may be thousands.
    """
    seen_s = {(node, job): at_s for node, job, at_s in earlier}
    seen_s |= {(holder.node, holder.job): queue.at_s for holder in queue.holders}
    latest: list[tuple[str, str, PilotS]] = []
    counts: Counter[str] = Counter()
    for (node, job), at_s in sorted(seen_s.items(), key=lambda item: (-item[1], item[0])):
        counts[node] += 1
        if counts[node] <= RENEWED:
            latest.append((node, job, at_s))
    return tuple(latest)


def _reserved(
    offers: Iterable[Offer],
    queue: WaitingQueue,
    holders: Iterable[tuple[str, str, PilotS]],
) -> frozenset[str]:
    """Return the idle nodes that are left to jobs, as many as each needs: to those whose offer was
    missed (:func:`_missed`), and to those whose offer is void, nodes whose ``holders`` have been
    renewed meanwhile.

    So a pilot that is wrong about a job, or whose releases fail, does not keep it waiting for ever.
    """
    counts: Counter[str] = Counter()
    renewed_s: dict[str, PilotS] = {}
    for node, _, at_s in holders:  # the latest ones first
        counts[node] += 1
        if counts[node] == RENEWED and node in queue.idle:
            renewed_s[node] = at_s
    reserved: set[str] = set()
    for offer in offers:
        if queue.at_s < offer.rest_until_s:
            reserved.update(sorted(queue.idle & offer.job.nodes)[: offer.job.size])
        void = offer.void if renewed_s else None
        if void is not None and queue.at_s - void.at_s >= RENEWAL_S:
            usable = sorted(renewed_s.keys() & offer.job.nodes)
            nodes = [node for node in usable if renewed_s[node] >= void.at_s]
            reserved.update(nodes[: offer.job.size])
    return frozenset(reserved)


def _rest(
    memory: YieldMemory, served: Iterable[JobServed], at_s: PilotS
) -> tuple[tuple[PilotS, ...], PilotS]:
    """Return when jobs were canceled lately, and until when the nodes that were released for the
    last one rest.

    A user could otherwise move all trainers at each look, by jobs that never start. Main jobs start
    on resting nodes.
    """
    new = [at_s for job in served if job.delay_s is None]
    canceled_s = (*(at for at in memory.canceled_s if at_s - at < CANCELED_S), *new)
    if not new:
        return canceled_s, memory.rest_until_s
    rest_s = min(FIRST_REST_S * 2 ** min(len(canceled_s) - 1, 10), LONGEST_REST_S)
    return canceled_s, PilotS(at_s + rest_s)


def reason_of(job: NodeWait) -> str:
    """Return why a fragment is released for a job, for the log of events."""
    why = f" ({job.reason})" if job.reason not in ("", "None") else ""
    return f"job {job.job} waits for {counted(job.size, 'node')}{why}"


def _number(job: str) -> int:
    return int(job) if job.isdecimal() else 0


def _offer_of(
    job: NodeWait, earlier: Offer | None, queue: WaitingQueue, changes: QueueChanges
) -> Offer:
    """Return the offer of a job as of this look: the earlier one, or a new one. The offer of a job
    that needs other nodes now starts from the beginning: after more than one void one, only when
    it has rested, or a user could move trainers at each look.
    """
    if earlier is None:
        submitted_s = queue.before_s
        if job.submitted_s is not None:
            age_s = queue.server_s + CLOCK_STEP_S - job.submitted_s
            submitted_s = PilotS(queue.at_s - age_s)
        blocked_s = PilotS(min(max(submitted_s, queue.before_s), queue.at_s))
        return Offer(job, queue.at_s, blocked_s)
    changed_s = queue.at_s if changes.concern(earlier.job, job) else earlier.changed_s
    offer = replace(earlier, job=job, changed_s=changed_s)
    if _is_same_need(job, earlier.job):
        return offer
    void = None
    if offer.void is not None and offer.void_count > 1:
        void = replace(offer.void, enough_s=None, is_outdated=True)
    return _from_beginning(replace(offer, void=void))


def _is_same_need(job: NodeWait, was: NodeWait) -> bool:
    """Whether a job needs what it needed: fewer tasks of an array need the same nodes each."""
    if (job.nodes, job.required) != (was.nodes, was.required):
        return False
    if job.size < was.size and was.task_size:
        return (job.task_size or job.size) == was.task_size
    return job.size == was.size


def _judged(offer: Offer, queue: WaitingQueue, pool: _Pool) -> Offer:
    """Return the offer after this look: one that no backfill cycle took has become void, and a void
    one is made again when something has changed.
    """
    if offer.void is not None:
        if _is_repeated(offer, offer.void, queue, pool.rules):
            return _repeated(offer, pool)
        return replace(offer, void=_watched(offer, offer.void, queue, pool))
    if offer.refused and not pool.fits(offer.needs):
        return _void(offer, queue, offer.refused_s)
    enough_s = offer.enough_s
    if enough_s is None:
        return offer
    if not pool.has_idle(offer.needs, enough_s):
        return replace(offer, looks=0, enough_s=None)
    if offer.looks < LOOKS or not _has_cycle(queue, enough_s):
        return offer
    cycle_s = _cycle_start_s(queue, enough_s)
    if not offer.refused:
        refused = pool.refused(offer, enough_s)
        others = replace(offer, refused=refused, refused_s=cycle_s, looks=0, enough_s=None)
        if others.refused and pool.fits(others.needs):
            return others
    return _void(offer, queue, cycle_s)


def _void(offer: Offer, queue: WaitingQueue, cycle_s: PilotS) -> Offer:
    """Return an offer that is void now: the cycle that began at ``cycle_s`` did not take it."""
    count = offer.void_count + 1
    rest_s = min(FIRST_REST_S * 2 ** min(count - 1, 10), LONGEST_REST_S)
    return replace(offer, void=VoidOffer(queue.at_s, rest_s, cycle_s, queue.at_s), void_count=count)


def _repeated(offer: Offer, pool: _Pool) -> Offer:
    """Return a void offer that is made again, from the beginning. A job that is in no plan gets
    nodes that it has not refused before, if there are enough: one move instead of two.
    """
    is_direct = not offer.job.is_planned and pool.fits(offer.needs)
    return _from_beginning(replace(offer, void=None), offer.refused if is_direct else frozenset())


def _missed(offer: Offer, queue: WaitingQueue) -> Offer:
    """Return the offer of a job that does not fit any more. If nodes were released for it, others
    have taken some of them: the rest is left idle for a while, longer each time. Trainers would
    otherwise move whenever a short job ends or starts on the last node that the job needs.
    """
    if offer.released == offer.released_before:
        return offer
    rest_s = min(FIRST_REST_S * 2 ** min(offer.missed_count, 10), LONGEST_REST_S)
    return replace(
        offer,
        released_before=offer.released,
        missed_count=offer.missed_count + 1,
        rest_until_s=PilotS(queue.at_s + rest_s),
    )


def _from_beginning(offer: Offer, refused: frozenset[str] = frozenset()) -> Offer:
    """Return an offer without what earlier looks say about its nodes, but those ``refused``."""
    return replace(
        offer,
        looks=0,
        enough_s=None,
        spare=frozenset(),
        refused=refused,
        released_before=offer.released,
    )


def _has_cycle(queue: WaitingQueue, since_s: float) -> bool:
    """Whether a complete backfill cycle has begun after a time of the scheduler's."""
    return _has_shown_cycle(queue, since_s) or queue.server_s - since_s > CYCLE_S


def _has_shown_cycle(queue: WaitingQueue, since_s: float) -> bool:
    """Whether the scheduler shows such a cycle. One that begins after the look is from before the
    scheduler's clock was set back.
    """
    planned_s = queue.planned_s
    if planned_s is None or planned_s > queue.server_s + CLOCK_STEP_S:
        return False
    return planned_s > since_s + CLOCK_STEP_S


def _cycle_start_s(queue: WaitingQueue, enough_s: float) -> PilotS:
    """Return the pilot's time since which changes may not have been in the plan of the cycle that
    did not take an offer: its beginning, or where no cycle is shown, when enough nodes were idle.
    """
    planned_s = queue.planned_s
    is_shown = planned_s is not None and _has_shown_cycle(queue, enough_s)
    begun_s = planned_s if planned_s is not None and is_shown else enough_s
    return PilotS(queue.at_s - max(queue.server_s - begun_s, 0.0))


def _watched(offer: Offer, void: VoidOffer, queue: WaitingQueue, pool: _Pool) -> VoidOffer:
    """Return a void offer after one more look: if enough nodes have been idle for a complete
    backfill cycle, it is void as of now.
    """
    if not pool.has_idle(offer.job):
        return replace(void, enough_s=None)
    if void.enough_s is None or not pool.has_idle(offer.job, void.enough_s):
        return replace(void, enough_s=queue.server_s)
    if not _has_cycle(queue, void.enough_s):
        return void
    return replace(void, at_s=queue.at_s, enough_s=None)


def _is_repeated(offer: Offer, void: VoidOffer, queue: WaitingQueue, rules: YieldRules) -> bool:
    """Whether a void offer is made again: the plan may have changed since, or the longest wait has
    passed. Only the latter counts for a job that is in no plan (:data:`UNPLANNED_VOIDS`).
    """
    offered_s = queue.at_s - void.offered_s
    if offered_s >= rules.worst_wait_s:
        return True
    has_rested = queue.at_s - void.at_s >= void.rest_s or offered_s >= UNJUDGED_S
    if void.is_outdated:
        return has_rested
    if not offer.job.is_planned and offer.void_count >= UNPLANNED_VOIDS:
        return False
    return has_rested and offer.changed_s > void.since_s


def _served(offer: Offer, queue: WaitingQueue) -> JobServed:
    """Return what became of a job that is no longer pending. Schedulers show the seconds of starts,
    looks are finer.
    """
    job, started_s = offer.job, dict(queue.starts).get(offer.job.job)
    why = f", {job.reason}" if job.reason not in ("", "None") else ""
    offered_s = offer.released_s if offer.released_s is not None else offer.seen_s
    words = (
        f"{counted(job.size, 'node')}{why}: {counted(offer.released, 'node')} released "
        f"{offered_s - offer.seen_s:.1f} s after the job was seen"
    )
    if started_s is None:
        return JobServed(job.job, None, f"{words}; it is no longer pending")
    latest_s = queue.at_s - offer.blocked_s
    whole_s = queue.at_s + started_s + CLOCK_STEP_S - queue.server_s - offer.blocked_s
    delay_s = max(min(whole_s, latest_s), 0.0)
    return JobServed(job.job, delay_s, f"{words}; it started at most {delay_s:.1f} s late")


@dataclass(slots=True)
class _Pool:
    """The nodes that are left for the jobs further down the queue.

    ``idle_since``: since when each idle node is idle, by the scheduler's clock, for whomever it is.
    ``leaving`` will be idle soon, some of them as soon as the trainers of ``given_back`` fragments
    have left; jobs wait for those in ``awaited_since``. ``own`` and ``others`` are holders by node;
    ``pending`` are own fragments that are not ready; ``starting`` ones have their nodes already.
    ``ended_jobs``: holder jobs that end with all their nodes, for a job that came before.
    ``renewing``: pending fragments by node that may stay, unless a job takes the node.
    """

    rules: YieldRules
    at_s: PilotS
    idle: set[str]
    leaving: set[str]
    own: dict[str, HeldFragment]
    others: dict[str, ListedHolder]
    costs: Mapping[str, float]
    idle_since: Mapping[str, float]
    given_back: Mapping[str, str] = field(default_factory=dict)
    hastened: set[str] = field(default_factory=set)
    starting: frozenset[str] = frozenset()
    pending: set[str] = field(default_factory=set)
    renewing: Mapping[str, str] = field(default_factory=dict)
    released: dict[tuple[str, str], PilotS] = field(default_factory=dict)
    unresponsive: tuple[LateHolder, ...] = ()
    responsive: frozenset[str] = frozenset()
    awaited_since: dict[str, PilotS] = field(default_factory=dict)
    ended_jobs: set[str] = field(default_factory=set)
    _idle_sets: dict[float, frozenset[str]] = field(default_factory=dict)
    _spare_sets: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    _refused_sets: dict[tuple[frozenset[str], float], frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        queue: WaitingQueue,
        own: Sequence[HeldFragment],
        costs: Mapping[str, float],
        memory: YieldMemory,
        rules: YieldRules,
    ) -> _Pool:
        """Return the nodes at this look, before any job has taken some. Own holders are those of
        the fragments, and those that were just released.
        """
        released = {
            (job, node): at_s
            for job, node, at_s in memory.released
            if queue.at_s - at_s < RELEASED_S
        }
        ready = {h.node: h for h in own if h.is_ready}
        listed = {(holder.job, holder.node) for holder in queue.holders}
        leaving = _leaving(queue, own, rules.own_pilot)
        leaving |= {node for job, node in released if (job, node) in listed}
        unresponsive, responsive = _judged_users(memory, queue, rules)
        distrusted = {late.user for late in unresponsive}
        others = _others(queue, own, distrusted)
        others = {node: holder for node, holder in others.items() if node not in leaving}
        limit_s = rules.notice_s + LEAVING_S
        awaited_since = {node: at_s for node, at_s in memory.leaving if node in leaving}
        hanging = {node for node, at_s in awaited_since.items() if queue.at_s - at_s >= limit_s}
        waiting = [h for h in own if h.ready_s is None and h.given_back_s is None]
        # A renewal starts in the same cycle as the main job, and leaves that one its nodes.
        renewing = {h.node: h.name for h in waiting if _is_new_renewal(h, queue.at_s, rules)}
        pending = [h for h in waiting if h.node not in renewing]
        idle = set(queue.idle - ready.keys() - others.keys() - leaving)
        since = dict(memory.idle_since)
        return cls(
            rules,
            queue.at_s,
            idle,
            leaving - ready.keys() - hanging,
            ready,
            others,
            costs,
            {node: since.get(node, queue.server_s) for node in idle},
            {h.node: h.name for h in own if h.given_back_s is not None and not h.is_released},
            starting=frozenset(h.node for h in waiting if (job_of(h.name), h.node) in listed),
            pending={h.name for h in pending},
            renewing=renewing,
            released=released,
            unresponsive=unresponsive,
            responsive=responsive,
            awaited_since=awaited_since,
        )

    def fits(self, job: NodeWait) -> bool:
        """Whether enough nodes are idle, leaving or held for a job, all that it requires among
        them.
        """
        return job.required <= self._usable() and self._size(job) > 0

    def has_idle(self, job: NodeWait, since_s: float = math.inf) -> bool:
        """Whether enough nodes are idle, so that the scheduler could start it now: of all idle
        nodes those that were idle at ``since_s`` already and are since then.
        """
        idle = self._idle_at(since_s)
        size = self._size(job) or job.task_size or job.size
        return job.required <= idle and len(idle & job.nodes) >= size

    def _idle_at(self, since_s: float) -> frozenset[str]:
        """Return the nodes that are idle since a time of the scheduler's at the latest."""
        if since_s not in self._idle_sets:
            idle = frozenset(node for node, idle_s in self.idle_since.items() if idle_s <= since_s)
            self._idle_sets[since_s] = idle
        return self._idle_sets[since_s]

    def _usable(self) -> set[str]:
        return self.idle | self.leaving | self.own.keys() | self.others.keys()

    def _size(self, job: NodeWait) -> int:
        """Return how many nodes a job could get: all that it needs, whole tasks of an array, or
        none.
        """
        usable = len(self._usable() & job.nodes)
        if usable >= job.size:
            return job.size
        return usable - usable % job.task_size if job.task_size else 0

    def watch(self, offer: Offer, queue: WaitingQueue) -> Offer:
        """Return the offer of a job that does not fit on the nodes that the jobs before it leave,
        after one more look: it is judged by the nodes that are idle for them.
        """
        is_enough = self.has_idle(offer.needs)
        if is_enough and not offer.looks:
            offer = replace(offer, spare=self._spare(offer))
        enough_s, looks = self._enough(offer, queue, is_enough=is_enough)
        none = frozenset[ListedHolder]()
        never_s = PilotS(math.inf)
        return replace(offer, looks=looks, enough_s=enough_s, awaited=none, awaited_s=never_s)

    def _spare(self, offer: Offer) -> frozenset[str]:
        """Return the nodes that are idle before a job is judged by idle nodes, unless any was
        released for it already.
        """
        if offer.released > offer.released_before or offer.refused:
            return offer.spare
        nodes = offer.job.nodes
        if nodes not in self._spare_sets:  # one set for all jobs, which may be thousands
            self._spare_sets[nodes] = self._idle_at(math.inf) & nodes
        return self._spare_sets[nodes]

    def refused(self, offer: Offer, since_s: float) -> frozenset[str]:
        """Return the nodes that a job may not have taken because it cannot use them: nodes that
        were idle before any was released, and since ``since_s``. None, if released ones would have
        been enough for it.
        """
        idle, job = self._idle_at(since_s), offer.job
        size = self._size(job) or job.task_size or job.size
        if job.required <= idle and len(idle & (job.nodes - offer.spare)) >= size:
            return frozenset()
        if (offer.spare, since_s) not in self._refused_sets:  # one set for all jobs
            self._refused_sets[offer.spare, since_s] = offer.spare & idle
        refused = self._refused_sets[offer.spare, since_s]
        return refused - job.required if job.required else refused

    def serve(self, offer: Offer, queue: WaitingQueue) -> tuple[Offer, tuple[str, ...]]:
        """Take the nodes for a job that fits out of the pool. Returns its offer after that, and the
        own fragments to release.
        """
        job = offer.needs
        if not offer.looks:
            offer = replace(offer, spare=self._spare(offer))
        is_enough, size = self.has_idle(job), self._size(job)
        leaving, idle = frozenset(self.leaving), frozenset(self.idle)
        starting = set(self.starting & self.leaving)
        required = self._required(job)
        count = max(size - len(job.required), 0)
        for nodes in (self.idle, self.leaving):
            taken = sorted(nodes & (job.nodes - job.required))[:count]
            nodes.difference_update(taken)
            self.hastened.update(self.given_back[node] for node in taken if node in self.given_back)
            count -= len(taken)
        chosen = (*required, *self._chosen(job, count))
        starting -= self.leaving  # their holders are canceled
        taken_fragments = [self.own.pop(node) for node in chosen if node in self.own]
        self.ended_jobs |= {
            job_of(held.name) for held in taken_fragments if not held.fragment.is_separable
        }
        own = tuple(sorted(h.name for h in taken_fragments))
        others = frozenset(self.others.pop(node) for node in chosen if node in self.others)
        for node in leaving - self.leaving:
            self.awaited_since.setdefault(node, self.at_s)
        taken_nodes = (leaving | idle) - self.leaving - self.idle
        self.pending |= {self.renewing[node] for node in taken_nodes & self.renewing.keys()}
        self.released |= {(job_of(name), node_of(name)): self.at_s for name in own}
        released = len(own) + len(starting)
        return self._offered(offer, released, others, is_enough, queue), own

    def _required(self, job: NodeWait) -> list[str]:
        """Take the nodes that a job names out of the idle and leaving ones. Returns those that are
        held, and so have to be released.
        """
        held = sorted(job.required - self.idle - self.leaving)
        leaving = job.required & self.leaving & self.given_back.keys()
        self.hastened.update(self.given_back[node] for node in leaving)
        self.idle -= job.required
        self.leaving -= job.required
        return held

    def _chosen(self, job: NodeWait, count: int) -> list[str]:
        """Return the nodes to release for a job: the same ones in every pilot; if only this pilot
        has holders there, the cheapest.
        """
        others = [node for node in self.others if node in job.nodes]
        own = [node for node in self.own if node in job.nodes]
        if not others:
            return self._cheapest(own)[:count]
        holders = {node: self.others[node].job for node in others}
        holders |= {node: job_of(self.own[node].name) for node in own}
        order = sorted(holders, key=lambda node: (-_number(holders[node]), holders[node], node))
        return order[:count]

    def _cheapest(self, own: Sequence[str]) -> list[str]:
        """Order own nodes: first those of jobs that end anyway, then jobs of one node; of these,
        nodes without a trainer, then those of the trainer that loses least, the latest ones first.
        Nodes of a job follow each other. A node that its job gives back alone counts as one of a
        job of one node.
        """
        costs: dict[str, float] = {}
        for held in self.own.values():
            if held.name in self.costs:
                job = job_of(held.name)
                costs[job] = max(costs.get(job, 0.0), self.costs[held.name])

        def rank(node: str) -> tuple[bool, bool, bool, float, float, str, str]:
            held = self.own[node]
            job, is_alone = job_of(held.name), held.fragment.is_separable
            ends_others = is_one_of_several(held.name) and not is_alone
            cost = self.costs.get(held.name) if is_alone else costs.get(job)
            loss = 0.0 if cost is None else cost
            age_s = -held.asked_s
            goes_on = job not in self.ended_jobs
            return goes_on, ends_others, cost is not None, loss, age_s, job, held.name

        return sorted(own, key=rank)

    @staticmethod
    def _enough(offer: Offer, queue: WaitingQueue, *, is_enough: bool) -> tuple[float | None, int]:
        """Return since when enough nodes are idle for a job, and at how many looks."""
        if not is_enough:
            return None, 0
        since_s = queue.server_s if offer.enough_s is None else offer.enough_s
        return since_s, offer.looks + 1

    def _offered(
        self,
        offer: Offer,
        released: int,
        others: frozenset[ListedHolder],
        is_enough: bool,
        queue: WaitingQueue,
    ) -> Offer:
        """Return an offer after this look: ``released`` own nodes more, ``others`` awaited from
        other pilots, and whether enough nodes were idle.
        """
        enough_s, looks = self._enough(offer, queue, is_enough=is_enough)
        released_s = offer.released_s
        if released and released_s is None:
            released_s = queue.at_s
        is_awaited = set(map(_user_of, others)) <= set(map(_user_of, offer.awaited))
        awaited_s = offer.awaited_s if is_awaited and others else queue.at_s
        return replace(
            offer,
            released=offer.released + released,
            released_s=released_s,
            looks=looks,
            enough_s=enough_s,
            awaited=others,
            awaited_s=awaited_s if others else PilotS(math.inf),
        )

    def released_after(
        self, releases: Iterable[YieldRelease]
    ) -> tuple[tuple[str, str, PilotS], ...]:
        """Return (job, node, when) of own holders that have been released lately, or are now."""
        released = dict(self.released)
        for release in releases:
            released |= {(job_of(name), node_of(name)): self.at_s for name in release.names}
        return tuple((job, node, at_s) for (job, node), at_s in sorted(released.items()))


def _is_new_renewal(held: HeldFragment, at_s: PilotS, rules: YieldRules) -> bool:
    """Return whether a pending holder was requested less than a look ago for a node that another
    one of this pilot is leaving.
    """
    return held.is_renewal and at_s - held.asked_s < rules.poll_s


def _leaving(queue: WaitingQueue, own: Sequence[HeldFragment], own_pilot: str) -> set[str]:
    """Return the nodes that will be idle soon: their holders are ending, were told to, or are
    canceled for any main job that fits. Own holders that this pilot does not know were released
    after the look.
    """
    own_jobs = {job_of(h.name) for h in own}
    ready = {h.node for h in own if h.is_ready}
    return {
        holder.node
        for holder in queue.holders
        if holder.is_leaving
        or (holder.job in own_jobs and holder.node not in ready)
        or (holder.pilot == own_pilot and holder.job not in own_jobs)
    }


def _others(
    queue: WaitingQueue, own: Sequence[HeldFragment], distrusted: set[str]
) -> dict[str, ListedHolder]:
    """Return the holders of other pilots, by node, without those of users who do not release nodes
    (``distrusted``).
    """
    own_jobs = {job_of(h.name) for h in own}
    return {
        holder.node: holder
        for holder in queue.holders
        if holder.job not in own_jobs and _user_of(holder) not in distrusted
    }


def _user_of(holder: ListedHolder) -> str:
    """The user of a pilot: any number of pilots may be a user's, or be claimed by one."""
    return holder.pilot.partition("/")[0]


def _judged_users(
    memory: YieldMemory, queue: WaitingQueue, rules: YieldRules
) -> tuple[tuple[LateHolder, ...], frozenset[str]]:
    """Return the holders that should have left by now, and the users who have released nodes.

    A node counts as released when no holder of its user runs there: the clock of a user goes on
    while other holders take the place of the first.
    """
    user_on = {holder.node: _user_of(holder) for holder in queue.holders if not holder.is_leaving}
    running = {holder.job for holder in queue.holders if not holder.is_leaving}
    trusted = memory.responsive | {rules.own_pilot.partition("/")[0]}
    responsive = set(memory.responsive)
    late: dict[tuple[str, str], LateHolder] = {}
    for before in memory.unresponsive:
        is_released = user_on.get(before.node) != before.user
        if is_released and queue.at_s - before.first_s <= rules.notice_s + rules.poll_s:
            responsive.add(before.user)
        elif before.job in running or queue.at_s - before.last_s < DISTRUST_S:
            late[before.user, before.job] = before
    for offer in memory.offers:
        age_s = queue.at_s - offer.awaited_s
        for holder in sorted(offer.awaited, key=lambda holder: (holder.job, holder.node)):
            user = _user_of(holder)
            if user_on.get(holder.node) != user:
                responsive.add(user)
            elif age_s >= _patience_s(user in trusted, rules):
                first = late.get((user, holder.job))
                first_s = queue.at_s if first is None else first.first_s
                entry = LateHolder(user, holder.job, holder.node, first_s, queue.at_s)
                late[user, holder.job] = entry
    unresponsive = tuple(late[key] for key in sorted(late))
    return unresponsive, frozenset(responsive - {entry.user for entry in unresponsive})


def _patience_s(is_responsive: bool, rules: YieldRules) -> float:
    """Return for how long a user's holders are waited for after they should have been released."""
    if is_responsive:
        return rules.notice_s + 2.0 * rules.poll_s
    return rules.poll_s + STRANGER_S
