"""Which nodes to ask for, which to let go, which to leave alone. Pure, but for the memory of the three small classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice

from bftrainer.allocation.placement import in_name_order
from bftrainer.config.pilot import NodesConfig, is_quiet
from bftrainer.core.windows import Ours, free_nodes, window_ends
from bftrainer.domain.cluster import Fragment, FragmentPhase, Observation
from bftrainer.domain.state import Nodes

MAX_BACK_OFF_S = 3600.0


@dataclass(slots=True)
class HeldFragment:
    """A fragment that this pilot has, or waits for. ``given_back``: no longer in the pool, its trainer is leaving it."""

    fragment: Fragment
    asked_s: float
    ready_s: float | None = None
    unused_since_s: float | None = None
    given_back_s: float | None = None
    released: bool = False
    reason: str = ""

    @property
    def name(self) -> str:
        """``node#id``."""
        return self.fragment.name

    @property
    def in_pool(self) -> bool:
        """Whether the core may use it."""
        return self.fragment.phase is FragmentPhase.READY and self.given_back_s is None


@dataclass(slots=True)
class NodeBackoff:
    """Nodes that were asked back soon after they had been taken are left alone, longer each time."""

    base_s: float
    _until: dict[str, tuple[float, int]] = field(default_factory=dict)

    def left(self, node: str, held_s: float, now_s: float) -> None:
        """The scheduler took a node back after ``held_s``."""
        if held_s >= self.base_s:
            self._until.pop(node, None)
            return
        _, times = self._until.get(node, (0.0, 0))
        self._until[node] = (now_s + min(self.base_s * 2**times, MAX_BACK_OFF_S), times + 1)

    def leave_alone(self, node: str, until_s: float) -> None:
        """Not before then: the holder has refused it."""
        _, times = self._until.get(node, (0.0, 0))
        self._until[node] = (until_s, times)

    def is_left_alone(self, node: str, now_s: float) -> bool:
        """Whether it must not be asked for yet."""
        return now_s < self._until.get(node, (0.0, 0))[0]


@dataclass(slots=True)
class DemandCap:
    """What trainers leave unused although they could use it: do not take it again before there are other trainers.

    (A curve that falls, or a rescale that does not pay: the policy knows better than the sum of ``max_nodes``.)
    """

    trainers: frozenset[str] = frozenset()
    nodes: int | None = None

    def limit(self, trainers: frozenset[str], demand: int) -> int:
        """How many nodes these trainers are worth."""
        return demand if self.nodes is None or trainers != self.trainers else min(demand, self.nodes)


def offered(
    seen: Observation, ours: Ours, config: NodesConfig, class_of: Callable[[str], str | None] = lambda _: None
) -> dict[str, float]:
    """Free nodes that the configuration lets us have, each with what is left of its window in seconds."""
    return {
        free.node.name: free.window_s(seen.at_s)
        for free in free_nodes(seen, ours)
        if may_be_held(free.node.name, config)
        and (not config.partitions or not set(config.partitions).isdisjoint(free.node.partitions))
        and config.node_class in (None, class_of(free.node.name) or free.node.node_class)
        and free.window_s(seen.at_s) >= config.min_window_s
    }


def windows_of(seen: Observation, ours: Ours, now_s: float) -> dict[str, float]:
    """When the scheduler wants nodes, those that we hold too, by this machine's clock; without those it has no plan for."""
    ends = window_ends(seen, ours).items()
    return {node: now_s + end.at_s - seen.at_s for node, end in ends if end.at_s < math.inf}


def to_ask_for(
    config: NodesConfig,
    candidates: Mapping[str, float],
    held: Iterable[HeldFragment],
    wanted: int,
    flapping: NodeBackoff,
    now_s: float,
    local_time: datetime,
    room_for: Callable[[str], bool] = lambda _: True,
) -> tuple[str, ...]:
    """Which idle nodes to take: as many as are wanted and allowed, long windows first, then in name order.

    ``room_for`` is asked for each node in turn: whether one more of its class is wanted.
    """
    there = list(held)
    room = min(wanted, config.max_nodes) - sum(h.given_back_s is None for h in there)
    pending = sum(h.fragment.phase is FragmentPhase.PENDING for h in there)
    room = min(room, config.max_pending - pending)
    if room <= 0 or is_quiet(config.quiet_hours, local_time):
        return ()
    taken = {h.fragment.node for h in there}
    free = [n for n in in_name_order(candidates) if n not in taken and not flapping.is_left_alone(n, now_s)]
    free.sort(key=lambda node: -candidates[node])
    return tuple(islice(filter(room_for, free), room))


def beyond(held: Iterable[HeldFragment], used: Nodes, most: int) -> list[HeldFragment]:
    """Fragments above the cap: first those that no trainer has, the latest first."""
    there = [h for h in held if h.given_back_s is None]
    there.sort(key=lambda h: (h.name in used, -h.asked_s, h.name))
    return there[: max(len(there) - most, 0)]


def unused(held: Iterable[HeldFragment], used: Nodes, wanted: int, after_s: float, now_s: float) -> list[HeldFragment]:
    """Fragments of the pool that nobody has had for ``after_s``. Those beyond what is wanted at all go at once.

    Keeps ``unused_since_s`` of every fragment up to date.
    """
    idle: list[tuple[float, str, HeldFragment]] = []
    ready = [h for h in held if h.in_pool]
    for one in ready:
        if one.name in used:
            one.unused_since_s = None
        elif one.unused_since_s is None:
            one.unused_since_s = now_s
        if one.unused_since_s is not None:
            idle.append((one.unused_since_s, one.name, one))
    idle.sort(key=lambda entry: entry[:2])
    beyond = max(len(ready) - wanted, 0)
    return [one for i, (since_s, _, one) in enumerate(idle) if i < beyond or now_s - since_s >= after_s]


def may_be_held(node: str, config: NodesConfig) -> bool:
    """Whether the lists of hosts and exclusions leave a node to us."""
    if config.hosts and not matches(node, config.hosts):
        return False
    return not matches(node, config.exclude)


def matches(node: str, patterns: tuple[str, ...]) -> bool:
    """Whether a node is one of ``node[01-03]``, ``gpu*``, ..."""
    names, wild = _named(patterns)
    return node in names or any(fnmatchcase(node, name) for name in wild)


@lru_cache(maxsize=64)
def _named(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """What patterns stand for: plain names, and those with ``*`` or ``?``. Large machines have lists of thousands."""
    every = [name for pattern in patterns for name in expanded(pattern)]
    wild = tuple(name for name in every if "*" in name or "?" in name)
    return frozenset(every).difference(wild), wild


def expanded(pattern: str) -> list[str]:
    """``node[01-03,7]`` as the names it stands for; ``*`` and ``?`` stay as they are."""
    head, bracket, rest = pattern.partition("[")
    if not bracket:
        return [pattern]
    inside, _, tail = rest.partition("]")
    names: list[str] = []
    for part in inside.split(","):
        first, dash, last = part.partition("-")
        numbers = range(int(first), int(last if dash else first) + 1)
        names += [f"{head}{number:0{len(first)}d}{end}" for number in numbers for end in expanded(tail)]
    return names


def expanded_list(text: str) -> list[str]:
    """``node[01-03],login1`` as names: commas outside of brackets separate patterns."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [name for part in parts if part for name in expanded(part)]
