"""FlowCon's Algorithms 1 and 2 on hand-worked traces, every transition between the lists; both of
its forms.
"""

from __future__ import annotations

import pytest
from support.policy_states import active, decide, state

from bftrainer.decide.domain.state import Losses
from bftrainer_papers.containers.hosts import Container, ContainerHost
from bftrainer_papers.flowcon import FlowConWorker
from bftrainer_papers.policies.flowcon import (
    FlowCon,
    FlowConMember,
    Lists,
    MeasuredGrowth,
    Rules,
    Stage,
)

RULES = Rules(alpha=0.05, interval_s=20.0, beta=2.0)
NL, WL, CL = Stage.NEW, Stage.WATCHING, Stage.COMPLETING


def member(name: str, stage: Stage, growth: float | None, limit: float = 1.0) -> FlowConMember:
    return FlowConMember(name, stage, limit, growth, loss=1.0)


@pytest.mark.parametrize(
    ("before", "growth", "after"),
    [
        (NL, 0.049, WL),  # lines 4-6
        (WL, 0.049, CL),  # lines 7-9
        (CL, 0.049, CL),
        (NL, 0.05, NL),  # lines 10-13
        (WL, 0.05, NL),
        (CL, 0.05, NL),
        (NL, None, NL),  # not measured yet
    ],
)
def test_algorithm_1_every_transition(before: Stage, growth: float | None, after: Stage) -> None:
    assert RULES.classified(member("c", before, growth)).stage is after


def test_growth_efficiency_is_the_fall_of_e_per_interval_over_the_resource_used() -> None:
    now = RULES.measured(
        FlowConMember("c", loss=0.8, used_s=10.0, at_s=100.0), MeasuredGrowth(0.6, 30.0), at_s=140.0
    )
    # P = 0.2 in 2 intervals = 0.1; R = 20 / 40 = 0.5; G = 0.2 (Eqns 4.1, 4.2).
    assert now.growth == pytest.approx(0.2)
    assert (now.loss, now.used_s, now.at_s) == (0.6, 30.0, 140.0)
    assert RULES.measured(now, MeasuredGrowth(0.5, 30.0), at_s=150.0) == now, (
        "no resource used: the last G stands"
    )
    assert RULES.measured(now, MeasuredGrowth(None, 40.0), at_s=150.0) == now, (
        "no report: the last G stands"
    )


def run(
    members: tuple[FlowConMember, ...], interval_s: float = 20.0
) -> tuple[dict[str, float], float]:
    """Algorithm 1 at an instant at which nothing new was measured."""
    seen = {m.id: MeasuredGrowth(m.loss, m.used_s) for m in members}
    after, interval_s = RULES.run(members, seen, 0.0, interval_s)
    return {m.id: m.limit for m in after}, interval_s


def test_limits_by_list() -> None:
    # sum G = 0.30 + 0.02 + 0.01; the watched one keeps its limit, the converging one has the floor
    # 1 / (2 * 3).
    members = (member("n", NL, 0.30), member("w", NL, 0.02, limit=0.7), member("c", WL, 0.01))
    limits, interval_s = run(members)
    assert limits == {"n": pytest.approx(0.30 / 0.33), "w": 0.7, "c": pytest.approx(1 / 6)}
    assert interval_s == 20.0


def test_a_converging_one_above_the_floor_gets_its_share() -> None:
    rules = Rules(alpha=0.5, beta=2.0)
    members = (member("a", CL, 0.3), member("b", NL, 0.7))
    after, _ = rules.run(
        members, {"a": MeasuredGrowth(1.0, 0), "b": MeasuredGrowth(1.0, 0)}, 0.0, 20.0
    )
    assert [m.limit for m in after] == [pytest.approx(0.3), pytest.approx(0.7)]


def test_all_converging_compete_freely_and_the_interval_doubles_once_per_run() -> None:
    members = (member("a", CL, 0.01, 0.2), member("b", WL, 0.02, 0.3), member("c", CL, 0.0, 0.1))
    assert run(members) == ({"a": 1.0, "b": 1.0, "c": 1.0}, 40.0)
    assert run(members, 40.0)[1] == 80.0


