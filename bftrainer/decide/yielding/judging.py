"""When an offer is void, and when a void one is made again.

An offer that a complete backfill cycle did not take is void: the nodes may be held again until
something has changed. A cycle also judges jobs that fit on nodes which are idle for others.
"""

from __future__ import annotations

import math
from dataclasses import replace

from bftrainer.decide.yielding.backfill_cycles import cycle_start_s, has_cycle
from bftrainer.decide.yielding.facts import WaitingQueue, YieldRules
from bftrainer.decide.yielding.node_sets import NO_NODES
from bftrainer.decide.yielding.offers import (
    FIRST_REST_S,
    LONGEST_REST_S,
    Offer,
    VoidOffer,
    from_beginning,
)
from bftrainer.decide.yielding.pool import NodePool
from bftrainer.times import PilotS

LOOKS = 2
"""Looks with enough idle nodes before an offer may be void."""
UNPLANNED_VOIDS = 2
"""After so many void offers in a row, one of a job for which the scheduler plans no start is
repeated only after the longest wait: the plan counts with the ends of holders, so the job would be
in it if nodes were all that it lacks.
"""
OVERDUE_S = 1200.0
"""A void offer is made again after this time at the latest if the scheduler's plan has a start for
the job: the time limits of two holders, while jobs wait. So a pilot that is wrong about a job does
not keep it waiting for longer.
"""
UNJUDGED_S = 120.0
"""Idle nodes by which a job with a void offer is judged put its next offer off for so long at most:
they may be nodes that it cannot use.
"""


def judged(offer: Offer, queue: WaitingQueue, pool: NodePool) -> Offer:
    """Return the offer after this look: one that no backfill cycle took has become void, and a void
    one is made again when something has changed.
    """
    if offer.void is not None:
        if _is_repeated(offer, offer.void, queue, pool.rules):
            return _repeated(offer, pool)
        void = _watched(offer, offer.void, queue, pool)
        if void is offer.void:
            return offer
        is_judged = void.at_s == queue.at_s
        is_alike = not is_judged or _is_judged_by_alike(offer, offer.void, pool)
        alike_since_s = offer.alike_since_s if is_alike else PilotS(math.inf)
        return replace(offer, void=void, alike_since_s=alike_since_s)
    if offer.refused and not pool.fits(offer.needs):
        return _void(offer, queue, offer.refused_s)
    enough_s = offer.enough_s
    if enough_s is None:
        return offer
    if not pool.has_idle(offer.needs, enough_s):
        return replace(offer, looks=0, enough_s=None)
    if offer.looks < LOOKS or not has_cycle(queue, enough_s):
        return offer
    begun_s = cycle_start_s(queue, enough_s)
    if not offer.refused:
        refused = pool.refused(offer, enough_s)
        others = replace(offer, refused=refused, refused_s=begun_s, looks=0, enough_s=None)
        if others.refused and pool.fits(others.needs):
            return others
        is_alike = bool(refused)
        alike_since_s = min(offer.alike_since_s, queue.at_s) if is_alike else PilotS(math.inf)
        offer = replace(offer, alike_since_s=alike_since_s)
    return _void(offer, queue, begun_s)


def _is_judged_by_alike(offer: Offer, void: VoidOffer, pool: NodePool) -> bool:
    """Whether a job with a void offer was judged by nodes that were idle before any was released
    for it, and not by others.
    """
    return void.enough_s is not None and bool(pool.refused(offer, void.enough_s))


def _void(offer: Offer, queue: WaitingQueue, cycle_s: PilotS) -> Offer:
    """Return an offer that is void now: the cycle that began at ``cycle_s`` did not take it."""
    count = offer.void_count + 1
    rest_s = min(FIRST_REST_S * 2 ** min(count - 1, 10), LONGEST_REST_S)
    return replace(offer, void=VoidOffer(queue.at_s, rest_s, cycle_s, queue.at_s), void_count=count)


def _repeated(offer: Offer, pool: NodePool) -> Offer:
    """Return a void offer that is made again, from the beginning. A job that is in no plan gets
    nodes that it has not refused before, if there are enough: one move instead of two. So does one
    that has been judged only by nodes of the same kind for :data:`OVERDUE_S`: they may differ in
    something that the pilot does not see, such as their place in the network.
    """
    if pool.at_s - offer.alike_since_s >= OVERDUE_S:
        others = replace(offer, refused=offer.spare)
        if pool.fits(others.needs):
            offer = replace(offer, void=None, alike_since_s=PilotS(math.inf))
            return from_beginning(offer, others.refused)
    is_direct = not offer.job.is_planned and pool.fits(offer.needs)
    return from_beginning(replace(offer, void=None), offer.refused if is_direct else NO_NODES)


def _watched(offer: Offer, void: VoidOffer, queue: WaitingQueue, pool: NodePool) -> VoidOffer:
    """Return a void offer after one more look: if enough nodes have been idle for a complete
    backfill cycle, it is void as of now.
    """
    if not pool.has_idle(offer.job):
        return void if void.enough_s is None else replace(void, enough_s=None)
    if void.enough_s is None or not pool.has_idle(offer.job, void.enough_s):
        return replace(void, enough_s=queue.server_s)
    if not has_cycle(queue, void.enough_s):
        return void
    return replace(void, at_s=queue.at_s, enough_s=None)


def _is_repeated(offer: Offer, void: VoidOffer, queue: WaitingQueue, rules: YieldRules) -> bool:
    """Whether a void offer is made again: the plan may have changed since, or the longest wait has
    passed. Only the latter counts for a job that is in no plan (:data:`UNPLANNED_VOIDS`).
    """
    offered_s = queue.at_s - void.offered_s
    if offered_s >= _longest_wait_s(offer, rules):
        return True
    if not _waits_for_rest(offer, void):
        return False
    return queue.at_s - void.at_s >= void.rest_s or offered_s >= UNJUDGED_S


def _longest_wait_s(offer: Offer, rules: YieldRules) -> float:
    """Return how long after a void offer the next one comes even if nothing changes."""
    return min(OVERDUE_S, rules.worst_wait_s) if offer.job.is_planned else rules.worst_wait_s


def _waits_for_rest(offer: Offer, void: VoidOffer) -> bool:
    """Whether a void offer is made again as soon as it has rested."""
    if void.is_outdated:
        return True
    if not offer.job.is_planned and offer.void_count >= UNPLANNED_VOIDS:
        return False
    return offer.changed_s > void.since_s


def next_repeat_s(offer: Offer, rules: YieldRules) -> float:
    """Return when a void offer is made again if nothing changes from now on, by the pilot's
    clock.
    """
    void = offer.void
    assert void is not None
    at_s = void.offered_s + _longest_wait_s(offer, rules)
    if _waits_for_rest(offer, void):
        at_s = min(at_s, void.at_s + void.rest_s, void.offered_s + UNJUDGED_S)
    return at_s
