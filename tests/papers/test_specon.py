"""SpeCon's Algorithms 3, 4 and 5 on hand-worked traces."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.errors import UserError
from bftrainer.plugins import build_policy
from bftrainer_papers.containers.hosts import Container, ContainerHost
from bftrainer_papers.containers.specon import (
    ConvergenceCategory,
    MonitorState,
    SpeCon,
    TrackedContainer,
    rebalance,
    scores,
    target,
)

POLICY = SpeCon(alpha=0.01, interval_s=30.0)
PC, WC, CC = (
    ConvergenceCategory.PROGRESSING,
    ConvergenceCategory.WATCHING,
    ConvergenceCategory.CONVERGED,
)


@pytest.mark.parametrize(
    ("before", "fell", "previous", "after", "asks"),
    [
        (PC, 0.005, 0.006, WC, False),  # lines 6-9
        (WC, 0.005, 0.006, CC, False),  # lines 10-12
        (CC, 0.005, 0.006, CC, True),  # lines 13-16
        (PC, 0.005, 0.004, PC, False),  # lines 17-18: slow, but not slower
        (WC, 0.005, 0.005, WC, False),
        (CC, 0.005, 0.004, CC, False),
        (PC, 0.02, 0.03, PC, False),  # lines 19-22
        (WC, 0.02, 0.01, PC, False),
        (CC, 0.02, 0.01, PC, False),
        (PC, 0.005, math.inf, WC, False),  # no previous interval
    ],
)
def test_algorithm_3_every_transition(
    before: ConvergenceCategory,
    fell: float,
    previous: float,
    after: ConvergenceCategory,
    asks: bool,
) -> None:
    now, asked = POLICY.monitored(TrackedContainer("c", before, 0.5, previous), 0.5 - fell, 60.0)
    assert (now.category, asked) == (after, asks)
    assert now.growth == pytest.approx(fell)


def test_who_has_been_moved_is_no_longer_watched() -> None:
    moved = TrackedContainer("c", CC, 0.5, 0.006, migrated=True)
    assert POLICY.monitored(moved, 0.1, 60.0) == (moved, False)


def cluster(
    *homes: list[ConvergenceCategory],
) -> tuple[dict[str, int], dict[str, TrackedContainer]]:
    """Containers c0, c1, ... worker by worker."""
    at, tracked = {}, {}
    for w, categories in enumerate(homes):
        for category in categories:
            name = f"c{len(at)}"
            at[name] = w
            tracked[name] = TrackedContainer(name, category)
    return at, tracked


def test_thesis_6_2_3_job_1_moves_from_worker_4_to_worker_2() -> None:
    """3, 2, 2 jobs on workers 1-3, 5 others on worker 4; scores 6, 3.5, 4, 11."""
    at, tracked = cluster([PC, PC, PC], [PC, WC], [PC, PC], [CC, PC, PC, PC, PC, PC])
    assert scores(at, tracked, 4) == [6.0, 3.5, 4.0, 11.0]
    assert target(3, at, tracked, (ContainerHost(),) * 4) == 1


def test_algorithm_4_stays_where_its_own_worker_is_among_the_least() -> None:
    at, tracked = cluster([PC], [CC, CC])
    assert target(1, at, tracked, (ContainerHost(), ContainerHost())) == 1


def test_algorithm_4_ties_go_to_the_least_consumption() -> None:
    at, tracked = cluster([PC], [PC], [CC, PC])
    workers = (
        ContainerHost(consumption=0.9),
        ContainerHost(consumption=0.4),
        ContainerHost(consumption=0.1),
    )
    assert target(2, at, tracked, workers) == 1


def workers_of(losses: list[dict[str, float]]) -> tuple[ContainerHost, ...]:
    return tuple(
        ContainerHost(tuple(Container(name, loss) for name, loss in here.items()))
        for here in losses
    )


def test_a_whole_trace_from_arrival_to_the_move() -> None:
    """c slows down on a worker with two that grow; the other worker has one: PC, WC, CC, then the
    request.
    """
    falls = {
        "c": [1.0, 0.5, 0.495, 0.491, 0.488],
        "a": [1.0, 0.9, 0.8, 0.7, 0.6],
        "b": [1.0, 0.9, 0.8, 0.7, 0.6],
    }
    falls["d"] = falls["a"]
    memory: object = None
    seen = []
    for k in range(5):
        now = {name: losses[k] for name, losses in falls.items()}
        layout = workers_of([{n: now[n] for n in "abc"}, {"d": now["d"]}])
        decision, memory = POLICY.decide(30.0 * k, layout, memory)
        seen.append((next(t.category for t in memory.tracked if t.id == "c"), decision.moves))
    assert seen == [(PC, ()), (PC, ()), (WC, ()), (CC, ()), (CC, (("c", 1),))]
    moved = next(t for t in memory.tracked if t.id == "c")
    assert moved.migrated


def test_no_request_where_at_most_one_other_grows() -> None:
    watch = MonitorState(
        (TrackedContainer("c", CC, 0.5, 0.006), TrackedContainer("a", PC, 0.5, 0.1)), next_s=30.0
    )
    decision, memory = POLICY.decide(30.0, workers_of([{"c": 0.495, "a": 0.4}, {}]), watch)
    assert decision.moves == ()
    assert not memory.tracked[0].migrated


def converged(*homes: int) -> tuple[dict[str, int], dict[str, TrackedContainer]]:
    """Container k is on homes[k] and converged at k seconds: the last has the shortest duration."""
    at = {f"c{k}": w for k, w in enumerate(homes)}
    return at, {name: TrackedContainer(name, CC, converged_s=float(k)) for k, name in enumerate(at)}


def test_algorithm_5_idle_workers_fill_up_to_the_balance_factor_shortest_duration_first() -> None:
    at, tracked = converged(0, 0, 0, 1, 1, 1)  # bf = 6 // 3 = 2, worker 2 is idle
    assert rebalance(at, tracked, 3) == [("c5", 2), ("c4", 2)]


def test_algorithm_5_without_idle_workers_those_below_bf_minus_1() -> None:
    at, tracked = converged(0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2)  # bf = 4; worker 1 has 1 < 3
    assert rebalance(at, tracked, 3) == [("c11", 1), ("c10", 1)]


def test_algorithm_5_never_takes_a_lone_container_nor_one_twice() -> None:
    at, tracked = converged(0, 1)
    assert rebalance(at, tracked, 3) == [], "bf = 0"
    at, tracked = converged(0, 0, 1)
    tracked["c1"] = replace(tracked["c1"], rebalanced=True)
    assert rebalance(at, tracked, 3) == [("c0", 2)], "c1 was moved before, c2 is alone"


def test_rebalancing_waits_until_all_have_converged() -> None:
    layout = workers_of([{"a": 0.1, "b": 0.1}, {}])
    busy = MonitorState(
        (TrackedContainer("a", CC, 0.1), TrackedContainer("b", PC, 0.1)), next_s=99.0
    )
    assert POLICY.decide(5.0, layout, busy)[0].moves == ()
    calm = MonitorState(
        (
            TrackedContainer("a", CC, 0.1, converged_s=1.0),
            TrackedContainer("b", CC, 0.1, converged_s=2.0),
        ),
        next_s=99.0,
    )
    decision, memory = POLICY.decide(5.0, layout, calm)
    assert decision.moves == (("b", 1),)
    assert [t.rebalanced for t in memory.tracked] == [False, True]


def test_on_a_pool_it_is_refused_with_the_reason() -> None:
    with pytest.raises(UserError, match="a pool allocates whole nodes"):
        build_policy("specon", PolicySettings(Exact(), OBJECTIVES["throughput"]))
