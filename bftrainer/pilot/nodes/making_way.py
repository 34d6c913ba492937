"""Make way for main jobs where the scheduler does not: which nodes to release, which holders to
shorten, and for how long to hold others. Pure.

The scheduler plans with the time limits of holders. A limit of a day puts the start of the first
job a day away, and lets jobs behind it start first, on nodes that it should get. So holders are
short, and shorter while jobs wait. That is also the guarantee that needs no pilot.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bftrainer.cluster.model import FragmentPhase, GiveWay
from bftrainer.decide.yielding.blind import next_blind
from bftrainer.decide.yielding.facts import HolderStage, OwnHolder, YieldRules
from bftrainer.decide.yielding.listed_holders import next_yield
from bftrainer.decide.yielding.low_water import LowWater
from bftrainer.decide.yielding.rule import JobServed, YieldRelease
from bftrainer.fragment_names import is_one_of_several, job_of
from bftrainer.pilot.nodes.held_fragments import HeldFragment
from bftrainer.pilot.nodes.node_facts import LimitWaits, Moment, NodeFacts, NodeMemory

BUSY_LIMIT_S = 600.0
"""While main jobs wait, no holder ends later than this."""
_SLACK_S = 90.0
"""Schedulers count time limits in whole minutes."""
_SHORTEN_AGAIN_S = 60.0
_SETTLED_S = {GiveWay.SITE: 0.0, GiveWay.YIELD: 300.0, GiveWay.BLIND: 3600.0}
_BLIND = "a main job waits, as far as the scheduler's counters tell"


@dataclass(frozen=True, slots=True)
class Shorten:
    """Let the holders of these fragments end after so many seconds at the latest."""

    names: frozenset[str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Hasten:
    """Trainers may take no longer than this to leave fragments that have been given back."""

    names: frozenset[str]
    patience_s: float


@dataclass(frozen=True, slots=True)
class WayDecision:
    """What making way asks for. ``blocks``: nothing may be requested now, ``renews``: but for nodes
    that leave only because their jobs end. None of the ``reserved`` nodes may be requested.
    """

    memory: NodeMemory
    releases: tuple[YieldRelease, ...] = ()
    steps: tuple[Shorten | Hasten, ...] = ()
    served: tuple[JobServed, ...] = ()
    blocks: bool = False
    reserved: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    renews: bool = False


def make_way(facts: NodeFacts, moment: Moment, kept: Sequence[HeldFragment]) -> WayDecision:
    """Decide what to release and shorten for main jobs, by the latest look at the queue or at the
    scheduler's counters. ``kept`` are the fragments that are not given back for other reasons.
    """
    facts = replace(facts, memory=_with_low_water(facts))
    match facts.permit.give_way:
        case GiveWay.YIELD:
            decision = _nodes_to_yield(facts, kept)
        case GiveWay.BLIND:
            decision = _yield_blindly(facts, kept)
        case GiveWay.SITE:
            return WayDecision(facts.memory)
    leaving = {name for release in decision.releases for name in release.names}
    return _with_shortened_holders(
        facts,
        moment,
        [held_fragment for held_fragment in kept if held_fragment.name not in leaving],
        decision,
    )


def window_cap_s(facts: NodeFacts) -> float:
    """Return the longest time for which a node may be held from now on, so that main jobs need not
    wait longer whatever happens.
    """
    if facts.permit.give_way is GiveWay.SITE:
        return math.inf
    worst_wait_s = facts.config.nodes.worst_wait_s
    is_waiting = _waits_any(facts)
    return min(worst_wait_s, BUSY_LIMIT_S) if is_waiting else worst_wait_s


def _waits_any(facts: NodeFacts) -> bool:
    """Whether a main job waits, as far as the queue or, where it is hidden, the counters tell."""
    if facts.permit.give_way is GiveWay.BLIND:
        return facts.memory.blind.waiting > 0
    return facts.queue is not None and bool(facts.queue.jobs)


def settled_room(facts: NodeFacts, node_class: str, kept: Iterable[HeldFragment]) -> float:
    """Return how many more nodes of a class may be held below its low-water mark
    (:mod:`.low_water`); infinite without a mark.
    """
    mark = dict(facts.memory.low_water).get(node_class, LowWater()).nodes
    if mark is None:
        return math.inf
    own = {
        held_fragment.node
        for held_fragment in kept
        if (held_fragment.node_class or "") == node_class
    }
    return mark - len(own | facts.harvest.held_by_others(node_class))


def _with_low_water(facts: NodeFacts) -> NodeMemory:
    """Return the memory with the low-water marks of all classes after the latest look; without any
    where no reserve is wanted.
    """
    memory, harvest = facts.memory, facts.harvest
    window_s = facts.config.nodes.settled_s
    if window_s is None:
        window_s = _SETTLED_S[facts.permit.give_way]
    if window_s == 0.0:
        return replace(memory, low_water=(), low_water_s=-math.inf)
    if harvest.at_s <= memory.low_water_s:
        return memory
    own: dict[str, set[str]] = {}
    for held_fragment in facts.fragments:
        if held_fragment.fragment.phase is not FragmentPhase.GONE:
            own.setdefault(held_fragment.node_class or "", set()).add(held_fragment.node)
    marks = dict(memory.low_water)
    for node_class in marks.keys() | own.keys() | harvest.classes():
        nodes = harvest.of_class(node_class) | own.get(node_class, set())
        earlier = marks.get(node_class, LowWater())
        marks[node_class] = earlier.after_look(len(nodes), harvest.at_s, window_s)
    return replace(memory, low_water=tuple(sorted(marks.items())), low_water_s=harvest.at_s)


def _nodes_to_yield(facts: NodeFacts, kept: Sequence[HeldFragment]) -> WayDecision:
    """Decide which nodes to release by the queue of main jobs
    (:func:`bftrainer.decide.yielding.listed_holders.next_yield`). Before the queue has been
    seen, nothing may be requested.
    """
    if facts.queue is None:
        return WayDecision(facts.memory, blocks=True)
    nodes = facts.config.nodes
    own_pilot = f"{facts.own.user}/{facts.own.pilot}"
    rules = YieldRules(nodes.yield_notice_s, nodes.yield_poll_s, nodes.worst_wait_s, own_pilot)
    given_back = [
        held_fragment for held_fragment in facts.fragments if held_fragment.given_back_s is not None
    ]
    leaving = [
        held_fragment
        for held_fragment in facts.fragments
        if held_fragment.given_back_s is None and held_fragment not in kept
    ]
    own = [*kept, *given_back, *(replace(h, given_back_s=facts.queue.at_s) for h in leaving)]
    decision = next_yield(
        facts.queue, own_holders(own, _rescale_costs(facts)), facts.memory.yielding, rules
    )
    memory = replace(facts.memory, yielding=decision.memory)
    made, offers = decision.made, decision.memory.offers
    return WayDecision(
        memory,
        made.releases,
        (Hasten(made.hasten, rules.notice_s),) if made.hasten else (),
        served=made.served,
        blocks=offers.blocks,
        reserved=frozenset(offers.reserved),
        renews=True,
    )


def own_holders(fragments: Iterable[HeldFragment], costs: Mapping[str, float]) -> list[OwnHolder]:
    """Return fragments as the rule sees them; ``costs``: what trainers lose by leaving one, by
    name.
    """
    return [
        OwnHolder(
            held.name,
            job_of(held.name),
            frozenset[str]({held.node}),
            _stage_of(held),
            held.asked_s,
            is_one_of_several(held.name),
            held.is_renewal,
            costs.get(held.name),
            held.fragment.is_separable,
        )
        for held in fragments
    ]


def _stage_of(held: HeldFragment) -> HolderStage:
    """Return how far a fragment's holder is."""
    if held.given_back_s is not None:
        return HolderStage.ENDING if held.is_released else HolderStage.GIVEN_BACK
    if held.is_ready:
        return HolderStage.READY
    return HolderStage.PENDING if held.ready_s is None else HolderStage.ENDING


