"""The facts of one split of the nodes, and the pilots that have too few nodes by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from bftrainer.sharing.division import mean_parts, parts_of
from bftrainer.sharing.share_memory import MAX_RECENT_ARRIVALS, RELEASE_PATIENCE_S, ShareMemory
from bftrainer.sharing.sharer import Key, Sharer

NEWCOMER_S = RELEASE_PATIENCE_S
"""A pilot is new for so long after it was first seen."""
SATISFIED_FRACTION = 0.9
"""A pilot that has this fraction of its part does not lack nodes."""


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """The facts of one split: this pilot's claim, those of its rivals, the idle nodes, the time.

    ``silent`` are rivals that show no demand: they keep what they hold.
    """

    own: Sharer
    rivals: tuple[Sharer, ...]
    idle: Collection[str]
    silent: frozenset[Key]
    now_s: float

    @property
    def claims(self) -> tuple[Sharer, ...]:
        return self.own, *self.rivals

    def parts(self, memory: ShareMemory, fixed: Collection[Key]) -> dict[Key, int]:
        """Return the part of each pilot, if those in ``fixed`` keep what they hold."""
        return parts_of(memory.capacity, self.claims, fixed, self.now_s, memory.deficit_node_s)


def has_too_few(claim: Sharer, parts: Mapping[Key, int]) -> bool:
    """Whether a pilot holds less than ``SATISFIED_FRACTION`` of its part, so that it lacks
    nodes.
    """
    return claim.holds < SATISFIED_FRACTION * parts[claim.key]


def lacking_nodes(facts: SplitFacts, memory: ShareMemory, parts: Mapping[Key, int]) -> list[Sharer]:
    """Return the other pilots that hold well below their part, without those of users who come and
    go.
    """
    return [
        claim
        for claim in facts.rivals
        if has_too_few(claim, parts) and not memory.is_restless(claim.user)
    ]


def with_deficits(memory: ShareMemory, facts: SplitFacts) -> ShareMemory:
    """Return the memory with how many nodes each user is below its mean part now (negative: above),
    and with when each other pilot was first seen.
    """
    wants: Counter[str] = Counter()
    holds: Counter[str] = Counter()
    for claim in facts.claims:
        wants[claim.user] += claim.demand
        holds[claim.user] += claim.holds
    weights = {claim.user: claim.weight for claim in facts.claims}
    means = mean_parts(memory.capacity, wants, weights)
    deficits = {user: mean - holds[user] for user, mean in means.items()}
    return replace(
        memory,
        first_seen_s={
            claim.key: memory.first_seen_s.get(claim.key, facts.now_s) for claim in facts.rivals
        },
        deficits=deficits,
        deficit_node_s=dict.fromkeys(deficits, 0.0) | dict(memory.deficit_node_s),
    )


def newcomers_of(facts: SplitFacts, memory: ShareMemory) -> frozenset[Key]:
    """Return the newcomers: pilots that were first seen lately or have no nodes, and those that
    were newcomers at the last split and have lacked nodes since.
    """
    recent = frozenset(
        key
        for key, first_seen_s in memory.first_seen_s.items()
        if facts.now_s - first_seen_s < NEWCOMER_S
    )
    without_nodes = frozenset(claim.key for claim in facts.claims if claim.holds == 0)
    continuing = memory.newcomers.intersection(claim.key for claim in facts.claims)
    return recent | without_nodes | continuing


def with_arrivals(
    memory: ShareMemory, facts: SplitFacts, parts: Mapping[Key, int], newcomers: Collection[Key]
) -> ShareMemory:
    """Return the memory with the recent arrivals of each user counted: how often it came back, new
    or without nodes, and lacked some.

    The count halves every ``ARRIVAL_HALF_LIFE_S``, and has an upper limit, so that it is forgotten
    in time.
    """
    present = frozenset(
        claim.user for claim in facts.rivals if claim.key in newcomers and has_too_few(claim, parts)
    )
    arrivals = dict(memory.recent_arrivals)
    for user in present - memory.present:
        arrivals[user] = min(arrivals.get(user, 0.0) + 1, 2 * MAX_RECENT_ARRIVALS)
    return replace(memory, recent_arrivals=arrivals, present=present)


def starved_pilots(
    facts: SplitFacts, memory: ShareMemory, parts: Mapping[Key, int]
) -> list[Sharer]:
    """Return the pilots that lack nodes and find none idle that they could take, without those of
    users who come and go.
    """
    return [
        claim
        for claim in facts.claims
        if has_too_few(claim, parts)
        and not memory.is_restless(claim.user)
        and not claim.takeable_count(facts.idle)
    ]
