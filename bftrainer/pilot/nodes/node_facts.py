"""The input of a decision about nodes. Frozen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import datetime

from bftrainer.cluster.model import UNKNOWN_PILOT, HoldingPermit, LimitWait, NodeRequest, PeerPilot
from bftrainer.config.pilot import PilotConfig
from bftrainer.decide.core.demand_cap import DemandCap
from bftrainer.decide.domain.state import Nodes
from bftrainer.decide.yielding.blind import BlindMemory, Glance
from bftrainer.decide.yielding.facts import WaitingQueue
from bftrainer.decide.yielding.listed_holders import ListMemory
from bftrainer.decide.yielding.low_water import LowWater
from bftrainer.pilot.nodes.classifier import PoolDemand
from bftrainer.pilot.nodes.held_fragments import HeldFragment
from bftrainer.pilot.nodes.holding_order import OrderFacts, UnheldNodes
from bftrainer.pilot.nodes.node_requests import BackOff
from bftrainer.sharing.fair_share import ShareMemory, Sharer
from bftrainer.times import PilotS


@dataclass(frozen=True, slots=True)
class Candidate:
    """An idle node that the configuration allows, or the free part of a node that main jobs share.

    ``not_before_s`` is the end of its back-off, ``size`` the number of its slots (1 for a node,
    else its GPUs), ``since_s`` when it was first seen idle.
    """

    request: NodeRequest
    node_class: str
    not_before_s: float = 0.0
    size: int = 1
    since_s: float = 0.0

    @property
    def is_part(self) -> bool:
        return self.request.cpus > 0


@dataclass(frozen=True, slots=True)
class LimitWaits:
    """Main-queue jobs that wait for a limit for which holders count, and when that was observed (0:
    there are none).
    """

    at_s: PilotS = PilotS(0.0)
    jobs: tuple[LimitWait, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What a decision remembers for the next one.

    - ``unused_since``: (fragment, since when no trainer uses it) of the pool.
    - ``caps``: demand caps by class.
    - ``left_idle``: nodes that were left idle to save power.
    - ``room``: how many fragments were released for main jobs that wait for a limit; ``room_s``:
      when the last of these fragments was released, or was still leaving.
    - ``share``: how the split among users went.
    - ``unheld``: idle nodes that are not held (:mod:`.holding_order`).
    - ``beside``: ((part, GPUs), since when so many GPUs are idle beside the part).
    - ``yielding``, ``blind``: nodes that were offered to main jobs
      (:mod:`bftrainer.decide.yielding`).
    - ``shortened``: (fragment, when its holder was told to end earlier).
    - ``low_water``: the low-water mark of each class, as of the look at ``low_water_s``.
    """

    unused_since: tuple[tuple[str, float], ...] = ()
    caps: tuple[DemandCap, ...] = ()
    left_idle: tuple[str, ...] = ()
    room: int = 0
    room_s: float = -math.inf
    share: ShareMemory = field(default_factory=ShareMemory)
    unheld: UnheldNodes = field(default_factory=UnheldNodes)
    beside: tuple[tuple[tuple[str, int], float], ...] = ()
    yielding: ListMemory = field(default_factory=ListMemory)
    blind: BlindMemory = field(default_factory=BlindMemory)
    shortened: tuple[tuple[str, float], ...] = ()
    low_water: tuple[tuple[str, LowWater], ...] = ()
    low_water_s: float = -math.inf