def test_thesis_6_1_3_a_newcomer_has_limit_1_and_a_converging_one_of_two_0_25() -> None:
    limits, _ = run((member("vae", CL, 0.01), member("mnist", NL, None)))
    assert limits == {"vae": 0.25, "mnist": 1.0}


def test_algorithm_2_an_arrival_or_a_departure_runs_algorithm_1_and_resets_the_interval() -> None:
    lists = Lists((member("a", CL, 0.01), member("b", CL, 0.01)), interval_s=160.0, next_s=1000.0)
    seen = {"a": MeasuredGrowth(1.0, 0.0), "b": MeasuredGrowth(1.0, 0.0)}
    assert RULES.listen(lists, seen, 900.0) is lists, (
        "nothing happened and the interval is not over"
    )
    backed_off = RULES.listen(lists, seen, 1000.0)
    assert (backed_off.interval_s, backed_off.next_s) == (320.0, 1320.0)
    arrival = RULES.listen(lists, {**seen, "c": MeasuredGrowth(None, 0.0)}, 900.0)
    assert [m.stage for m in arrival.members] == [CL, CL, NL]
    assert (arrival.interval_s, arrival.next_s) == (20.0, 920.0)
    departure = RULES.listen(lists, {"b": MeasuredGrowth(1.0, 0.0)}, 900.0)
    assert [m.id for m in departure.members] == ["b"]
    assert (departure.interval_s, departure.next_s) == (40.0, 940.0), (
        "reset to 20; the one left is in CL: doubled"
    )


def test_on_workers_each_for_itself() -> None:
    policy = FlowConWorker(RULES)
    workers = (
        ContainerHost((Container("a", 1.0), Container("b", 1.0))),
        ContainerHost((Container("c", 1.0),)),
        ContainerHost(),
    )
    decision, memory = policy.decide(0.0, workers, None)
    assert decision.limits == (("a", 1.0), ("b", 1.0), ("c", 1.0))
    assert (decision.moves, decision.wake_at_s) == ((), 20.0)
    later = (
        ContainerHost((Container("a", 0.5, 10.0), Container("b", 0.98, 10.0))),
        ContainerHost((Container("c", 0.99, 20.0),)),
        ContainerHost(),
    )
    decision, _ = policy.decide(20.0, later, memory)
    # a: 0.5 over half the processor for one interval: G = 1; b: 0.04, now watched; c: 0.01,
    # watched.
    assert dict(decision.limits) == {"a": pytest.approx(1 / 1.04), "b": 1.0, "c": 1.0}


def test_on_a_pool_limits_become_nodes() -> None:
    policy = FlowCon(Rules(alpha=0.05, interval_s=100.0))
    first = state([active("a", 5), active("b", 5)], 0)
    decision, memory = policy.decide(first, decide.event(0.0))
    assert (decision.counts, decision.wake_at_s) == ((5, 5), 100.0)
    start = Losses(2.0, 2.0, 10.0)
    _, memory = policy.decide(
        state(
            [active("a", 5, losses=start), active("b", 5, losses=start)], 0, memory=memory, at_s=1.0
        ),
        decide.event(1.0),
    )
    marked = [
        active("a", 5, node_s=500, losses=Losses(2.0, 2.0, 10.0)),
        active("b", 5, node_s=500, losses=Losses(2.0, 2.0, 10.0)),
    ]
    _, memory = policy.decide(state(marked, 0, memory=memory, at_s=100.0), decide.event(100.0))
    fallen = [
        active(
            "a", 5, node_s=1000, losses=Losses(2.0, 1.4, 20.0)
        ),  # 0.3 of the first over 50 pool-seconds: G = 0.6
        active("b", 5, node_s=1000, losses=Losses(2.0, 1.8, 20.0)),  # G = 0.2
    ]
    decision, _ = policy.decide(state(fallen, 0, memory=memory, at_s=200.0), decide.event(200.0))
    assert decision.counts == (8, 2), (
        "0.75 to 0.25 of ten nodes: 7.5 and 2.5, the odd node to the larger weight"
    )
