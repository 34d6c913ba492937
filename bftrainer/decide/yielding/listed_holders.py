"""The rule where the scheduler lists the holders of several pilots.

All pilots see the same queue and order the holders of all pilots alike, youngest first. The first
ones are released, each by its own pilot, so no node is released twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from bftrainer.decide.yielding.facts import (
    HolderStage,
    ListedHolder,
    OwnHolder,
    WaitingQueue,
    YieldRules,
)
from bftrainer.decide.yielding.memory import YieldMemory
from bftrainer.decide.yielding.node_sets import union_of
from bftrainer.decide.yielding.pool import OtherHolders, user_of
from bftrainer.decide.yielding.rule import YieldDecision, YieldRelease, decide_offers
from bftrainer.decide.yielding.user_trust import UserTrust
from bftrainer.fragment_names import job_of, node_of
from bftrainer.times import PilotS

RELEASED_S = 60.0
"""A released holder may still be listed as running for so long."""


@dataclass(frozen=True, slots=True)
class ListMemory:
    """What is remembered of the list of holders for the next look.

    ``released``: (job, node, when) of own holders.
    """

    offers: YieldMemory = field(default_factory=YieldMemory)
    trust: UserTrust = field(default_factory=UserTrust)
    released: tuple[tuple[str, str, PilotS], ...] = ()


@dataclass(frozen=True, slots=True)
class ListDecision:
    """A decision, and what to remember for the next look."""

    made: YieldDecision
    memory: ListMemory


def next_yield(
    queue: WaitingQueue, own: Sequence[OwnHolder], memory: ListMemory, rules: YieldRules
) -> ListDecision:
    """Decide which nodes to release after a look at the queue. The same look counts once.

    ``own`` are all holders of this pilot, each on one node.
    """
    if queue.at_s <= memory.offers.look_s:
        return ListDecision(YieldDecision(memory.offers), memory)
    released = _recently_released(memory, queue.at_s)
    trust = memory.trust.after_look(memory.offers.offers, queue, rules)
    held = _held_nodes(queue, own, released, trust.distrusted, rules.own_pilot)
    made = decide_offers(queue, own, held, memory.offers, rules)
    released |= _released_now(made.releases, queue.at_s)
    latest = tuple((job, node, at_s) for (job, node), at_s in sorted(released.items()))
    return ListDecision(made, ListMemory(made.memory, trust, latest))


def _recently_released(memory: ListMemory, at_s: PilotS) -> dict[tuple[str, str], PilotS]:
    """Return when own holders were released that may still be listed, by (job, node)."""
    return {
        (job, node): then_s for job, node, then_s in memory.released if at_s - then_s < RELEASED_S
    }


def _released_now(releases: Iterable[YieldRelease], at_s: PilotS) -> dict[tuple[str, str], PilotS]:
    """Return the own holders that are released now, by (job, node)."""
    names = [name for release in releases for name in release.names]
    return {(job_of(name), node_of(name)): at_s for name in names}


def _held_nodes(
    queue: WaitingQueue,
    own: Sequence[OwnHolder],
    released: Collection[tuple[str, str]],
    distrusted: Collection[str],
    own_pilot: str,
) -> OtherHolders:
    """Return who holds nodes by the list of holders. Holders of other pilots are listed without
    those of users who do not release nodes (``distrusted``).

    Nodes will be idle soon whose holders are ending, were told to, or are canceled for any main job
    that fits. Own holders that this pilot does not know were released after the look.
    """
    own_jobs = {h.job for h in own}
    ready = union_of(h.nodes for h in own if h.stage is HolderStage.READY)
    ready_nodes = frozenset(ready)
    leaving = frozenset(
        holder.node
        for holder in queue.holders
        if holder.is_leaving
        or (holder.job, holder.node) in released
        or (holder.job in own_jobs and holder.node not in ready_nodes)
        or (holder.pilot == own_pilot and holder.job not in own_jobs)
    )
    others: dict[str, ListedHolder] = {
        holder.node: holder
        for holder in queue.holders
        if holder.job not in own_jobs
        and holder.node not in leaving
        and user_of(holder) not in distrusted
    }
    on_node = {(holder.job, holder.node) for holder in queue.holders}
    pending = [h for h in own if h.stage is HolderStage.PENDING]
    starting = [node for h in pending for node in h.nodes if (h.job, node) in on_node]
    return OtherHolders(leaving, others, frozenset[str](starting))