def _yield_blindly(facts: NodeFacts, kept: Sequence[HeldFragment]) -> WayDecision:
    """Decide which nodes to release by the scheduler's counters
    (:func:`bftrainer.decide.yielding.blind.next_blind`): the cheapest ones, a step at each glance.
    """
    if facts.glance is None:
        return WayDecision(facts.memory, blocks=True)
    costs = _rescale_costs(facts)
    ready = [held_fragment for held_fragment in kept if held_fragment.is_ready]
    order = sorted(
        ready,
        key=lambda held_fragment: (
            held_fragment.name in costs,
            costs.get(held_fragment.name, 0.0),
            -held_fragment.asked_s,
        ),
    )
    before = facts.memory.blind
    leaving = sum(held_fragment.given_back_s is not None for held_fragment in facts.fragments)
    notice_s = facts.config.nodes.yield_notice_s
    is_starting = any(held_fragment.ready_s is None for held_fragment in kept)
    decision = next_blind(
        facts.glance, len(order), before, notice_s, leaving, is_starting=is_starting
    )
    memory = replace(facts.memory, blind=decision.memory)
    releases = []
    if chosen := order[: decision.release_count]:
        names = tuple(sorted(h.name for h in chosen))
        releases.append(YieldRelease("", names, _BLIND))
    pending = tuple(
        sorted(held_fragment.name for held_fragment in kept if held_fragment.ready_s is None)
    )
    if decision.memory.offers and pending:
        releases.append(YieldRelease("", pending, _BLIND))
    words = (decision.words,) if decision.words else ()
    return WayDecision(memory, tuple(releases), blocks=decision.memory.offers, words=words)


