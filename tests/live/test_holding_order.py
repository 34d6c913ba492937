"""Parts of nodes: what may be held of one, and the order of holding and releasing, without a
scheduler.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.live_house import configuration

from bftrainer.cluster.model import (
    Availability,
    Device,
    Fragment,
    FragmentPhase,
    Idle,
    NodeRequest,
    NodeView,
    Observation,
)
from bftrainer.cluster.selection import part_of
from bftrainer.cluster.windows import PilotJobs
from bftrainer.config.pilot import PilotConfig
from bftrainer.fragment_names import node_of
from bftrainer.pilot.nodes import decisions
from bftrainer.pilot.nodes.classifier import PoolDemand
from bftrainer.pilot.nodes.cluster_view import ClusterView, EndedPoll, PollAnswer, after_poll
from bftrainer.pilot.nodes.decisions import Ask, GiveBack, next_steps
from bftrainer.pilot.nodes.held_fragments import HeldFragment
from bftrainer.pilot.nodes.holding_order import OrderFacts
from bftrainer.pilot.nodes.node_facts import Candidate, Moment, NodeFacts, NodeMemory
from bftrainer.pilot.nodes.poll_schedule import PollSchedule
from bftrainer.times import ElapsedS, PilotS

CONFIG = configuration({"nodes": {"unit": "gpu", "holder": "slurm", "unused_after_s": 5.0}})
EXCLUDES = configuration({"nodes": {"unit": "gpu", "holder": "slurm", "exclude": ["n[1-6]"]}})
OURS = PilotJobs(partitions=frozenset({"scavenge"}), cpus_per_gpu=2, mib_per_gpu=8_000)
MAIN, OTHER = frozenset({"main"}), frozenset({"other"})


def at(now_s: float) -> Moment:
    return Moment(PilotS(now_s), datetime.fromtimestamp(1_700_000_000 + now_s, UTC))


def candidate(node: str, gpus: int, part: bool) -> Candidate:
    request = NodeRequest(node, gpus=gpus, node_class="a100", cpus=gpus * part, mib=gpus * part)
    return Candidate(request, "a100", size=gpus)


def held(
    node: str, gpus: int, part: bool, phase: FragmentPhase = FragmentPhase.READY
) -> HeldFragment:
    fragment = Fragment(f"{node}#1{node}", phase, gpus=tuple(range(gpus)), is_part=part)
    slots = tuple(f"{fragment.name}.g{gpu}" for gpu in range(gpus))
    return HeldFragment(fragment, node, PilotS(0.0), "a100", PilotS(0.0), slots=slots)


def facts(
    fragments: Iterable[HeldFragment] = (),
    idle: Iterable[str] = (),
    candidates: Iterable[Candidate] = (),
    partitions: dict[str, frozenset[str]] | None = None,
    looked_s: float = 1.0,
    demand: int = 99,
    used: Iterable[str] = (),
    memory: NodeMemory | None = None,
    in_use: dict[str, int] | None = None,
) -> NodeFacts:
    fragments = tuple(fragments)
    where = {f"n{i}": MAIN for i in range(1, 9)} | (partitions or {})
    order = OrderFacts(tuple((node, where[node]) for node in idle), in_use or {}, where, looked_s)
    pool = frozenset(h.name for h in fragments if h.is_ready)
    return NodeFacts(
        CONFIG,
        fragments,
        pool,
        frozenset(used),
        candidates=tuple(candidates),
        demand=PoolDemand(((demand, None),)),
        memory=memory or NodeMemory(),
        order=order,
    )


def requested(known: NodeFacts) -> list[str]:
    return [
        r.node
        for step in next_steps(known, at(1.0)).steps
        if isinstance(step, Ask)
        for r in step.requests
    ]


STARTS = held("n1", 8, False, FragmentPhase.PENDING)
LEAVES = replace(held("n1", 8, False), given_back_s=PilotS(1.0))
THIRD = held("n3", 4, True)
JUST = replace(THIRD, ready_s=PilotS(2.0))
IDLE, PART = candidate("n1", 8, False), candidate("n2", 7, True)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(
            facts(idle=["n1"], candidates=[PART, IDLE]), ["n1"], id="the idle node first, alone"
        ),
        pytest.param(facts(candidates=[PART]), ["n2"], id="no idle node"),
        pytest.param(
            facts(idle=["n1"], candidates=[PART]),
            [],
            id="an idle node that is excluded or backed off",
        ),
        pytest.param(facts([STARTS], ["n1"], [PART]), [], id="its holder has not started"),
        pytest.param(
            facts([held("n1", 8, False)], ["n1"], [PART]), ["n2"], id="its holder has just started"
        ),
        pytest.param(facts([LEAVES], ["n1"], [PART]), [], id="it is released"),
        pytest.param(
            facts(idle=["n1"], candidates=[PART], partitions={"n1": OTHER}),
            ["n2"],
            id="another partition",
        ),
        pytest.param(
            facts(idle=["n1"], candidates=[PART], partitions={"n1": OTHER | MAIN}),
            [],
            id="one in common",
        ),
        pytest.param(
            facts(candidates=[PART, candidate("n3", 3, True)], demand=5),
            ["n2"],
            id="as many as are wanted",
        ),
        pytest.param(
            facts([held("n2", 5, True)], candidates=[PART]), [], id="one holder for each part"
        ),
        pytest.param(
            facts([THIRD], candidates=[PART], in_use={"n3": 4}), [], id="a part alone on its node"
        ),
        pytest.param(
            facts([THIRD], candidates=[PART], in_use={"n3": 5}), ["n2"], id="beside a job"
        ),
        pytest.param(
            facts([JUST], candidates=[PART], in_use={"n3": 4}), ["n2"], id="held since the look"
        ),
    ],
)
def test_what_is_requested(known: NodeFacts, expected: list[str]) -> None:
    assert requested(known) == expected


def given_back(known: NodeFacts) -> tuple[set[str], NodeMemory]:
    decision = next_steps(known, at(known.order.looked_s))
    steps = [step for step in decision.steps if isinstance(step, GiveBack)]
    return {name.partition("#")[0] for step in steps for name in step.names}, decision.memory


def test_an_idle_node_that_is_not_held_ends_parts_unused_ones_first() -> None:
    fragments = [
        held("n2", 7, True),
        held("n3", 4, True),
        held("n4", 8, False),
        held("n5", 2, True),
    ]
    ended, memory = [], NodeMemory()
    for look in (1.0, 1.0, 2.0, 3.0):
        used = [fragments[0].name, fragments[2].name]
        known = facts(
            fragments,
            ["n1"],
            (),
            {"n5": OTHER},
            look,
            used=[*used, fragments[3].name],
            memory=memory,
        )
        gone, memory = given_back(known)
        ended.append(gone)
    assert ended == [set(), set(), {"n3"}, {"n2", "n3"}], (
        "a look counts once, other partitions keep their parts"
    )


def test_a_node_that_is_held_in_time_ends_no_part() -> None:
    memory = NodeMemory()
    for look in range(1, 6):
        whole = [held("n1", 8, False)] if look > 1 else []
        known = facts(
            [held("n2", 7, True), *whole],
            ["n1"],
            (),
            looked_s=float(look),
            used=["n2#1n2"],
            memory=memory,
        )
        gone, memory = given_back(known)
        assert gone == set()


def test_whole_nodes_stay_while_parts_are_held() -> None:
    known = facts([held("n1", 8, False), held("n2", 7, True)], used=["n2#1n2"], demand=7)
    memory = NodeMemory(unused_since=(("n1#1n1", -99.0),))
    assert given_back(replace(known, memory=memory))[0] == set()
    alone = facts([held("n1", 8, False)], demand=0, memory=memory)
    assert given_back(alone)[0] == {"n1"}


def test_a_part_makes_way_for_a_larger_one_once_its_idle_gpus_have_cost_as_much_as_the_move() -> (
    None
):
    part, more = held("n2", 5, True), candidate("n2", 2, True)
    assert given_back(facts([part], candidates=[more]))[0] == {"n2"}, (
        "no trainer would lose anything"
    )
    assert given_back(facts([part], candidates=[candidate("n3", 2, True)]))[0] == set()
    moves = (
        (frozenset(part.slots), 40.0),
        (frozenset(part.slots[:1]), 20.0),
        (frozenset(["n3#1n3.g0"]), 99.0),
    )
    known = facts([part], candidates=[more], used=[part.name])
    known = replace(known, demand=replace(known.demand, move_costs=moves))
    first = next_steps(known, at(1.0))
    assert (first.steps, first.again_after_s) == ((), 20.0), (
        "60 GPU-seconds lost for 2 GPUs: 30 s; stale after 20 s"
    )
    later = replace(known, memory=first.memory)
    assert next_steps(later, at(30.0)).steps == ()
    assert isinstance(next_steps(later, at(31.0)).steps[0], GiveBack)
    for less in (
        {"demand": replace(known.demand, trainer_limits=((5, None),))},
        {"answers": False},
        {"candidates": (candidate("n2", 1, True),)},
        {"config": configuration({"nodes": {"quiet_hours": ["00:00-24:00"]}})},
        {"order": replace(known.order, idle=(("n1", MAIN),))},
    ):
        assert next_steps(replace(later, **less), at(31.0)).steps == (), less


def test_above_a_cap_parts_go_first() -> None:
    config = configuration({"nodes": {"unit": "gpu", "holder": "slurm", "max_nodes": 1}})
    known = facts([held("n2", 7, True), held("n1", 8, False)], used=["n2#1n2", "n1#1n1"])
    assert given_back(replace(known, config=config))[0] == {"n2"}


@pytest.mark.parametrize(
    ("idle", "expected"),
    [
        (Idle(7, 14, 56_000, 64_000), Idle(7, 14, 56_000)),
        (Idle(7, 5, 56_000, 64_000), Idle(2, 4, 16_000)),
        (Idle(7, 14, 20_000, 64_000), Idle(2, 4, 16_000)),
        (Idle(7, 1, 56_000, 64_000), Idle(0, 0, 0)),
        (Idle(7, 14, 28_000, 32_000), Idle(7, 14, 28_000)),  # at most an equal share
    ],
)
def test_a_part_leaves_cores_and_memory(idle: Idle, expected: Idle) -> None:
    node = NodeView("n1", Availability.SHARED, ("main",), (Device("a100", 8),), 16, idle=idle)
    assert part_of(node, OURS) == expected


class Lookup:
    def of_node(self, node: str) -> str:
        return "a100"

    def gpus(self, node: str) -> int:
        return 8


def shared(node: str, idle: Idle) -> NodeView:
    state = {0: Availability.BUSY, 8: Availability.FREE}.get(idle.gpus, Availability.SHARED)
    return NodeView(node, state, ("main", "scavenge"), (Device("a100", 8),), 16, idle=idle)


def look(
    view: ClusterView,
    at_s: float,
    *nodes: NodeView,
    waits: bool,
    config: PilotConfig = CONFIG,
    held: Iterable[str] = (),
) -> ClusterView:
    seen = Observation(at_s, nodes, lists_pending=not waits)
    poll = EndedPoll(
        ElapsedS(at_s), ElapsedS(at_s), PilotS(at_s), 0.0, PollAnswer(seen, PilotS(at_s), None)
    )
    return after_poll(view, poll, config, OURS, Lookup(), frozenset(held))


@dataclass
class Site:
    """Nodes of 8 GPUs. Main jobs are placed as Slurm 22.05 does, the fullest node first, without a
    preemption if there is any such node; a pilot looks every second. ``rescale_s``: of a trainer
    that has all GPUs of a part.
    """

    names: tuple[str, ...]
    config: PilotConfig = CONFIG
    demand: int = 99
    rescale_s: float = 0.0
    waits: bool = False
    now_s: float = 0.0
    used: Counter[str] = field(default_factory=Counter)
    held: dict[str, HeldFragment] = field(default_factory=dict)
    moved: list[tuple[str, int]] = field(default_factory=list)
    memory: NodeMemory = field(default_factory=NodeMemory)
    view: ClusterView = field(default_factory=lambda: ClusterView(PollSchedule(0.0)))

    def idle(self, node: str) -> int:
        return 8 - self.used[node] - (self.held[node].size if node in self.held else 0)

    def start(self, gpus: int) -> str | None:
        """Where a main job runs; it takes all GPUs of a holder of which it needs any."""
        free = {n: 8 - self.used[n] for n in self.names}
        fits = [n for n in self.names if free[n] >= gpus]
        ways = [n for n in fits if self.idle(n) >= gpus], [n for n in fits if self.used[n]], fits
        if (
            node := min(next(filter(None, ways), []), key=free.__getitem__, default=None)
        ) is not None:
            if self.idle(node) < gpus:
                del self.held[node]
            self.used[node] += gpus
        return node

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self._look()

    def _look(self) -> None:
        self.now_s += 1.0
        pool = frozenset(h.name for h in self.held.values())
        idle = {n: self.idle(n) for n in self.names}
        nodes = [shared(n, Idle(k, 2 * k, 8_000 * k, 64_000)) for n, k in idle.items()]
        self.view = look(
            self.view, self.now_s, *nodes, waits=self.waits, config=self.config, held=pool
        )
        moves = tuple((frozenset(h.slots), h.size * self.rescale_s) for h in self.held.values())
        known = NodeFacts(
            self.config,
            tuple(self.held.values()),
            pool,
            pool,
            candidates=self.view.candidates,
            demand=PoolDemand(((self.demand, None),), move_costs=moves),
            memory=self.memory,
            order=self.view.order,
        )
        decision = next_steps(known, at(self.now_s))
        self.memory = decision.memory
        for step in decision.steps:
            for name in step.names if isinstance(step, GiveBack) else ():
                gone = self.held.pop(node_of(name))
                self.moved += [(gone.node, gone.size)] if "more idle GPUs" in step.reason else []
            for r in step.requests if isinstance(step, Ask) else ():
                assert r.node not in self.held
                assert r.gpus <= self.idle(r.node)
                self.held[r.node] = held(r.node, r.gpus, part=r.cpus > 0)


def test_a_look_offers_parts_with_a_number_that_was_confirmed() -> None:
    first, three, five = (
        ClusterView(PollSchedule(0.0)),
        *(shared("n2", Idle(k, 16, 64_000, 64_000)) for k in (3, 5)),
    )
    quiet = look(first, 10.0, three, waits=False)
    assert [(c.request.gpus, c.request.cpus, c.request.mib, c.size) for c in quiet.candidates] == [
        (3, 6, 24_000, 3)
    ]
    waits = look(look(first, 10.0, three, waits=True), 12.0, five, waits=True)
    assert waits.candidates == (), "two GPUs may be between two jobs"
    assert [c.request.gpus for c in look(waits, 14.0, five, waits=True).candidates] == [5]
    kept = look(first, 10.0, replace(three, is_planned=True), waits=False)
    assert kept.candidates == (), "for a job, nobody knows until when"
    assert waits.order.idle == ()


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 9)), max_size=15),
    rescale_s=st.sampled_from([0.0, 2.0, 15.0]),
    waits=st.booleans(),
)
def test_a_part_becomes_whole_again_and_moves_cost_no_more_than_idle_gpus(
    steps: list[tuple[int, int, int]], rescale_s: float, waits: bool
) -> None:
    """Each step is the GPUs of a main job that starts, or 0 for one that ends, and looks after
    it.
    """
    site, jobs, idle_gpu_s = (
        Site(("n1", "n2"), rescale_s=rescale_s, waits=waits),
        list[tuple[str, int]](),
        0,
    )
    for gpus, number, looks in (*steps, (0, 0, int(8 * rescale_s) + 9)):
        if gpus and (node := site.start(gpus)) is not None:
            jobs.append((node, gpus))
        elif jobs and not gpus:
            node, gpus = jobs.pop(number % len(jobs))
            site.used[node] -= gpus
        moved = len(site.moved)
        for _ in range(looks):
            site.look()
            idle_gpu_s += sum(site.idle(node) for node in site.held)
            assert sum(size * rescale_s for _, size in site.moved) <= idle_gpu_s
        assert len(site.moved) - moved <= 2, "once for each node, if no main job starts or ends"
    assert [site.idle(node) for node in site.names] == [0, 0]


def hours(looks: int, seed: int = 1, **pilot: Any) -> tuple[float, int]:
    """Generated main jobs on 12 nodes: the share of those for 1 to 3 whole nodes that find too few,
    and how many others get an idle node although they fit beside jobs.
    """
    chance, jobs, found, wrong, at_s = (
        random.Random(seed),
        list[tuple[float, str, int]](),
        list[bool](),
        0,
        0.0,
    )
    site = Site(tuple(f"n{i}" for i in range(1, 13)), **pilot)
    for _ in range(150):
        at_s += chance.expovariate(1 / 60)
        gpus = chance.choices((1, 2, 4, 8), (50, 20, 15, 15))[0]
        nodes, length_s = chance.choice((1, 1, 2, 3)), chance.expovariate(1 / 1500)
        while jobs and jobs[0][0] < at_s:
            _, node, count = heappop(jobs)
            site.used[node] -= count
            site.look(looks)
        if gpus == 8:
            found.append(sum(not site.used[node] for node in site.names) >= nodes)
        for _ in range(nodes if gpus == 8 and found[-1] else gpus < 8):
            fits = any(0 < site.used[node] <= 8 - gpus for node in site.names)
            if (began := site.start(gpus)) is not None:
                wrong += fits and site.used[began] == gpus
                heappush(jobs, (at_s + length_s, began, gpus))
        site.look(looks)
    return 1 - sum(found) / len(found), wrong


def test_main_jobs_leave_as_many_nodes_idle_as_without_a_pilot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether it holds all GPUs, has no use for some or may not have some nodes."""
    pilots: tuple[dict[str, Any], ...] = ({}, {"demand": 12}, {"config": EXCLUDES})
    assert hours(4) == hours(0), "all are held: each job is where it would be"
    assert [hours(4, **pilot)[1] for pilot in pilots] == [0, 0, 0]
    monkeypatch.setattr(decisions, "barred_partitions", lambda *_: frozenset())
    monkeypatch.setattr(decisions, "parts_to_end", lambda *_: [])
    assert [hours(4, **pilot)[1] > 0 for pilot in pilots] == [False, True, True], (
        "red without the rule"
    )
