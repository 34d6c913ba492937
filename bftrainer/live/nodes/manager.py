"""The pilot's nodes: looks at the scheduler now and then, at its holders all the time, and keeps the audit.

A node in the pool is a READY fragment that is not given back. Giving back goes in three steps, so that nobody's work is cut
off: it leaves the pool, its trainer lets go of it (or time is up), its holder is released.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from datetime import datetime, timezone

from bftrainer.config.pilot import NodeClassConfig, PilotConfig
from bftrainer.core.debounce import DebounceState, debounce
from bftrainer.core.windows import Ours
from bftrainer.domain.cluster import Fragment, FragmentPhase, NodeRequest
from bftrainer.domain.fragments import id_of, node_of
from bftrainer.domain.ports import Clock, NodeHolder, Scheduler
from bftrainer.domain.state import Nodes
from bftrainer.errors import BFTrainerError, CommandError, SchedulerError
from bftrainer.live.nodes.classifier import NodeClassifier, PoolDemand
from bftrainer.live.nodes.fragments import (
    DemandCap,
    HeldFragment,
    NodeBackoff,
    beyond,
    may_be_held,
    offered,
    to_ask_for,
    unused,
    windows_of,
)
from bftrainer.live.nodes.sharing import Sharing
from bftrainer.persistence.registry import Registry

_SLOWEST_POLL = 6.0  # times poll_s, after failed polls


class NodeManager:
    """All fragments of this pilot."""

    def __init__(
        self,
        config: PilotConfig,
        registry: Registry,
        scheduler: Scheduler,
        holder: NodeHolder,
        clock: Clock,
        ours: Ours,
        sharing: Sharing | None = None,
    ) -> None:
        self.config = config
        self._registry = registry
        self._scheduler = scheduler
        self._holder = holder
        self._clock = clock
        self._ours = ours
        self._sharing = sharing or Sharing()
        self._random = random.Random(config.decisions.seed)
        self._held: dict[str, HeldFragment] = {}
        self._given_back: dict[str, HeldFragment] = {}  # and not released yet
        self._polled: tuple[Fragment, ...] = ()
        self._pool = Nodes()
        self._kept = 0  # fragments that are not given back
        self._ends: tuple[tuple[str, float], ...] = ()
        self._is_current = False  # these three
        self._all_used: tuple[object, ...] = ()
        self._unused_from_s = math.inf
        self._seen_unused: list[HeldFragment] = []
        self._next_choice = clock.elapsed_s()
        self._sightings = DebounceState()
        self._windows: dict[str, float] = {}
        self._candidates: dict[str, float] = {}
        self._flapping = NodeBackoff(config.nodes.flap_back_off_s)
        self._enough: dict[str, DemandCap] = {}
        self.kinds = NodeClassifier()
        self._next_poll = self._last_good = clock.elapsed_s()
        self._failures = 0
        self._last_error = ""
        self._claimed = ""
        self._begun = clock.elapsed_s()
        self._first_good: float | None = None
        self._left_open = frozenset(f.name for f in registry.fragments(open_only=True))
        self.settled = False
        self.look()

    @property
    def pool(self) -> Nodes:
        """What the core may use; the same value as long as nothing has changed."""
        self._bring_up_to_date()
        return self._pool

    @property
    def window_ends(self) -> tuple[tuple[str, float], ...]:
        """When fragments of the pool will be given back, where the scheduler's plan for their nodes is known."""
        self._bring_up_to_date()
        return self._ends

    def _bring_up_to_date(self) -> None:
        """Five looks a second at thousands of fragments: what follows from them is worked out when one has changed."""
        if self._is_current:
            return
        self._is_current = True
        pool = frozenset([name for name, h in self._held.items() if h.in_pool and self.kinds.of(name) is not None])
        self._pool = self._pool if pool == self._pool else pool
        self._kept = sum(h.given_back_s is None for h in self._held.values())
        ahead_s = self.config.nodes.leave_before_s
        ends = ((name, self._windows.get(node_of(name))) for name in sorted(self._pool)) if self._windows else ()
        self._ends = tuple((name, end_s - ahead_s) for name, end_s in ends if end_s is not None)

    def class_named(self, name: str | None) -> NodeClassConfig | None:
        """What the configuration says of a class."""
        return None if name is None else self.config.classes.get(name)

    @property
    def ready(self) -> Nodes:
        """The pool, and fragments of which the class is not known yet."""
        return frozenset(name for name, h in self._held.items() if h.in_pool)

    @property
    def empty(self) -> bool:
        """Whether nothing is held or waited for."""
        return not self._held

    def name_of(self, fragment_id: str) -> str | None:
        """A fragment by the holder's id alone, as drivers know it."""
        return next((name for name, h in self._held.items() if h.fragment.id == fragment_id), None)

    def look(self) -> None:
        """Look at the holders. Those of a predecessor are taken over."""
        now_s, found = self._clock.now_s(), self._holder.poll()
        if found is not self._polled:
            for fragment in found:
                held = self._held.get(fragment.name)
                if held is None or (held.fragment is not fragment and held.fragment != fragment):
                    self._update(fragment, now_s)
            self._polled = found
        if not self.settled and self._knows_what_was_left():
            self.settled = True
            for name in sorted(self._left_open - self._held.keys()):
                self._registry.fragment_released(name, now_s, "gone while no pilot was there")

    def _knows_what_was_left(self) -> bool:
        """Whether a predecessor's fragments can be told from lost ones: a scheduler that is silent has not lost them."""
        if not self._left_open or self._left_open & self._held.keys():
            return True
        elapsed, times = self._clock.elapsed_s(), self.config.times
        answered = self._first_good is not None and elapsed - self._first_good > 2 * times.poll_s
        return answered or elapsed - self._begun > times.stale_after_s

    def observe_if_due(self) -> None:
        """Ask the scheduler, if it is time."""
        elapsed = self._clock.elapsed_s()
        if elapsed < self._next_poll:
            return
        now_s, times = self._clock.now_s(), self.config.times
        self._is_current = False
        try:
            seen = self._scheduler.observe()
            ids = frozenset(map(id_of, self._held))
            ours = Ours(self._ours.job_ids | ids, self._ours.partitions, self._ours.assume_window_s)
            claimed = self._sharing.look(self.config.nodes, seen)
            self.kinds.look(seen, self.config.classes)
            free = offered(seen, ours, self.config.nodes, self.kinds.of_node)
            self._windows = windows_of(seen, ours, now_s)
        except BFTrainerError as error:
            if (
                not self._failures
            ):  # time in which nobody asked, as this process was stopped, is not the scheduler's silence
                self._last_good = max(self._last_good, elapsed - times.poll_s)
            self._failures += 1
            if str(error) != self._last_error:  # once, not at every poll of a long outage
                self._registry.note(now_s, "poll failed", "", str(error))
            self._last_error = str(error)
            self._sightings, _ = debounce(self._sightings, None)
        else:
            if self._failures:
                self._registry.note(now_s, "poll", "", f"answers again after {self._failures} failed polls")
            if claimed and claimed != self._claimed:
                self._registry.note(now_s, "hosts", "", claimed)
            self._claimed = claimed
            self._failures, self._last_error, self._last_good = 0, "", elapsed
            self._first_good = elapsed if self._first_good is None else self._first_good
            self._sightings, _ = debounce(self._sightings, frozenset(free))
            self._candidates = {node: free[node] for node in self._sightings.offered}
        slower = min(2.0 ** min(self._failures, 10), _SLOWEST_POLL)
        self._next_poll = elapsed + times.poll_s * slower * self._random.uniform(0.9, 1.1)

    def take_and_give(self, trainers: frozenset[str], demand: PoolDemand, used: Nodes) -> None:
        """Ask for nodes that trainers can use, give back those that they do not, or that the scheduler wants soon."""
        now_s, nodes, times = self._clock.now_s(), self.config.nodes, self.config.times
        if self._clock.elapsed_s() - self._last_good > times.stale_after_s:
            self.give_back(self.ready, "the scheduler does not answer")
            return
        ended = [name for name, end_s in self.window_ends if now_s > end_s]
        self.give_back(ended, "planned: the scheduler's window ends")
        self._bring_up_to_date()
        if self._kept > nodes.max_nodes:
            self.give_back(
                [h.name for h in beyond(self._held.values(), used, nodes.max_nodes)], "above nodes.max_nodes"
            )
        self.give_back(self._sharing.surplus(nodes, self._held.values()), "above nodes.site_max_nodes")
        if self._give_unused(trainers, demand, used, now_s):
            return
        wanted = int(min(demand.total, self._sharing.most(nodes)))
        self._bring_up_to_date()
        elapsed = self._clock.elapsed_s()
        if elapsed < self._next_choice or min(wanted, nodes.max_nodes) <= self._kept:
            return
        if all(self._flapping.is_left_alone(node, now_s) for node in self._candidates):
            return
        local_time = datetime.fromtimestamp(now_s, timezone.utc).astimezone()
        room: dict[str, int] = {}

        def room_for(node: str) -> bool:
            kind = self.kinds.of_node(node) or ""
            if kind not in room:
                there = sum(h.given_back_s is None and self.kinds.of(h.name) == kind for h in self._held.values())
                room[kind] = self._wanted(kind, trainers, demand) - there
            room[kind] -= 1
            return room[kind] >= 0

        chosen = to_ask_for(
            nodes, self._candidates, self._held.values(), wanted, self._flapping, now_s, local_time, room_for
        )
        if not chosen:  # what was refused now is not looked at again at once
            self._next_choice = elapsed + times.poll_s / 10
        if not chosen or self._failures:
            return
        claims = tuple(NodeRequest(node, self._candidates[node], self.kinds.gpus(node)) for node in chosen)
        acquired = self._holder.acquire(claims)
        for fragment in acquired.fragments:
            self._registry.fragment_asked(fragment.name, fragment.node, now_s)
            self._candidates.pop(fragment.node, None)
            self._update(fragment, now_s)
        for refusal in acquired.refusals:
            self._registry.note(now_s, "refused", refusal.node, refusal.reason)
            self._flapping.leave_alone(refusal.node, now_s + max(refusal.retry_s, times.poll_s))

    def reconfigure(self, config: PilotConfig) -> None:
        """From now on by this configuration. What it does not allow any more is given back."""
        self.config = config
        self._is_current = False
        self._flapping.base_s = config.nodes.flap_back_off_s
        self._candidates = {}
        refused = [h.name for h in self._held.values() if not may_be_held(h.fragment.node, config.nodes)]
        self.give_back(refused, "not among nodes.hosts, or excluded")

    def _wanted(self, kind: str, trainers: frozenset[str], demand: PoolDemand) -> int:
        return self._enough.get(kind, DemandCap()).limit(trainers, demand.of(kind))

    def _give_unused(self, trainers: frozenset[str], demand: PoolDemand, used: Nodes, now_s: float) -> bool:
        """Give back what no trainer has had for a while. Why? Of a node that ends soon, its end is reason enough."""
        key = (self.pool, used, trainers, demand, self.config)
        if now_s < self._unused_from_s and len(self._all_used) == len(key):
            same = self._all_used[0] is key[0] and self._all_used[1] is used and self._all_used[4] is self.config
            if same and self._all_used[2:4] == key[2:4]:
                return False
        if self._pool <= used:  # the usual case, without a look at each
            for held in self._seen_unused:
                held.unused_since_s = None
            self._seen_unused, self._all_used, self._unused_from_s = [], key, math.inf
            return False
        nodes, ends = self.config.nodes, dict(self.window_ends)
        idle: list[HeldFragment] = []
        for kind, names in self.kinds.by_class(sorted(self.pool)):
            mine = [self._held[name] for name in sorted(names)]
            wanted = min(self._wanted(kind, trainers, demand), nodes.max_nodes)
            found = unused(mine, used, wanted, nodes.unused_after_s, now_s)
            if any(h.name not in ends for h in found):
                self._enough[kind] = DemandCap(trainers, len(mine) - len(found))
            idle += found
        for held in idle:
            if held.name in ends:
                self._flapping.leave_alone(held.fragment.node, ends[held.name])
        self.give_back([h.name for h in idle], "unused")
        self._seen_unused = [h for name in self._pool if (h := self._held[name]).unused_since_s is not None]
        self._all_used = () if idle else key
        since_s = (h.unused_since_s for h in self._seen_unused if h.unused_since_s is not None)
        self._unused_from_s = min(since_s, default=math.inf) + nodes.unused_after_s
        return bool(idle)

    def give_back(self, names: Iterable[str], reason: str) -> None:
        """These leave the pool now; their holders follow when their trainers have let go."""
        now_s = self._clock.now_s()
        for name in sorted(names):
            held = self._held.get(name)
            if held is not None and held.given_back_s is None:
                held.given_back_s, held.reason = now_s, reason
                self._given_back[name] = held
                self._is_current = False
                self._registry.fragment_asked_back(name, now_s, reason)

    def release(self, in_use: Nodes, *, at_once: bool = False) -> None:
        """Release the holders of what was given back and is no longer in use, or has been for too long."""
        now_s = self._clock.now_s()
        patience_s = 0.0 if at_once else self.config.times.move_s
        free = [
            h
            for name, h in self._given_back.items()
            if name not in in_use or (h.given_back_s is not None and now_s - h.given_back_s >= patience_s)
        ]
        if free:
            self._holder.release(frozenset(h.name for h in free))
        for held in free:
            held.released = True
            del self._given_back[held.name]

    def clear(self, in_use: Nodes) -> None:
        """End what runs in fragments that no driver has: orphans of a pilot whose job died with its drivers."""
        if orphaned := self.ready - in_use:
            try:
                self._holder.clear(orphaned)
            except (CommandError, SchedulerError) as error:  # their payloads end it, without the scheduler's help
                self.give_back(orphaned, f"what a predecessor left there cannot be ended: {error}")

    def renew(self) -> None:
        """Tell the holders that the pilot lives."""
        self._holder.renew()

    def _update(self, fragment: Fragment, now_s: float) -> None:
        self._is_current = False
        held = self._held.get(fragment.name)
        if held is None:
            if fragment.phase is FragmentPhase.GONE:
                self._registry.fragment_released(fragment.name, now_s, fragment.why)
                return
            held = self._held[fragment.name] = HeldFragment(fragment, now_s)
            self._registry.fragment_asked(fragment.name, fragment.node, now_s)
        was, held.fragment = held.fragment.phase, fragment
        match fragment.phase:
            case FragmentPhase.READY if held.ready_s is None:
                held.ready_s = now_s
                self._registry.fragment_taken(fragment.name, now_s)
            case FragmentPhase.LEAVING if was is not FragmentPhase.LEAVING and held.given_back_s is None:
                self._registry.fragment_asked_back(fragment.name, now_s, fragment.why or "asked back")
            case FragmentPhase.GONE:
                del self._held[fragment.name]
                self._given_back.pop(fragment.name, None)
                self.kinds.forget(fragment.name)
                reason = held.reason or fragment.why or "asked back"
                self._registry.fragment_released(fragment.name, now_s, reason)
                if held.given_back_s is None:
                    since_s = held.asked_s if held.ready_s is None else held.ready_s
                    self._flapping.left(fragment.node, now_s - since_s, now_s)
