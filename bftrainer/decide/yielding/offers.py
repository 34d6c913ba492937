"""Nodes that are offered to a waiting job. The pilot cannot know why a job is pending: it may wait
for a reservation of a larger job, a feature or a license. So nodes are *offered*, and an offer that
a complete backfill cycle did not take is *void* (:mod:`.judging`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bftrainer.decide.yielding.facts import CLOCK_STEP_S, ListedHolder, NodeWait, WaitingQueue
from bftrainer.decide.yielding.node_sets import NO_NODES, NodeSet
from bftrainer.decide.yielding.queue_changes import QueueChanges, is_same_need
from bftrainer.times import PilotS

FIRST_REST_S, LONGEST_REST_S = 5.0, 60.0
"""After a void offer, the job's next one comes at the earliest after this time, doubled by each
further void offer: a job that waits for something else costs trainers a bounded number of moves.
Nodes that were released for a job that was canceled rest as well, doubled by each such job.
"""


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
    ``alike_since_s``: since when it gets no held nodes only because it did not take idle ones of
    the same kind. ``may_have_started``: at this look, for once, its nodes are busy already
    (:mod:`.late_lists`).
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
    spare: NodeSet = NO_NODES
    refused: NodeSet = NO_NODES
    refused_s: PilotS = PilotS(-math.inf)
    changed_s: PilotS = PilotS(-math.inf)
    missed_count: int = 0
    rest_until_s: PilotS = PilotS(-math.inf)
    may_have_started: bool = False
    alike_since_s: PilotS = PilotS(math.inf)

    @property
    def needs(self) -> NodeWait:
        """The job, with the nodes that it may take."""
        return replace(self.job, nodes=self.job.nodes - self.refused) if self.refused else self.job

    def after_look(self, queue: WaitingQueue, *, is_enough: bool) -> Offer:
        """Return the offer after one more look, at which enough nodes were idle for the job or
        not.
        """
        if not is_enough:
            is_same = self.enough_s is None and not self.looks
            return self if is_same else replace(self, enough_s=None, looks=0)
        since_s = queue.server_s if self.enough_s is None else self.enough_s
        return replace(self, enough_s=since_s, looks=self.looks + 1)


def offer_of(
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
    offer = earlier
    if changes.concern(earlier.job, job):
        offer = replace(offer, job=job, changed_s=queue.at_s)
    elif job is not earlier.job:
        offer = replace(offer, job=job)
    if is_same_need(job, earlier.job):
        return offer
    void = None
    if offer.void is not None and offer.void_count > 1:
        void = replace(offer.void, enough_s=None, is_outdated=True)
    return from_beginning(replace(offer, void=void))


def from_beginning(offer: Offer, refused: NodeSet = NO_NODES) -> Offer:
    """Return an offer without what earlier looks say about its nodes, but those ``refused``."""
    return replace(
        offer,
        looks=0,
        enough_s=None,
        spare=NO_NODES,
        refused=refused,
        released_before=offer.released,
    )


def missed(offer: Offer, queue: WaitingQueue) -> Offer:
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
