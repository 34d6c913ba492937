"""Idle nodes that are left to jobs although they are not offered, and rests after canceled jobs."""

from __future__ import annotations

from collections.abc import Iterable

from bftrainer.decide.yielding.facts import WaitingQueue
from bftrainer.decide.yielding.memory import YieldMemory
from bftrainer.decide.yielding.node_sets import NO_NODES, NodeSet, first_nodes
from bftrainer.decide.yielding.offers import FIRST_REST_S, LONGEST_REST_S, Offer
from bftrainer.times import PilotS

CANCELED_S = 300.0
"""A canceled job counts for so long (:func:`rest_after`)."""


def reserved_nodes(offers: Iterable[Offer], queue: WaitingQueue) -> NodeSet:
    """Return the idle nodes that are left to jobs whose offer was missed (:func:`.offers.missed`),
    as many as each needs.
    """
    reserved = NO_NODES
    for offer in offers:
        if queue.at_s < offer.rest_until_s:
            job = offer.job
            reserved = reserved | first_nodes(queue.idle & job.nodes, job.size)
    return reserved


def rest_after(
    memory: YieldMemory, canceled: int, at_s: PilotS
) -> tuple[tuple[PilotS, ...], PilotS]:
    """Return when jobs were canceled lately, ``canceled`` more of them now, and until when the
    nodes that were released for the last one rest.

    A user could otherwise move all trainers at each look, by jobs that never start. Main jobs start
    on resting nodes.
    """
    recent = tuple(at for at in memory.canceled_s if at_s - at < CANCELED_S)
    canceled_s = (*recent, *[at_s] * canceled)
    if not canceled:
        return canceled_s, memory.rest_until_s
    rest_s = min(FIRST_REST_S * 2 ** min(len(canceled_s) - 1, 10), LONGEST_REST_S)
    return canceled_s, PilotS(at_s + rest_s)