@dataclass(frozen=True, slots=True)
class Harvest:
    """The nodes that a pilot could hold if no other did, at a look at ``at_s``: (node, class) of
    ``idle`` ones, and of those that holders of ``others`` have.
    """

    at_s: float = -math.inf
    idle: tuple[tuple[str, str], ...] = ()
    others: tuple[tuple[str, str], ...] = ()

    def classes(self) -> set[str]:
        return {node_class for _, node_class in (*self.idle, *self.others)}

    def of_class(self, node_class: str) -> set[str]:
        """Return the nodes of a class that a pilot could hold if no other did."""
        return {node for node, own_class in (*self.idle, *self.others) if own_class == node_class}

    def held_by_others(self, node_class: str) -> set[str]:
        """Return the nodes of a class that other pilots hold."""
        return {node for node, own_class in self.others if own_class == node_class}


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """All that a decision depends on but the time.

    - ``used``: fragments that the core gave to trainers or that trainers still occupy.
    - ``window_ends``: (fragment, when it has to be released), where the scheduler's plans are
      known; ``limit_ends``: the same for the time limits of holders.
    - ``asleep``: nodes that are powered down, candidates or not.
    - ``peer_holders``: the holder jobs of peer pilots.
    - ``rivals``: the pilots that may use some of the ``usable`` nodes, which are all that the
      configuration allows; ``own``: this pilot.
    - ``order``: the latest look at single GPUs; empty where trainers get whole nodes.
    - ``answers``: the last poll of the scheduler succeeded.
    - ``permit``: whether the site allows nodes to be held, and who frees them for main jobs. If
      this pilot does, ``queue`` or ``glance`` shows whether it has to, and ``harvest`` which nodes
      could be held.
    - ``clock_offset_s``: by how much this host's clock is ahead of the scheduler's.
    """

    config: PilotConfig
    fragments: tuple[HeldFragment, ...] = ()
    pool: Nodes = frozenset()
    used: Nodes = frozenset()
    window_ends: tuple[tuple[str, float], ...] = ()
    limit_ends: tuple[tuple[str, float], ...] = ()
    candidates: tuple[Candidate, ...] = ()
    asleep: frozenset[str] = frozenset()
    peer_holders: tuple[str, ...] = ()
    limit_waits: LimitWaits = field(default_factory=LimitWaits)
    trainers: frozenset[str] = frozenset()
    demand: PoolDemand = field(default_factory=PoolDemand)
    answers: bool = True
    memory: NodeMemory = field(default_factory=NodeMemory)
    rivals: tuple[Sharer, ...] = ()
    usable: int = 0
    own: PeerPilot = UNKNOWN_PILOT
    order: OrderFacts = field(default_factory=OrderFacts)
    permit: HoldingPermit = field(default_factory=HoldingPermit)
    queue: WaitingQueue | None = None
    glance: Glance | None = None
    harvest: Harvest = field(default_factory=Harvest)
    clock_offset_s: float | None = None

    def demand_of(self, node_class: str, now_s: float = math.inf) -> int:
        """Return how many nodes of a class trainers would use.

        A demand cap lowers the number to what trainers have used, as long as no more nodes are
        available at ``now_s`` than when the cap was set. Without ``now_s``, nodes that are backed
        off count as available.
        """
        demand = self.demand.of(node_class)
        for cap in self.memory.caps:
            if cap.node_class == node_class and self.available(node_class, now_s) <= cap.tried:
                return min(demand, cap.nodes)
        return demand

    def available(self, node_class: str, now_s: float = math.inf) -> int:
        """Return how many nodes of a class are held, or idle and not backed off at ``now_s``. A
        candidate on a node where a fragment is held does not count again.
        """
        held_nodes = {held_fragment.node for held_fragment in self.fragments}
        idle = [
            candidate
            for candidate in self.candidates
            if candidate.node_class == node_class and candidate.not_before_s <= now_s
        ]
        held_sizes = [
            held_fragment.size
            for held_fragment in self.fragments
            if (held_fragment.node_class or "") == node_class and held_fragment.given_back_s is None
        ]
        return sum(held_sizes) + sum(
            candidate.size for candidate in idle if candidate.request.node not in held_nodes
        )

    @property
    def max_slots(self) -> float:
        """The largest number of slots that may be held: ``nodes.max_nodes`` where trainers get
        whole nodes. It counts nodes, so it is no limit for the slots of divided nodes.
        """
        nodes = self.config.nodes
        return math.inf if nodes.unit.divides_nodes else nodes.max_nodes

    @property
    def total_demand(self) -> int:
        """The number of nodes of all classes that trainers would use, within the demand caps."""
        classes = {candidate.node_class for candidate in self.candidates} | {
            held_fragment.node_class or "" for held_fragment in self.fragments
        }
        capped = {cap.node_class for cap in self.memory.caps}
        if not classes or not classes <= capped:
            # In a class without a cap, trainers could use all that they want.
            return self.demand.total
        other_classes = sum(
            n
            for n, own_class in self.demand.trainer_limits
            if own_class is not None and own_class not in classes
        )
        return min(self.demand.total, other_classes + sum(map(self.demand_of, classes)))


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of a decision: the pilot's time, the local time, and the seconds since the scheduler
    last answered.
    """

    now_s: PilotS
    local_time: datetime
    silent_s: float = 0.0


def with_back_off(
    candidates: tuple[Candidate, ...], back_offs: tuple[BackOff, ...]
) -> tuple[Candidate, ...]:
    """Return the candidates, with ``not_before_s`` of those that are backed off."""
    until = {back_off.node: back_off.until_s for back_off in back_offs}
    with_ends = []
    for candidate in candidates:
        if candidate.request.node in until:
            candidate = replace(candidate, not_before_s=until[candidate.request.node])
        with_ends.append(candidate)
    return tuple(with_ends)
