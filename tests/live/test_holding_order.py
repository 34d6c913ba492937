"""Parts of nodes: what may be held of one, and the order of holding and releasing, without a scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from live_house import configuration

from bftrainer.core.windows import PilotJobs
from bftrainer.domain.cluster import (
    Availability,
    Device,
    Fragment,
    FragmentPhase,
    Idle,
    NodeRequest,
    NodeView,
    Observation,
)
from bftrainer.domain.times import ElapsedS, PilotS
from bftrainer.live.nodes.classifier import PoolDemand
from bftrainer.live.nodes.cluster_view import ClusterView, EndedPoll, PollAnswer, after_poll
from bftrainer.live.nodes.decisions import Ask, GiveBack, next_steps
from bftrainer.live.nodes.held_fragments import HeldFragment
from bftrainer.live.nodes.holding_order import OrderFacts
from bftrainer.live.nodes.node_facts import Candidate, Moment, NodeFacts, NodeMemory
from bftrainer.live.nodes.poll_schedule import PollSchedule
from bftrainer.live.nodes.selection import part_of

CONFIG = configuration({"nodes": {"unit": "gpu", "holder": "slurm", "unused_after_s": 5.0}})
OURS = PilotJobs(partitions=frozenset({"scavenge"}), cpus_per_gpu=2, mib_per_gpu=8_000)
MAIN, OTHER = frozenset({"main"}), frozenset({"other"})


def at(now_s: float) -> Moment:
    return Moment(PilotS(now_s), datetime.fromtimestamp(1_700_000_000 + now_s, timezone.utc))


def candidate(node: str, gpus: int, part: bool) -> Candidate:
    request = NodeRequest(node, gpus=gpus, node_class="a100", cpus=gpus * part, mib=gpus * part)
    return Candidate(request, "a100", size=gpus)


def held(node: str, gpus: int, part: bool, phase: FragmentPhase = FragmentPhase.READY) -> HeldFragment:
    fragment = Fragment(f"{node}#1{node}", phase, gpus=tuple(range(gpus)), is_part=part)
    slots = tuple(f"{fragment.name}.g{gpu}" for gpu in range(gpus))
    return HeldFragment(fragment, node, PilotS(0.0), "a100", PilotS(0.0), slots=slots)


def facts(
    fragments: Iterable[HeldFragment] = (), idle: Iterable[str] = (), candidates: Iterable[Candidate] = (),
    partitions: dict[str, frozenset[str]] | None = None, looked_s: float = 1.0, demand: int = 99,
    used: Iterable[str] = (), memory: NodeMemory | None = None,
) -> NodeFacts:  # fmt: skip
    fragments = tuple(fragments)
    where = {f"n{i}": MAIN for i in range(1, 9)} | (partitions or {})
    order = OrderFacts(tuple((node, where[node]) for node in idle), where, looked_s)
    pool = frozenset(h.name for h in fragments if h.is_ready)
    return NodeFacts(
        CONFIG, fragments, pool, frozenset(used), candidates=tuple(candidates), demand=PoolDemand(((demand, None),)),
        memory=memory or NodeMemory(), order=order,
    )  # fmt: skip


def requested(known: NodeFacts) -> list[str]:
    return [r.node for step in next_steps(known, at(1.0)).steps if isinstance(step, Ask) for r in step.requests]


IDLE, PART = candidate("n1", 8, False), candidate("n2", 7, True)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(facts(idle=["n1"], candidates=[PART, IDLE]), ["n1"], id="the idle node first, alone"),
        pytest.param(facts(candidates=[PART]), ["n2"], id="no idle node"),
        pytest.param(facts(idle=["n1"], candidates=[PART]), [], id="an idle node that is excluded or backed off"),
        pytest.param(
            facts([held("n1", 8, False, FragmentPhase.PENDING)], ["n1"], [PART]), [], id="its holder has not started"
        ),
        pytest.param(facts([held("n1", 8, False)], ["n1"], [PART]), ["n2"], id="its holder has just started"),
        pytest.param(
            facts([replace(held("n1", 8, False), given_back_s=PilotS(1.0))], ["n1"], [PART]), [], id="it is released"
        ),
        pytest.param(facts(idle=["n1"], candidates=[PART], partitions={"n1": OTHER}), ["n2"], id="another partition"),
        pytest.param(
            facts(idle=["n1"], candidates=[PART], partitions={"n1": OTHER | MAIN}), [], id="a partition in common"
        ),
        pytest.param(facts(candidates=[PART, candidate("n3", 3, True)], demand=5), ["n2"], id="as many as are wanted"),
        pytest.param(facts([held("n2", 5, True)], candidates=[PART]), [], id="one holder for each part"),
    ],
)
def test_what_is_requested(known: NodeFacts, expected: list[str]) -> None:
    assert requested(known) == expected


def given_back(known: NodeFacts) -> tuple[set[str], NodeMemory]:
    decision = next_steps(known, at(known.order.looked_s))
    steps = [step for step in decision.steps if isinstance(step, GiveBack)]
    return {name.partition("#")[0] for step in steps for name in step.names}, decision.memory


def test_an_idle_node_that_is_not_held_ends_parts_unused_ones_first() -> None:
    fragments = [held("n2", 7, True), held("n3", 4, True), held("n4", 8, False), held("n5", 2, True)]
    ended, memory = [], NodeMemory()
    for look in (1.0, 1.0, 2.0, 3.0):
        used = [fragments[0].name, fragments[2].name]
        known = facts(fragments, ["n1"], (), {"n5": OTHER}, look, used=[*used, fragments[3].name], memory=memory)
        gone, memory = given_back(known)
        ended.append(gone)
    assert ended == [set(), set(), {"n3"}, {"n2", "n3"}], "a look counts once, other partitions keep their parts"


def test_a_node_that_is_held_in_time_ends_no_part() -> None:
    memory = NodeMemory()
    for look in range(1, 6):
        whole = [held("n1", 8, False)] if look > 1 else []
        known = facts([held("n2", 7, True), *whole], ["n1"], (), looked_s=float(look), used=["n2#1n2"], memory=memory)
        gone, memory = given_back(known)
        assert gone == set()


def test_whole_nodes_stay_while_parts_are_held() -> None:
    known = facts([held("n1", 8, False), held("n2", 7, True)], used=["n2#1n2"], demand=7)
    memory = NodeMemory(unused_since=(("n1#1n1", -99.0),))
    assert given_back(replace(known, memory=memory))[0] == set()
    alone = facts([held("n1", 8, False)], demand=0, memory=memory)
    assert given_back(alone)[0] == {"n1"}


def test_an_unused_part_makes_way_for_a_larger_one() -> None:
    more = candidate("n2", 2, True)
    assert given_back(facts([held("n2", 5, True)], candidates=[more], used=["n2#1n2"]))[0] == set()
    assert given_back(facts([held("n2", 5, True)], candidates=[more]))[0] == {"n2"}
    assert given_back(facts([held("n2", 5, True)], candidates=[candidate("n3", 2, True)]))[0] == set()


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


def test_a_look_offers_parts_with_the_smallest_number_that_was_confirmed() -> None:
    def shared(gpus: int, planned: bool = False) -> NodeView:
        idle = Idle(gpus, 16, 64_000, 64_000)
        return NodeView(
            "n2", Availability.SHARED, ("main", "scavenge"), (Device("a100", 8),), 16, idle=idle, is_planned=planned
        )

    def look(view: ClusterView, at_s: float, *nodes: NodeView, hides: bool) -> ClusterView:
        seen = Observation(at_s, nodes, lists_pending=not hides)
        poll = EndedPoll(ElapsedS(at_s), ElapsedS(at_s), PilotS(at_s), 0.0, PollAnswer(seen, PilotS(at_s), None))
        return after_poll(view, poll, CONFIG, OURS, Lookup(), frozenset())

    first = ClusterView(PollSchedule(0.0))
    quiet = look(first, 10.0, shared(3), hides=False)
    assert [(c.request.gpus, c.request.cpus, c.request.mib, c.size) for c in quiet.candidates] == [(3, 6, 24_000, 3)]
    waits = look(look(first, 10.0, shared(3), hides=True), 12.0, shared(5), hides=True)
    assert [c.request.gpus for c in waits.candidates] == [3], "two GPUs may be between two jobs"
    assert look(first, 10.0, shared(3, planned=True), hides=False).candidates == (), (
        "kept for a job, nobody knows until when"
    )
    assert waits.order.idle == ()
