"""Decide which held nodes a pilot releases for main jobs that wait for nodes. Pure.

Where the scheduler does not end holders, or not at once, the pilot does. At each look at the queue
it walks through the waiting jobs by priority. A job that fits on idle and held nodes gets its nodes
from the idle ones first, then from those that are held. Nothing is requested until it has started.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bftrainer.counted import counted
from bftrainer.decide.yielding.facts import (
    CLOCK_STEP_S,
    NodeWait,
    OwnHolder,
    WaitingQueue,
    YieldRules,
    number_of,
)
from bftrainer.decide.yielding.judging import judged
from bftrainer.decide.yielding.late_lists import LateList
from bftrainer.decide.yielding.memory import YieldMemory
from bftrainer.decide.yielding.offers import Offer, missed, offer_of
from bftrainer.decide.yielding.pool import NodePool, OtherHolders
from bftrainer.decide.yielding.queue_changes import QueueChanges
from bftrainer.decide.yielding.reserves import reserved_nodes, rest_after
from bftrainer.decide.yielding.times_by_node import TimesByNode

STEPPED_S = 60.0
"""The scheduler's clock has been set if it differs by more from the pilot's than a look before."""


@dataclass(frozen=True, slots=True)
class YieldRelease:
    """Own holders that leave together for a job, each with the nodes that it gives to it; none for
    holders that are pending, which are canceled.
    """

    job: str
    names: tuple[str, ...]
    reason: str
    holders: tuple[OwnHolder, ...] = ()


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


def decide_offers(
    queue: WaitingQueue,
    own: Sequence[OwnHolder],
    held: OtherHolders,
    memory: YieldMemory,
    rules: YieldRules,
) -> YieldDecision:
    """Decide which nodes to release after a look at the queue.

    ``own`` are all holders of this pilot, ``held`` tells of the others.
    """
    if _has_stepped(queue, memory):
        memory = _without_server_times(memory)
    pool = NodePool.of(queue, own, held, memory.idle_since, memory.awaited_since, rules)
    offers, releases = _walk(queue, pool, memory)
    blocks = any(is_offered for _, is_offered in offers)
    if blocks and pool.pending:
        names = tuple(sorted(pool.pending))
        releases.append(YieldRelease("", names, "a main job waits for nodes"))
    waiting = frozenset(job.job for job in queue.jobs)
    starts = dict(queue.starts)
    served = tuple(
        _served(offer, queue, starts.get(offer.job.job))
        for offer in memory.offers
        if offer.released and offer.job.job not in waiting
    )
    canceled = sum(job.delay_s is None for job in served)
    canceled_s, rest_until_s = rest_after(memory, canceled, queue.at_s)
    all_offers = tuple(offer for offer, _ in offers)
    memory = YieldMemory(
        queue.at_s,
        all_offers,
        pool.awaited_since,
        canceled_s,
        rest_until_s,
        blocks or queue.at_s < rest_until_s,
        reserved_nodes(all_offers, queue),
        pool.idle_since,
        queue.busy,
        queue.server_s,
    )
    return YieldDecision(memory, tuple(releases), frozenset(pool.hastened), served)


def _walk(
    queue: WaitingQueue, pool: NodePool, memory: YieldMemory
) -> tuple[list[tuple[Offer, bool]], list[YieldRelease]]:
    """Walk through the waiting jobs by priority. Returns the offer of each, and whether it is
    offered nodes now, and what to release for them.
    """
    earlier = {offer.job.job: offer for offer in memory.offers}
    jobs_before = [offer.job for offer in memory.offers]
    changes = QueueChanges.between(jobs_before, memory.busy, queue)
    late_list = LateList.of(queue, memory)
    offers: list[tuple[Offer, bool]] = []
    releases: list[YieldRelease] = []
    for job in sorted(queue.jobs, key=_rank):
        if late_list.has_started(job, earlier.get(job.job)):
            offers.append((replace(earlier[job.job], job=job, may_have_started=True), True))
            continue
        offer = judged(offer_of(job, earlier.get(job.job), queue, changes), queue, pool)
        is_offered = offer.void is None and pool.fits(offer.needs)
        if is_offered:
            offer, holders = pool.serve(offer, queue)
            if holders:
                releases.append(_release_for(job, holders))
        elif offer.void is None:
            offer = pool.watch(missed(offer, queue), queue)
        if offer.may_have_started:
            offer = replace(offer, may_have_started=False)
        offers.append((offer, is_offered))
    return offers, releases


def _rank(job: NodeWait) -> tuple[float, int, str]:
    """Return the place of a job in the queue: by priority, then the earlier one first."""
    return -job.priority, number_of(job.job), job.job


def _release_for(job: NodeWait, holders: Iterable[OwnHolder]) -> YieldRelease:
    """Return the release of own holders for a job."""
    ordered = tuple(sorted(holders, key=lambda holder: holder.name))
    return YieldRelease(job.job, tuple(h.name for h in ordered), reason_of(job), ordered)


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
    return replace(memory, offers=tuple(offers), idle_since=TimesByNode())


def reason_of(job: NodeWait) -> str:
    """Return why a fragment is released for a job, for the log of events."""
    why = f" ({job.reason})" if job.reason not in ("", "None") else ""
    return f"job {job.job} waits for {counted(job.size, 'node')}{why}"


def _served(offer: Offer, queue: WaitingQueue, started_s: float | None) -> JobServed:
    """Return what became of a job that is no longer pending. Schedulers show the seconds of starts,
    looks are finer.
    """
    job = offer.job
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
