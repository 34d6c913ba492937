"""Sentences about a pilot's part of the nodes, for its log of events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bftrainer.counted import counted
from bftrainer.sharing.misuse import OVERUSE_TIMEOUT_S
from bftrainer.sharing.share_memory import ShareMemory
from bftrainer.sharing.sharer import Key, Sharer
from bftrainer.sharing.split_facts import SplitFacts

EQUAL_PART = "an equal part of"
WEIGHTED_PART = "a part of"


def explanation_of(facts: SplitFacts, memory: ShareMemory, parts: Mapping[Key, int]) -> str:
    """Return in one sentence how large this pilot's part of the nodes is, and why."""
    own = facts.own
    part = parts[own.key]
    weights = {claim.user: claim.weight for claim in facts.claims}
    text = f"{EQUAL_PART} {counted(memory.capacity, 'node')} for {len(weights)} users is {part}"
    if len(set(weights.values())) > 1:
        total = sum(weights.values())
        text = (
            f"{WEIGHTED_PART} {part} of {counted(memory.capacity, 'node')} by weight "
            f"{own.weight} of {total}"
        )
    # Its part is below the size of its smallest trainer, and it is not its turn.
    if part == 0 < min(own.weight, own.demand):
        text += f", fewer than a trainer's {own.least}: it has turns"
    return text


def announcement_of(facts: SplitFacts, memory: ShareMemory) -> tuple[int, ...]:
    """Return what makes a new message about the part worth sending: the number of users without
    those who come and go, this user's weight, and the total weight. If none of these has changed,
    no message is sent.
    """
    weights = {
        claim.user: claim.weight for claim in facts.claims if not memory.is_restless(claim.user)
    }
    return len(weights), facts.own.weight, sum(weights.values())


def overuse_messages(
    others: Iterable[Sharer], fair_parts: Mapping[Key, int], overusers: Collection[Key]
) -> list[str]:
    """Return a message about each pilot that has just become an overuser.

    ``overusers`` are these pilots, and ``fair_parts`` what each pilot may hold.
    """
    return [
        f"a pilot of {pilot.user} has kept {counted(pilot.holds, 'node')} for "
        f"{OVERUSE_TIMEOUT_S:g} s or more"
        f" although its part is {fair_parts[pilot.key]}"
        for pilot in others
        if pilot.key in overusers
    ]


def first_users(claims: Iterable[Sharer]) -> str:
    """Return the names of up to three users of these pilots, joined by commas."""
    users = sorted({claim.user for claim in claims})
    return ", ".join(users[:3])
