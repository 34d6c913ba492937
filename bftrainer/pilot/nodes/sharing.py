"""This pilot's part of the nodes, and which of its fragments it gives up."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from bftrainer.cluster.model import FragmentPhase
from bftrainer.config.pilot import is_quiet
from bftrainer.decide.domain.state import Nodes
from bftrainer.pilot.nodes.held_fragments import HeldFragment
from bftrainer.pilot.nodes.node_facts import Moment, NodeFacts
from bftrainer.sharing.fair_share import Demand, Sharer, Split, split


def own_split(
    facts: NodeFacts, at: Moment, kept: Collection[HeldFragment], left: Collection[str]
) -> tuple[Demand, Split]:
    """Return the demand that this pilot shows the others, and the division of nodes. This pilot
    holds the fragments ``kept``, and leaves the nodes ``left`` idle on purpose.

    A fragment that was preempted or released is no longer held, although its holder's end may not
    be known yet. A holder that is pending on a node that is not idle adds none: another job has the
    node.
    """
    nodes = facts.config.nodes
    held_count = sum(
        held_fragment.fragment.phase is not FragmentPhase.LEAVING for held_fragment in kept
    )
    held_nodes = {held_fragment.node for held_fragment in facts.fragments}
    idle_nodes = {candidate.request.node for candidate in facts.candidates}
    takeable = sorted(idle_nodes.difference(held_nodes, left))
    site_limit = math.inf
    if nodes.site_max_nodes is not None:
        site_limit = nodes.site_max_nodes
        takeable = takeable[: max(nodes.site_max_nodes - len(facts.peer_holders) - held_count, 0)]
    # Before the first poll, no node is known to be usable: then max_nodes is the limit.
    wants = min(facts.total_demand, nodes.max_nodes, facts.usable or nodes.max_nodes)
    if is_quiet(nodes.quiet_hours, at.local_time):
        wants = min(wants, held_count)
    own = Sharer(
        facts.own.user,
        facts.own.pilot,
        wants,
        held_count,
        least=facts.demand.min_size,
        weight=facts.own.weight,
    )
    leaving_count = sum(
        held_fragment.given_back_s is not None and not held_fragment.is_released
        for held_fragment in facts.fragments
    )
    # A pending holder counts in held_count. Where another job has its node, this takes it off.
    pending = (
        held_fragment
        for held_fragment in kept
        if held_fragment.fragment.phase is FragmentPhase.PENDING
        and held_fragment.fragment.ends_s is None
    )
    leaving_count -= sum(h.node not in idle_nodes for h in pending)
    division = split(
        own,
        leaving_count,
        facts.rivals,
        takeable,
        site_limit,
        facts.memory.share,
        at.now_s,
        facts.config.times.poll_s,
    )
    return Demand(wants, division.is_short, facts.demand.min_size), division


def cheapest(kept: Iterable[HeldFragment], used: Nodes, division: Split) -> list[HeldFragment]:
    """Return the fragments to give up, as many as the ``division`` of nodes asks for.

    Those that the others can use come first; among equals the parts of nodes, then the fragments
    that no trainer uses, then those requested last.
    """
    preferred = division.preferred_nodes

    def cost(held_fragment: HeldFragment) -> tuple[bool, bool, bool, float, str]:
        return (
            preferred is not None and held_fragment.node not in preferred,
            not held_fragment.fragment.is_part,
            held_fragment.name in used,
            -held_fragment.asked_s,
            held_fragment.name,
        )

    order = sorted(kept, key=cost)
    return order[: division.release_count]
