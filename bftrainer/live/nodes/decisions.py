"""Which nodes to request, which to take from trainers, which to release: facts in, steps out. Pure; no clock, no I/O.

A node goes in three steps, so that no trainer is cut off: it leaves the pool (:class:`GiveBack`), its trainer leaves it or
runs out of time, its holder ends (:class:`Release`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bftrainer.allocation.placement import in_name_order
from bftrainer.config.pilot import is_quiet
from bftrainer.core.demand_cap import DemandCap
from bftrainer.core.fair_share import Demand, Split
from bftrainer.domain.cluster import FragmentPhase, NodeRequest
from bftrainer.domain.state import Nodes
from bftrainer.live.nodes.held_fragments import HeldFragment
from bftrainer.live.nodes.holding_order import looked, must_stay, parts_to_end, without_parts
from bftrainer.live.nodes.node_facts import Candidate, LimitWaits, Moment, NodeFacts, NodeMemory
from bftrainer.live.nodes.sharing import cheapest, own_split, room_beside, surplus

LEFT_S, MOST_LEFT_S = 4.0, 20.0
"""So long an idle node is left to each other pilot that comes first and lacks some: all see it at once, and one gets it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Request these nodes."""

    requests: tuple[NodeRequest, ...]


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Take these fragments out of the pool. ``back_off`` is (node, no request before)."""

    names: tuple[str, ...]
    reason: str
    back_off: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """End the holders of these fragments."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """Steps in order. With the same facts there is nothing more to do for ``again_after_s``.

    ``wanted``: how many nodes would be requested if any number could be pending at once. ``demand`` is what other pilots are
    shown, ``tells`` are words for the log of events.
    """

    steps: tuple[Ask | GiveBack, ...]
    memory: NodeMemory
    again_after_s: float = math.inf
    wanted: int = 0
    demand: Demand | None = None
    tells: tuple[str, ...] = ()


@dataclass(slots=True)
class _Draft:
    """A decision in the making: ``kept`` are fragments that are not given back, ``due_s`` the times to decide again."""

    kept: list[HeldFragment]
    steps: list[Ask | GiveBack] = field(default_factory=list)
    due_s: list[float] = field(default_factory=list)

    def give_back(self, names: Iterable[str], reason: str, back_off: tuple[tuple[str, float], ...] = ()) -> bool:
        gone = frozenset(names)
        if gone and (found := tuple(sorted(h.name for h in self.kept if h.name in gone))):
            self.kept = [h for h in self.kept if h.name not in gone]
            self.steps.append(GiveBack(found, reason, back_off))
            return True
        return False


def next_steps(known: NodeFacts, at: Moment) -> NodeDecision:
    """What to request and what to give back: unused nodes, those above a cap, those whose window ends.

    Nothing is requested in a decision that gives unused nodes back.
    """
    nodes, times = known.config.nodes, known.config.times
    draft = _Draft([h for h in known.fragments if h.given_back_s is None])
    if at.silent_s > times.stale_after_s:
        draft.give_back((h.name for h in draft.kept if h.is_ready), "the scheduler does not answer")
        return NodeDecision(tuple(draft.steps), known.memory, times.poll_s / 10)
    draft.due_s.append(at.now_s + times.stale_after_s - at.silent_s)
    draft.give_back(
        [name for name, end_s in known.window_ends if at.now_s > end_s], "planned: the scheduler's window ends"
    )
    draft.give_back(
        [name for name, end_s in known.limit_ends if at.now_s > end_s], "planned: the holder's time limit ends"
    )
    draft.due_s += [end_s for _, end_s in known.window_ends + known.limit_ends if end_s >= at.now_s]
    known = _in_order(_with_caps(known, draft), at, draft)
    draft.give_back([h.name for h in above(draft.kept, known.used, nodes.max_nodes)], "above nodes.max_nodes")
    draft.give_back(surplus(draft.kept, known.peer_holders, nodes.site_max_nodes), "above nodes.site_max_nodes")
    demand, share = _share(known, at, draft)
    known = replace(known, memory=replace(known.memory, share=share.memory))
    if known.limit_waits.jobs:
        return replace(_make_room(known, at, draft), demand=demand, tells=share.tells)
    memory, gives = _give_unused(known, at, draft, share)
    requests: tuple[NodeRequest, ...] = ()
    wanted = 0
    if not gives:
        left = _left_idle(known)
        memory = replace(memory, left_idle=left, beside=_grow(known, at, draft))
        requests, wanted = _requests(known, at, draft, frozenset(left), share)
        draft.steps += [Ask(requests)] if requests else []
    again_s = max(min(draft.due_s) - at.now_s, 0.0)
    return NodeDecision(tuple(draft.steps), memory, again_s, wanted, demand, share.tells)


def next_release(given_back: Iterable[HeldFragment], in_use: Nodes, patience_s: float, now_s: float) -> Release | None:
    """Release what was given back and is no longer in use, or has been for longer than ``patience_s``."""
    free = frozenset(
        h.name
        for h in given_back
        if h.name not in in_use or (h.given_back_s is not None and now_s - h.given_back_s >= patience_s)
    )
    return Release(free) if free else None


def _in_order(known: NodeFacts, at: Moment, draft: _Draft) -> NodeFacts:
    """End the parts that may not be held any longer."""
    seen = looked(known.memory.unheld, known.order, draft.kept)
    reason = "an idle node of the partition is not held: main jobs would take it instead of this part"
    draft.give_back(parts_to_end(known.order, seen, draft.kept, known.used), reason)
    return replace(known, memory=replace(known.memory, unheld=seen))


def _with_caps(known: NodeFacts, draft: _Draft) -> NodeFacts:
    """Demand caps count for the same trainers, while at least as many nodes are held as these were worth."""
    of, held = known.demand.of, sizes_by_class(h for h in draft.kept if h.fragment.phase is not FragmentPhase.LEAVING)
    caps = tuple(c for c in known.memory.caps if c.counts(known.trainers, of(c.node_class), held[c.node_class]))
    return replace(known, memory=replace(known.memory, caps=caps))


def _share(known: NodeFacts, at: Moment, draft: _Draft) -> tuple[Demand | None, Split]:
    """What other pilots are shown, and the split among them; what this pilot holds above its part is given back."""
    if not known.config.nodes.share:
        return None, Split()
    demand, found = own_split(known, at, draft.kept, _left_idle(known))
    draft.due_s.append(found.again_s)
    if found.gives:
        draft.give_back([h.name for h in cheapest(draft.kept, known.used, found)], found.reason)
    return demand, found


def _make_room(known: NodeFacts, at: Moment, draft: _Draft) -> NodeDecision:
    """An observation half a poll after the last one has left shows whether that was enough. Nothing is requested meanwhile."""
    waits, memory = known.limit_waits, known.memory
    leaving = sum(h.given_back_s is not None for h in known.fragments)
    if not leaving and waits.at_s >= memory.room_s + known.config.times.poll_s / 2:
        memory = replace(memory, room=0)
    names = [h.name for h in in_the_way(max(leaving, memory.room), draft.kept, known.used, waits)]
    draft.give_back(names, limit_reason(waits))
    if names or leaving:
        memory = replace(memory, room=memory.room + len(names), room_s=at.now_s)
        draft.due_s.append(at.now_s + 1.0)
    return NodeDecision(tuple(draft.steps), memory, max(min(draft.due_s) - at.now_s, 0.0))


def _give_unused(known: NodeFacts, at: Moment, draft: _Draft, share: Split) -> tuple[NodeMemory, bool]:
    """Give back what no trainer has used for ``unused_after_s``; at once, what is more than trainers could use at all.

    The class's demand is capped at what they did use, until there are more nodes than they have tried: idle ones count as
    tried if none of these may be requested. Not if every unused node had a window that ends: then its end is why it was not
    used, and the node is backed off from until then.
    """
    memory = known.memory
    kept_unused = {h.name: h for h in draft.kept if h.name in idle} if (idle := known.pool - known.used) else {}
    if not kept_unused:
        return replace(memory, unused_since=()), False
    nodes, ends, since = known.config.nodes, dict(known.window_ends), dict(memory.unused_since)
    unused_since = {name: since.get(name, at.now_s) for name in sorted(kept_unused)}
    in_pool = sizes_by_class(h for h in draft.kept if h.name in known.pool)
    caps = {cap.node_class: cap for cap in memory.caps}
    found: list[str] = []
    stays = must_stay(known.order, draft.kept)
    for node_class in sorted({h.node_class or "" for h in kept_unused.values()}):
        mine = sorted((s, n) for n, s in unused_since.items() if (kept_unused[n].node_class or "") == node_class)
        beyond = in_pool[node_class] - min(known.demand_of(node_class, at.now_s), known.most)
        gone = []
        for unused_s, name in mine:
            if name in stays:
                continue
            if (size := kept_unused[name].size) <= beyond or at.now_s - unused_s >= nodes.unused_after_s:
                gone.append(name)
                beyond -= size
        if any(name not in ends for name in gone):
            wants_more = _requests(known, at, draft, frozenset(_left_idle(known)), share)[1] > 0
            tried = in_pool[node_class] if wants_more else known.there(node_class)
            left = in_pool[node_class] - sum(kept_unused[name].size for name in gone)
            tried = max(tried, caps[node_class].tried if node_class in caps else 0)
            caps[node_class] = DemandCap(node_class, known.trainers, left, tried, known.demand.of(node_class))
        found += gone
    back_off = tuple((kept_unused[name].node, ends[name]) for name in found if name in ends)
    draft.give_back(found, "unused", back_off)
    draft.due_s += [s + nodes.unused_after_s for name, s in unused_since.items() if name not in stays]
    found_caps = tuple(caps[name] for name in sorted(caps))
    return replace(memory, unused_since=tuple(unused_since.items()), caps=found_caps), bool(found)


def _grow(known: NodeFacts, at: Moment, draft: _Draft) -> tuple[tuple[tuple[str, int], float], ...]:
    """End parts beside which GPUs are idle, so that one holder gets all: once these have been idle for as many GPU-seconds as
    the part's trainers lose by the move. So moves never cost more than the GPUs would have been worth until then.
    """
    more = {node: c.size for node, c in _free(known, at, draft).items() if c.is_part}
    room = known.demand.total - sum(h.size for h in draft.kept)
    if not more or room <= 0 or not known.answers or is_quiet(known.config.nodes.quiet_hours, at.local_time):
        return ()
    there, before = sizes_by_class(draft.kept), dict(known.memory.beside)
    since, ended = dict[tuple[str, int], float](), list[str]()
    for h in [h for h in draft.kept if h.fragment.is_part and h.is_ready and h.node in more]:
        if known.demand_of(h.node_class or "", at.now_s) <= there[h.node_class]:
            continue
        lost = sum(lost for nodes, lost in known.demand.moves if not nodes.isdisjoint(h.slots))
        key = h.name, more[h.node]
        since[key] = before.get(key, at.now_s)
        if (due_s := since[key] + lost / more[h.node]) <= at.now_s:
            ended.append(h.name)
        draft.due_s.append(due_s)
    draft.give_back(ended, "its node has more idle GPUs: all are held by one job")
    return tuple(since.items())


def _free(known: NodeFacts, at: Moment, draft: _Draft) -> dict[str, Candidate]:
    """What is not backed off, by node; without the parts that may not be held."""
    blocked, of_node, nowhere = without_parts(known.order, draft.kept), known.order.partitions, frozenset[str]()
    ready = {c.request.node: c for c in known.candidates if c.not_before_s <= at.now_s}
    return {node: c for node, c in ready.items() if not c.is_part or blocked.isdisjoint(of_node.get(node, nowhere))}


def _by_worth(candidates: Mapping[str, Candidate], before: int = 0) -> list[str]:
    """Whole nodes first, of these long windows, then large parts: main jobs take the rest of the fullest nodes, as without a
    pilot. Then in name order; the first ``before`` names come last.
    """
    names = in_name_order(candidates)
    at = before % max(len(names), 1)
    order = ((candidates[node], node) for node in names[at:] + names[:at])

    def worth(it: tuple[Candidate, str]) -> tuple[bool, float, int]:
        candidate = it[0]
        return candidate.is_part, -candidate.request.window_s, -candidate.size if candidate.is_part else 0

    return [node for _, node in sorted(order, key=worth)]


def _left_idle(known: NodeFacts) -> tuple[str, ...]:
    """Nodes that are not requested, to save power."""
    keep = known.config.nodes.leave_for_power_saving
    if not keep:
        return ()
    held = {h.node for h in known.fragments}
    idle = {c.request.node: c for c in known.candidates if c.request.node not in held}
    return left_idle(_by_worth(idle), known.asleep, keep - len(known.asleep - idle.keys()), known.memory.left_idle)


def _requests(
    known: NodeFacts, at: Moment, draft: _Draft, left: Nodes, share: Split
) -> tuple[tuple[NodeRequest, ...], int]:
    """As many nodes as are in demand and allowed: long windows first, then in name order. And how many those would be if any
    number could be pending.
    """
    nodes, times = known.config.nodes, known.config.times
    most = min(room_beside(known.peer_holders, nodes.site_max_nodes), nodes.max_nodes, share.part) - len(draft.kept)
    room = known.demand.total - sum(h.size for h in draft.kept)
    if min(most, room) <= 0 or not known.answers:
        return (), 0
    draft.due_s += [c.not_before_s for c in known.candidates if c.not_before_s > at.now_s]
    there = left.union(h.node for h in known.fragments)
    free = {node: c for node, c in _free(known, at, draft).items() if node not in there}
    if not free:
        return (), 0
    draft.due_s.append(at.now_s + times.poll_s / 10)
    if is_quiet(nodes.quiet_hours, at.local_time):
        return (), 0
    at_once = nodes.max_pending - sum(h.fragment.phase is FragmentPhase.PENDING for h in known.fragments)
    mine = sizes_by_class(draft.kept)
    room_of = {name: known.demand_of(name, at.now_s) - mine[name] for name in {c.node_class for c in free.values()}}
    chosen: list[NodeRequest] = []
    order = _by_worth(free, share.before)
    wait_s = min(LEFT_S * (1 + share.before // len(order)), MOST_LEFT_S)
    left_s = {node: free[node].since_s + wait_s for node in order[max(len(order) - share.before, 0) :]}
    draft.due_s += [until_s for until_s in left_s.values() if until_s > at.now_s]
    for node in order:
        if (
            left_s.get(node, 0.0) <= at.now_s
            and len(chosen) < int(min(most, len(free)))
            and room > 0
            and room_of[free[node].node_class] > 0
        ):
            room -= free[node].size
            room_of[free[node].node_class] -= free[node].size
            chosen.append(replace(free[node].request, useful_s=known.demand.rescale_s))
    return tuple(chosen[: max(at_once, 0)]), len(chosen)


def sizes_by_class(held: Iterable[HeldFragment]) -> Counter[str | None]:
    """How many nodes or GPUs of each class."""
    found: Counter[str | None] = Counter()
    for h in held:
        found[h.node_class] += h.size
    return found


# Room for main-queue jobs that wait for a limit for which holders count: no scheduler preempts for a limit.


def above(kept: Sequence[HeldFragment], used: Nodes, most: int) -> list[HeldFragment]:
    """Fragments above a cap: parts first, of these unused ones, the latest first."""
    if len(kept) <= most:
        return []
    order = sorted(kept, key=lambda h: (not h.fragment.is_part, h.name in used, -h.asked_s, h.name))
    return order[: len(kept) - most]


def in_the_way(leaving: int, kept: Sequence[HeldFragment], used: Nodes, waits: LimitWaits) -> list[HeldFragment]:
    """As many fragments as the jobs need, less those that are leaving; and all that have not started: they would be next."""
    needed = max(sum(job.size for job in waits.jobs) - leaving, 0)
    ready = [h for h in kept if h.is_ready]
    return [*(h for h in kept if not h.is_ready), *above(ready, used, max(len(ready) - needed, 0))]


def limit_reason(waits: LimitWaits) -> str:
    """The reason that fragments are given back for."""
    first, more = waits.jobs[0], len(waits.jobs) - 1
    others = f" and {more} more" if more else ""
    return f"job {first.job}{others} waits for a limit that holders use up ({first.reason})"


def left_idle(idle: Sequence[str], asleep: Iterable[str], keep: int, left_before: Iterable[str]) -> tuple[str, ...]:
    """Which of the ``idle`` nodes, the most useful ones first, are left to the site's power saving.

    A pilot that holds every idle node keeps all of them awake. So it leaves ``keep`` nodes idle or powered down: those that it
    left before, because a node is powered down only after it has been idle for a while (Slurm's SuspendTime).

    ``asleep`` are those of them that are powered down; they are left before any other.
    """
    if keep <= 0:
        return ()
    sleeping, before = frozenset(asleep), frozenset(left_before)
    ranks = {name: rank for rank, name in enumerate(idle)}
    order = sorted(idle, key=lambda name: (name not in sleeping, name not in before, -ranks[name]))
    return tuple(sorted(order[:keep]))
