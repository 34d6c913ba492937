"""Decide which nodes to request, which to take from trainers, and which to release.

Facts in, steps out: pure, without a clock or I/O. A node leaves in three steps, so that no trainer
is cut off: it leaves the pool (:class:`GiveBack`), its trainer leaves it or runs out of time, its
holder ends (:class:`Release`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from bftrainer.cluster.model import FragmentPhase, NodeRequest
from bftrainer.config.pilot import is_quiet
from bftrainer.decide.allocation.placement import in_name_order
from bftrainer.decide.core.demand_cap import DemandCap
from bftrainer.decide.domain.state import Nodes
from bftrainer.decide.yielding.rule import JobServed
from bftrainer.fragment_names import is_one_of_several, job_of
from bftrainer.pilot.nodes.held_fragments import HeldFragment
from bftrainer.pilot.nodes.holding_order import (
    after_look,
    barred_partitions,
    needed_by_parts,
    parts_to_end,
)
from bftrainer.pilot.nodes.making_way import (
    Hasten,
    Shorten,
    WayDecision,
    fragments_above,
    in_the_way,
    limit_reason,
    make_way,
    settled_room,
    window_cap_s,
)
from bftrainer.pilot.nodes.node_facts import Candidate, Moment, NodeFacts, NodeMemory
from bftrainer.pilot.nodes.sharing import cheapest, own_split
from bftrainer.sharing.fair_share import Demand, Split
from bftrainer.sharing.peers import room_beside, surplus

LEFT_S = 4.0
"""An idle node is left for so long to each pilot before this one: of all, only one gets it."""
MAX_LEFT_S = 20.0
"""The longest time for which an idle node is left to other pilots."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Request these nodes."""

    requests: tuple[NodeRequest, ...]


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Take these fragments out of the pool. ``back_off`` is (node, no request before).

    ``patience_s``: how long trainers may take to leave them; None: as long as for a move. Those of
    one ``group`` are released together. ``renewals``: (fragment, request) of nodes that leave only
    because their jobs end with the others; they are requested at the release.
    """

    names: tuple[str, ...]
    reason: str
    back_off: tuple[tuple[str, float], ...] = ()
    group: str = ""
    patience_s: float | None = None
    renewals: tuple[tuple[str, NodeRequest], ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """End the holders of these fragments."""

    names: frozenset[str]


Step = Ask | GiveBack | Shorten | Hasten


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """Steps in order. With the same facts there is nothing more to do for ``again_after_s``.

    ``wanted``: how many nodes would be requested if any number could be pending at once.
    ``demand``: what other pilots are shown.
    ``tells``: messages for the log of events, of which ``way_words`` are about main jobs.
    ``served``: main jobs for which nodes were released and which have started since.
    """

    steps: tuple[Step, ...]
    memory: NodeMemory
    again_after_s: float = math.inf
    wanted: int = 0
    demand: Demand | None = None
    tells: tuple[str, ...] = ()
    way_words: tuple[str, ...] = ()
    served: tuple[JobServed, ...] = ()


@dataclass(slots=True)
class _NodesDraft:
    """A decision in the making.

    ``kept``: fragments that are not given back. ``due_s``: the times to decide again.
    """

    kept: list[HeldFragment]
    steps: list[Step] = field(default_factory=list)
    due_s: list[float] = field(default_factory=list)

    def give_back(
        self, names: Iterable[str], reason: str, back_off: tuple[tuple[str, float], ...] = ()
    ) -> None:
        """Add a step that takes these fragments out of the pool, as far as they are still kept."""
        if kept_names := self._remove_fragments(names):
            self.steps.append(GiveBack(kept_names, reason, back_off))

    def make_way(
        self, way: WayDecision, notice_s: float, renewal: Callable[[HeldFragment], NodeRequest]
    ) -> None:
        """Add the steps that make way for main jobs. Other nodes of jobs that end are requested
        again (``renewal``) where it is known which nodes the main jobs need.
        """
        self.steps += way.steps
        needed = {name for release in way.releases for name in release.names}
        held = {held_fragment.name: held_fragment for held_fragment in self.kept}
        for release in way.releases:
            if names := self._remove_fragments(release.names):
                others = [held[name] for name in names if name not in needed and way.renews]
                renewals = tuple((h.name, renewal(h)) for h in others)
                step = GiveBack(names, release.reason, (), release.job, notice_s, renewals)
                self.steps.append(step)

    def _remove_fragments(self, names: Iterable[str]) -> tuple[str, ...]:
        """Remove fragments, and those whose jobs end with them, from those that are kept. Returns
        the ones that were still kept, sorted.
        """
        leaving = with_companions(frozenset(names), self.kept)
        kept_names = tuple(
            sorted(
                held_fragment.name for held_fragment in self.kept if held_fragment.name in leaving
            )
        )
        self.kept = [
            held_fragment for held_fragment in self.kept if held_fragment.name not in leaving
        ]
        return kept_names


class _IdleFragment(NamedTuple):
    """A fragment that no trainer uses, and since when."""

    since_s: float
    fragment: HeldFragment


def next_steps(facts: NodeFacts, moment: Moment) -> NodeDecision:
    """Decide which nodes to request and which to give back: those that are unused, above a cap,
    needed by main jobs, or at the end of their window or time limit.

    Nothing is requested in a decision that gives unused nodes back.
    """
    nodes, times = facts.config.nodes, facts.config.times
    draft = _NodesDraft(
        [held_fragment for held_fragment in facts.fragments if held_fragment.given_back_s is None]
    )
    if moment.silent_s > times.stale_after_s:
        draft.give_back(
            (held_fragment.name for held_fragment in draft.kept if held_fragment.is_ready),
            "the scheduler does not answer",
        )
        return NodeDecision(tuple(draft.steps), facts.memory, times.poll_s / 10)
    draft.due_s.append(moment.now_s + times.stale_after_s - moment.silent_s)
    if facts.permit.releases:
        draft.give_back([held_fragment.name for held_fragment in draft.kept], facts.permit.refusal)
    window_ended = [name for name, end_s in facts.window_ends if moment.now_s > end_s]
    draft.give_back(window_ended, "planned: the scheduler's window ends")
    limit_ended = [name for name, end_s in facts.limit_ends if moment.now_s > end_s]
    draft.give_back(limit_ended, "planned: the holder's time limit ends")
    ends = facts.window_ends + facts.limit_ends
    draft.due_s += [end_s for _, end_s in ends if end_s >= moment.now_s]
    way = make_way(facts, moment, draft.kept)
    draft.make_way(way, nodes.yield_notice_s, partial(_renewal_request, facts, moment))
    candidates = tuple(
        candidate for candidate in facts.candidates if candidate.request.node not in way.reserved
    )
    facts = replace(facts, memory=way.memory, candidates=candidates)
    decision = _own_decisions(facts, moment, draft, way.blocks)
    return replace(decision, way_words=way.words, served=way.served)


def with_companions(names: frozenset[str], kept: Sequence[HeldFragment]) -> frozenset[str]:
    """Return these fragments with all others of their jobs: a job of several nodes ends as a
    whole, unless it can give back the nodes alone.
    """
    alone = {h.name for h in kept if h.fragment.is_separable}
    jobs = {job_of(name) for name in names - alone if is_one_of_several(name)}
    if not jobs:
        return names
    return names | {
        held_fragment.name for held_fragment in kept if job_of(held_fragment.name) in jobs
    }


def _renewal_request(facts: NodeFacts, moment: Moment, held: HeldFragment) -> NodeRequest:
    """Return the request by which the node of a fragment is held again after its job has ended for
    a main job.
    """
    window_end_s = dict(facts.window_ends).get(held.name, math.inf)
    window_s = min(window_end_s - moment.now_s, window_cap_s(facts))
    gpus, node_class = len(held.fragment.gpus), held.node_class or ""
    return NodeRequest(held.node, window_s, gpus, node_class, facts.demand.rescale_s)


def _own_decisions(
    facts: NodeFacts, moment: Moment, draft: _NodesDraft, blocks: bool
) -> NodeDecision:
    """Decide everything but what main jobs ask for, which has been decided before. ``blocks``:
    nothing may be requested, because main jobs wait.
    """
    nodes = facts.config.nodes
    facts = _in_order(_with_caps(facts, draft), draft)
    above_own_cap = fragments_above(draft.kept, facts.used, nodes.max_nodes)
    draft.give_back([h.name for h in above_own_cap], "above nodes.max_nodes")
    above_site_cap = surplus(
        [held.name for held in draft.kept], facts.peer_holders, nodes.site_max_nodes
    )
    draft.give_back(above_site_cap, "above nodes.site_max_nodes")
    demand, share = _split_with_pilots(facts, moment, draft)
    facts = replace(facts, memory=replace(facts.memory, share=share.memory))
    if facts.limit_waits.jobs:
        return replace(_make_room(facts, moment, draft), demand=demand, tells=share.messages)
    if blocks:
        again_s = max(min(draft.due_s) - moment.now_s, 0.0)
        return NodeDecision(tuple(draft.steps), facts.memory, again_s, 0, demand, share.messages)
    memory, has_unused = _give_back_unused(facts, moment, draft, share)
    requests: tuple[NodeRequest, ...] = ()
    wanted = 0
    if not has_unused:
        left_idle_nodes = _left_idle(facts)
        memory = replace(
            memory, left_idle=left_idle_nodes, beside=_parts_to_end(facts, moment, draft)
        )
        requests, wanted = _node_requests(facts, moment, draft, frozenset(left_idle_nodes), share)
    if requests:
        draft.steps.append(Ask(requests))
    again_s = max(min(draft.due_s) - moment.now_s, 0.0)
    return NodeDecision(tuple(draft.steps), memory, again_s, wanted, demand, share.messages)


def next_release(
    given_back: Iterable[HeldFragment], in_use: Nodes, patience_s: float, now_s: float
) -> Release | None:
    """Decide which holders to end: those of fragments that were given back and are no longer in
    use, or have been for ``patience_s``, or for the fragment's own patience if that is shorter.
    Those of a group are released together: a main job gets its nodes at once.
    """
    given_back = tuple(given_back)
    busy = {h.name for h in given_back if _is_awaited(h, in_use, patience_s, now_s)}
    waiting_groups = {h.group for h in given_back if h.name in busy} - {""}
    free = frozenset(
        h.name for h in given_back if h.name not in busy and h.group not in waiting_groups
    )
    return Release(free) if free else None


def _is_awaited(held: HeldFragment, in_use: Nodes, patience_s: float, now_s: float) -> bool:
    """Whether a trainer may still take its time to leave a fragment."""
    if held.name not in in_use or held.given_back_s is None:
        return False
    own_s = patience_s if held.patience_s is None else min(held.patience_s, patience_s)
    return now_s - held.given_back_s < own_s


def _in_order(facts: NodeFacts, draft: _NodesDraft) -> NodeFacts:
    """Give back parts of nodes that may not be held any longer, since whole nodes are idle
    (:mod:`.holding_order`). Returns the facts after one more look.
    """
    unheld = after_look(facts.memory.unheld, facts.order, draft.kept)
    reason = (
        "an idle node of the partition is not held: main jobs would take it instead of this part"
    )
    draft.give_back(parts_to_end(facts.order, unheld, draft.kept, facts.used), reason)
    return replace(facts, memory=replace(facts.memory, unheld=unheld))


def _with_caps(facts: NodeFacts, draft: _NodesDraft) -> NodeFacts:
    """Return the facts without the demand caps of other trainers, and those above what is held
    now.
    """
    staying = [
        held_fragment
        for held_fragment in draft.kept
        if held_fragment.fragment.phase is not FragmentPhase.LEAVING
    ]
    held = sizes_by_class(staying)
    caps = [
        cap
        for cap in facts.memory.caps
        if cap.is_valid(facts.trainers, facts.demand.of(cap.node_class), held[cap.node_class])
    ]
    return replace(facts, memory=replace(facts.memory, caps=tuple(caps)))


def _split_with_pilots(
    facts: NodeFacts, moment: Moment, draft: _NodesDraft
) -> tuple[Demand | None, Split]:
    """Split nodes with other pilots, and give back what this pilot holds above its part. Returns
    the demand to show to the others, and the split.
    """
    if not facts.config.nodes.share:
        return None, Split()
    demand, share = own_split(facts, moment, draft.kept, _left_idle(facts))
    draft.due_s.append(share.next_change_s)
    if share.release_count:
        draft.give_back([h.name for h in cheapest(draft.kept, facts.used, share)], share.reason)
    return demand, share


def _make_room(facts: NodeFacts, moment: Moment, draft: _NodesDraft) -> NodeDecision:
    """Give back fragments for main-queue jobs that wait for a limit, and request nothing meanwhile.

    An observation half a poll after the last fragment has left shows whether that was enough.
    """
    waits, memory = facts.limit_waits, facts.memory
    leaving = sum(held_fragment.given_back_s is not None for held_fragment in facts.fragments)
    if not leaving and waits.at_s >= memory.room_s + facts.config.times.poll_s / 2:
        memory = replace(memory, room=0)
    names = [h.name for h in in_the_way(max(leaving, memory.room), draft.kept, facts.used, waits)]
    draft.give_back(names, limit_reason(waits))
    if names or leaving:
        memory = replace(memory, room=memory.room + len(names), room_s=moment.now_s)
        draft.due_s.append(moment.now_s + 1.0)
    return NodeDecision(tuple(draft.steps), memory, max(min(draft.due_s) - moment.now_s, 0.0))


def _give_back_unused(
    facts: NodeFacts, moment: Moment, draft: _NodesDraft, share: Split
) -> tuple[NodeMemory, bool]:
    """Give back nodes that no trainer has used for a while, and lower the demand for their class.
    Returns the memory after that, and whether any node was given back.

    The demand is capped only if some node had no window that ends: such an end is a reason of its
    own not to use a node. A node with one is backed off from until then.
    """
    memory = facts.memory
    unused = _unused_fragments(facts, draft)
    if not unused:
        return replace(memory, unused_since=()), False
    noticed = dict(memory.unused_since)
    unused_since = {name: noticed.get(name, moment.now_s) for name in sorted(unused)}
    staying = needed_by_parts(facts.order, draft.kept)
    idle_fragments = [
        _IdleFragment(since_s, fragment=unused[name])
        for name, since_s in unused_since.items()
        if name not in staying
    ]
    expired = _fragments_to_release(facts, moment, draft, idle_fragments)
    expired = _with_whole_jobs(expired, draft.kept)
    window_ends = dict(facts.window_ends)
    uncapped = sorted({_class_of(h) for h in expired if h.name not in window_ends})
    caps = {cap.node_class: cap for cap in memory.caps}
    if uncapped:
        wants_more = (
            _node_requests(facts, moment, draft, frozenset(_left_idle(facts)), share)[1] > 0
        )
        for node_class in uncapped:
            caps[node_class] = _lowered_cap(facts, draft, node_class, expired, wants_more)
    back_off = tuple((h.node, window_ends[h.name]) for h in expired if h.name in window_ends)
    draft.give_back([h.name for h in expired], "unused", back_off)
    unused_after_s = facts.config.nodes.unused_after_s
    draft.due_s += [idle.since_s + unused_after_s for idle in idle_fragments]
    memory = replace(
        memory,
        unused_since=tuple(unused_since.items()),
        caps=tuple(caps[node_class] for node_class in sorted(caps)),
    )
    return memory, bool(expired)


def _with_whole_jobs(
    expired: Sequence[HeldFragment], kept: Sequence[HeldFragment]
) -> list[HeldFragment]:
    """Return the fragments that can be given back without others that are in use."""
    names = frozenset(h.name for h in expired)
    return [h for h in expired if with_companions(frozenset({h.name}), kept) <= names]


def _unused_fragments(facts: NodeFacts, draft: _NodesDraft) -> dict[str, HeldFragment]:
    """The fragments of the pool that no trainer uses, by name."""
    idle = facts.pool - facts.used
    if not idle:
        return {}
    return {
        held_fragment.name: held_fragment
        for held_fragment in draft.kept
        if held_fragment.name in idle
    }


def _class_of(fragment: HeldFragment) -> str:
    """The class of a fragment; "" if it is not known."""
    return fragment.node_class or ""


def _pool_sizes(facts: NodeFacts, draft: _NodesDraft) -> Counter[str | None]:
    """How many nodes or GPUs of each class the pool has."""
    return sizes_by_class(
        held_fragment for held_fragment in draft.kept if held_fragment.name in facts.pool
    )


def _fragments_to_release(
    facts: NodeFacts, moment: Moment, draft: _NodesDraft, idle_fragments: Sequence[_IdleFragment]
) -> list[HeldFragment]:
    """Return the fragments to give back: idle for ``unused_after_s``, or more than trainers could
    use.
    """
    pool_sizes = _pool_sizes(facts, draft)
    expired: list[HeldFragment] = []
    for node_class in sorted({_class_of(idle.fragment) for idle in idle_fragments}):
        usable = min(facts.demand_of(node_class, moment.now_s), facts.max_slots)
        surplus = pool_sizes[node_class] - usable
        of_class = [idle for idle in idle_fragments if _class_of(idle.fragment) == node_class]
        for since_s, fragment in sorted(of_class, key=lambda i: (i.since_s, i.fragment.name)):
            idle_s = moment.now_s - since_s
            if fragment.size <= surplus or idle_s >= facts.config.nodes.unused_after_s:
                expired.append(fragment)
                surplus -= fragment.size
    return expired


def _lowered_cap(
    facts: NodeFacts,
    draft: _NodesDraft,
    node_class: str,
    expired: Iterable[HeldFragment],
    wants_more: bool,
) -> DemandCap:
    """Return a cap on the demand for a class: what trainers used, until there are more nodes than
    they tried. Idle nodes count as tried if none of these may be requested.
    """
    pool_size = _pool_sizes(facts, draft)[node_class]
    used = pool_size - sum(h.size for h in expired if _class_of(h) == node_class)
    tried = pool_size if wants_more else facts.available(node_class)
    earlier = [cap.tried for cap in facts.memory.caps if cap.node_class == node_class]
    demand = facts.demand.of(node_class)
    return DemandCap(node_class, facts.trainers, used, max([tried, *earlier]), demand)


def _parts_to_end(
    facts: NodeFacts, moment: Moment, draft: _NodesDraft
) -> tuple[tuple[tuple[str, int], float], ...]:
    """End parts of nodes beside which GPUs are idle, so that one holder gets all GPUs of the node.
    Returns since when as many GPUs have been idle beside a part: ((part, GPUs), time).

    A part ends once they have been idle for as many GPU-seconds as its trainers lose by the move.
    So moves never cost more than the GPUs would have been worth until then.
    """
    idle_gpus = {
        node: candidate.size
        for node, candidate in _free_candidates(facts, moment, draft).items()
        if candidate.is_part
    }
    room = facts.demand.total - sum(held_fragment.size for held_fragment in draft.kept)
    if not idle_gpus or room <= 0 or not facts.answers:
        return ()
    if is_quiet(facts.config.nodes.quiet_hours, moment.local_time):
        return ()
    held = sizes_by_class(draft.kept)
    noticed = dict(facts.memory.beside)
    idle_since: dict[tuple[str, int], float] = {}
    ended: list[str] = []
    for part in draft.kept:
        if not part.fragment.is_part or not part.is_ready or part.node not in idle_gpus:
            continue
        if facts.demand_of(_class_of(part), moment.now_s) <= held[part.node_class]:
            continue
        gpus = idle_gpus[part.node]
        key = part.name, gpus
        idle_since[key] = noticed.get(key, moment.now_s)
        due_s = idle_since[key] + _cost_of_moving(facts, part) / gpus
        draft.due_s.append(due_s)
        if due_s <= moment.now_s:
            ended.append(part.name)
    draft.give_back(ended, "its node has more idle GPUs: all are held by one job")
    return tuple(idle_since.items())


def _cost_of_moving(facts: NodeFacts, part: HeldFragment) -> float:
    """The GPU-seconds that trainers lose if they leave this part and join another fragment."""
    return sum(cost for slots, cost in facts.demand.move_costs if not slots.isdisjoint(part.slots))


def _free_candidates(facts: NodeFacts, moment: Moment, draft: _NodesDraft) -> dict[str, Candidate]:
    """Return the candidates that may be requested now, by node.

    Left out are nodes that are backed off, and parts of a partition in which an idle node is not
    held: a main job would take that node instead of preempting the part (:mod:`.holding_order`).
    """
    blocked = barred_partitions(facts.order, draft.kept)
    partitions = facts.order.partitions
    ready = {
        candidate.request.node: candidate
        for candidate in facts.candidates
        if candidate.not_before_s <= moment.now_s
    }
    return {
        node: candidate
        for node, candidate in ready.items()
        if not candidate.is_part or blocked.isdisjoint(partitions.get(node, frozenset()))
    }


def _by_worth(candidates: Mapping[str, Candidate], last: int = 0) -> list[str]:
    """Order nodes by :func:`_usefulness_key`, then by name; the first ``last`` names come last."""
    names = in_name_order(candidates)
    start = last % max(len(names), 1)
    rotated = names[start:] + names[:start]
    return sorted(rotated, key=lambda node: _usefulness_key(candidates[node]))


def _usefulness_key(candidate: Candidate) -> tuple[bool, float, int]:
    """Sort whole nodes first, of these long windows, then large parts.

    Main jobs then take the rest of the fullest nodes, as without a pilot.
    """
    part_size = candidate.size if candidate.is_part else 0
    return candidate.is_part, -candidate.request.window_s, -part_size


def _left_idle(facts: NodeFacts) -> tuple[str, ...]:
    """Return the nodes that are not requested, so that the site can power them down."""
    count = facts.config.nodes.leave_for_power_saving
    if not count:
        return ()
    held = {held_fragment.node for held_fragment in facts.fragments}
    idle = {
        candidate.request.node: candidate
        for candidate in facts.candidates
        if candidate.request.node not in held
    }
    already_asleep = len(facts.asleep - idle.keys())
    order = _by_worth(idle)
    return left_idle(order, facts.asleep, count - already_asleep, facts.memory.left_idle)


def _node_requests(
    facts: NodeFacts, moment: Moment, draft: _NodesDraft, left_idle_nodes: Nodes, share: Split
) -> tuple[tuple[NodeRequest, ...], int]:
    """Return requests for as many nodes as are in demand and allowed, the most useful ones first,
    and how many there would be if any number could be pending at once.
    """
    nodes = facts.config.nodes
    site_room = room_beside(facts.peer_holders, nodes.site_max_nodes)
    max_requests = min(site_room, nodes.max_nodes, share.part) - len(draft.kept)
    has_demand = facts.demand.total > sum(held_fragment.size for held_fragment in draft.kept)
    if max_requests <= 0 or not has_demand or not facts.answers or facts.permit.refusal:
        return (), 0
    draft.due_s += [
        candidate.not_before_s
        for candidate in facts.candidates
        if candidate.not_before_s > moment.now_s
    ]
    unavailable = left_idle_nodes.union(held_fragment.node for held_fragment in facts.fragments)
    candidates = {
        node: candidate
        for node, candidate in _free_candidates(facts, moment, draft).items()
        if node not in unavailable
    }
    if not candidates:
        return (), 0
    draft.due_s.append(moment.now_s + facts.config.times.poll_s / 10)
    if is_quiet(nodes.quiet_hours, moment.local_time):
        return (), 0
    order = _by_worth(candidates, share.left_to_others)
    reserved_until = _reserved_until(candidates, order, share.left_to_others)
    draft.due_s += [until_s for until_s in reserved_until.values() if until_s > moment.now_s]
    ready = [candidates[node] for node in order if reserved_until.get(node, 0.0) <= moment.now_s]
    requests = _in_demand(facts, moment, draft, ready)
    requests = requests[: int(min(max_requests, len(requests)))]
    pending = sum(
        held_fragment.fragment.phase is FragmentPhase.PENDING for held_fragment in facts.fragments
    )
    max_now = max(nodes.max_pending - pending, 0)
    return tuple(requests[:max_now]), len(requests)


def _reserved_until(
    candidates: Mapping[str, Candidate], order: Sequence[str], count: int
) -> dict[str, float]:
    """Return until when the last ``count`` nodes in order are left to the pilots before this
    one.
    """
    wait_s = min(LEFT_S * (1 + count // len(order)), MAX_LEFT_S)
    reserved = order[max(len(order) - count, 0) :]
    return {node: candidates[node].since_s + wait_s for node in reserved}


def _in_demand(
    facts: NodeFacts, moment: Moment, draft: _NodesDraft, candidates: Sequence[Candidate]
) -> list[NodeRequest]:
    """Return requests for candidates in order, as long as trainers could use more nodes of their
    class.
    """
    held = sizes_by_class(draft.kept)
    room = facts.demand.total - sum(held.values())
    classes = {candidate.node_class for candidate in candidates}
    class_room = {
        name: min(
            facts.demand_of(name, moment.now_s) - held[name],
            settled_room(facts, name, draft.kept),
        )
        for name in classes
    }
    cap_s = window_cap_s(facts)
    requests: list[NodeRequest] = []
    for candidate in candidates:
        if room > 0 and class_room[candidate.node_class] > 0:
            room -= candidate.size
            class_room[candidate.node_class] -= candidate.size
            window_s = min(candidate.request.window_s, cap_s)
            useful_s = facts.demand.rescale_s
            requests.append(replace(candidate.request, window_s=window_s, useful_s=useful_s))
    return requests


def sizes_by_class(held: Iterable[HeldFragment]) -> Counter[str | None]:
    """Count the nodes or GPUs of each class."""
    sizes: Counter[str | None] = Counter()
    for held_fragment in held:
        sizes[held_fragment.node_class] += held_fragment.size
    return sizes


def left_idle(
    idle: Sequence[str], asleep: Iterable[str], keep: int, left_before: Iterable[str]
) -> tuple[str, ...]:
    """Choose the ``idle`` nodes, the least useful first, that are left to the site's power saving.

    A pilot that holds every idle node keeps all of them awake. So it leaves ``keep`` nodes idle or
    powered down: first the ``asleep`` ones, which are powered down, then those that it left before,
    because a node is powered down only after it has been idle for a while (Slurm's SuspendTime).
    """
    if keep <= 0:
        return ()
    sleeping, before = frozenset(asleep), frozenset(left_before)
    ranks = {name: rank for rank, name in enumerate(idle)}
    order = sorted(idle, key=lambda name: (name not in sleeping, name not in before, -ranks[name]))
    return tuple(sorted(order[:keep]))