def _rescale_costs(facts: NodeFacts) -> dict[str, float]:
    """Return what a trainer loses by a rescale, for each fragment in use."""
    costs = dict.fromkeys(facts.used, 0.0)
    for nodes, cost in facts.demand.move_costs:
        costs |= dict.fromkeys(nodes, cost)
    return costs


def _with_shortened_holders(
    facts: NodeFacts, moment: Moment, staying: Iterable[HeldFragment], decision: WayDecision
) -> WayDecision:
    """Add to a decision an order to shorten the holders that may not last as long as they would.

    The limits are by the scheduler's clock. An order that had no effect is repeated.
    """
    if facts.clock_offset_s is None:
        return decision
    server_s = moment.now_s - facts.clock_offset_s
    seconds = window_cap_s(facts)
    latest_s = server_s + seconds + _SLACK_S
    recent = {
        name: at_s
        for name, at_s in decision.memory.shortened
        if moment.now_s - at_s < _SHORTEN_AGAIN_S
    }
    names = frozenset(
        held_fragment.name
        for held_fragment in staying
        if held_fragment.is_ready
        and held_fragment.fragment.ends_s is not None
        and held_fragment.fragment.ends_s > latest_s
        and held_fragment.name not in recent
    )
    if not names:
        return decision
    recent |= dict.fromkeys(names, moment.now_s)
    memory = replace(decision.memory, shortened=tuple(sorted(recent.items())))
    steps = (*decision.steps, Shorten(names, seconds))
    return replace(decision, memory=memory, steps=steps)


# Room for main-queue jobs that wait for a limit that counts holders: no scheduler preempts for it.


def fragments_above(
    kept: Sequence[HeldFragment], used: Collection[str], max_kept: int
) -> list[HeldFragment]:
    """Return the fragments to release so that ``max_kept`` are kept: parts first, of these unused
    ones, the latest first.
    """
    if len(kept) <= max_kept:
        return []
    order = sorted(
        kept,
        key=lambda held_fragment: (
            not held_fragment.fragment.is_part,
            held_fragment.name in used,
            -held_fragment.asked_s,
            held_fragment.name,
        ),
    )
    return order[: len(kept) - max_kept]


def in_the_way(
    leaving: int, kept: Sequence[HeldFragment], used: Collection[str], waits: LimitWaits
) -> list[HeldFragment]:
    """Return the fragments to give back for main jobs that wait for a limit which holders count
    towards: as many as the jobs need, less those that leave already. All that have not started are
    among them: they would be next.
    """
    needed = max(sum(job.size for job in waits.jobs) - leaving, 0)
    not_started = [held_fragment for held_fragment in kept if not held_fragment.is_ready]
    ready = [held_fragment for held_fragment in kept if held_fragment.is_ready]
    return not_started + fragments_above(ready, used, max(len(ready) - needed, 0))


def limit_reason(waits: LimitWaits) -> str:
    """Name the job and the limit for which fragments are given back."""
    first, more = waits.jobs[0], len(waits.jobs) - 1
    others = f" and {more} more" if more else ""
    return f"job {first.job}{others} waits for a limit that holders use up ({first.reason})"
