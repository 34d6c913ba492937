"""Pilots that misuse nodes: those that keep more than their part, and those that leave nodes idle.

A pilot that leaves nodes idle while it is below its part is distrusted: it counts with the nodes
that it holds, for longer each time in a row. A pilot that keeps nodes above its part is an
overuser: it is reported, and the others divide the rest. So neither can stop the split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from bftrainer.sharing.share_memory import DEPARTED, RELEASE_PATIENCE_S, Distrust, ShareMemory
from bftrainer.sharing.sharer import Key, Sharer
from bftrainer.sharing.split_facts import SplitFacts, starved_pilots

UNUSED_TIMEOUT_S = 120.0
"""A pilot that lacks nodes but leaves some idle for so long cannot use them.

The timeout is three polls where these take longer.
"""
PENDING_FACTOR = 4.0
"""Factor on :data:`UNUSED_TIMEOUT_S` while the pilot has a pending holder: pilots compete for the
same node.
"""
DISTRUST_S = 300.0
"""A distrusted pilot counts with what it holds for so long; each time in a row, twice as long."""
MAX_DISTRUST_S = 3600.0
"""The longest time for which a pilot is distrusted."""
OVERUSE_TIMEOUT_S = 120.0
"""A pilot that keeps nodes above its part for so long after its patience will not release them."""


def believed(claim: Sharer, distrusted: Mapping[Key, Distrust], now_s: float) -> Sharer:
    """Return a pilot's claim as it counts in the split: while the pilot is distrusted (it has left
    nodes idle), it wants no more than it holds.
    """
    distrust = distrusted.get(claim.key)
    # A pilot that wants no node must not seem to want those that it still holds.
    if distrust is None or now_s >= distrust.until_s or not claim.demand:
        return claim
    return replace(claim, wants=claim.holds)


def with_overusers(
    memory: ShareMemory,
    facts: SplitFacts,
    fair_parts: Mapping[Key, int],
    parts: Mapping[Key, int],
    newcomers: Collection[Key],
) -> tuple[ShareMemory, list[float]]:
    """Return the memory with the pilots that keep nodes which others lack, and the times at which
    more of them may become overusers.

    A pilot is an overuser once it has done so for ``OVERUSE_TIMEOUT_S``; while no newcomer lacks
    nodes, that begins after the ``RELEASE_PATIENCE_S`` for which a pilot may keep them. A silent
    pilot (one that shows no demand) is measured by its fair part, because ``parts`` gives it all
    that it holds.
    """
    starved = starved_pilots(facts, memory, parts)
    starved_by_silent = starved_pilots(facts, memory, fair_parts)
    user_since = _overuse_since_by_user(facts, memory, parts)
    patience_s = OVERUSE_TIMEOUT_S
    if not any(claim.key in newcomers for claim in starved):
        patience_s += RELEASE_PATIENCE_S
    overuse_since: dict[Key, float] = {}
    overusers: set[Key] = set()
    deadlines: list[float] = []
    for claim in facts.rivals:
        key = claim.key
        if key in facts.silent:
            timeout_s = OVERUSE_TIMEOUT_S
            limit = fair_parts[key]
            victims = starved_by_silent
        else:
            timeout_s = patience_s
            limit = parts[key]
            victims = starved
        # It holds no more than its part, or nobody lacks what it keeps.
        if claim.holds <= limit or not victims:
            continue
        # A pilot with a new name inherits the time of its user.
        earliest_s = user_since.get(claim.user, facts.now_s)
        since_s = min(memory.overuse_since.get(key, facts.now_s), earliest_s)
        overuse_since[key] = since_s
        if facts.now_s - since_s >= timeout_s:
            overusers.add(key)
        else:
            deadlines.append(since_s + timeout_s)
    memory = replace(memory, overuse_since=overuse_since, overusers=frozenset(overusers))
    return memory, deadlines


def _overuse_since_by_user(
    facts: SplitFacts, memory: ShareMemory, parts: Mapping[Key, int]
) -> dict[str, float]:
    """Return since when the pilots of each user keep nodes that others lack, for users whose pilots
    together hold more than their parts.

    It is by user because a pilot can be renamed at any time, a user cannot.
    """
    holds: Counter[str] = Counter()
    user_parts: Counter[str] = Counter()
    for claim in facts.claims:
        holds[claim.user] += claim.holds
        user_parts[claim.user] += parts[claim.key]
    since: dict[str, float] = {}
    for (user, _), since_s in memory.overuse_since.items():
        if holds[user] > user_parts[user]:
            since[user] = min(since.get(user, facts.now_s), since_s)
    return since


def with_distrust(
    memory: ShareMemory, facts: SplitFacts, parts: Mapping[Key, int], timeout_s: float
) -> tuple[ShareMemory, list[float]]:
    """Return the memory with the pilots distrusted that leave nodes idle below their parts for
    ``timeout_s``, and the times at which that may change.

    A distrusted pilot counts as if it wanted no more than it holds.
    """
    # Records of pilots that left are kept for their users' new pilots.
    unused_since = {
        key: record for key, record in memory.unused_since.items() if key[1] == DEPARTED
    }
    distrusted = dict(memory.distrusted)
    deadlines = []
    for claim in facts.rivals:
        if not _leaves_nodes_idle(claim, facts, parts):
            continue
        since_s = _unused_since_s(claim, memory, facts.now_s)
        deadline_s = since_s + timeout_s * (PENDING_FACTOR if claim.asks else 1.0)
        if facts.now_s >= deadline_s:
            distrusted[claim.key] = _longer_distrust(claim, distrusted.get(claim.key), facts.now_s)
        else:
            unused_since[claim.key] = since_s, claim.holds
            deadlines.append(deadline_s)
    ends = [distrust.until_s for distrust in distrusted.values() if distrust.until_s > facts.now_s]
    memory = replace(memory, unused_since=unused_since, distrusted=distrusted)
    return memory, deadlines + ends


def _leaves_nodes_idle(claim: Sharer, facts: SplitFacts, parts: Mapping[Key, int]) -> bool:
    """Whether a pilot below its part leaves nodes idle that it could take.

    While this pilot (our own) holds too much, one that says it is short does not: it finds no idle
    node, and what it lacks is held here.
    """
    if claim.holds >= parts[claim.key] or not claim.usable(facts.idle):
        return False
    holds_too_much = facts.own.holds > parts[facts.own.key]
    return not (holds_too_much and claim.is_short)


def _unused_since_s(claim: Sharer, memory: ShareMemory, now_s: float) -> float:
    """Return since when a pilot leaves nodes idle; now if it holds another number of nodes than
    then, since it does take nodes.
    """
    since_s, held = memory.unused_since.get(claim.key, (now_s, claim.holds))
    return since_s if held == claim.holds else now_s


def _longer_distrust(claim: Sharer, previous: Distrust | None, now_s: float) -> Distrust:
    """Return a distrust that lasts twice as long as the ``previous`` one, up to ``MAX_DISTRUST_S``;
    without one, ``DISTRUST_S``.

    It ends at a multiple of its duration, so that all pilots end it at the same moment, although
    they may have begun it at different times.
    """
    duration_s = DISTRUST_S if previous is None else min(2 * previous.duration_s, MAX_DISTRUST_S)
    until_s = (now_s // duration_s + 2) * duration_s
    return Distrust(claim.holds, until_s, duration_s)
