"""Pools that fill: the trainings beside one do as without it, and it gets all that they leave."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.windows import window
from support.brute_force import sizes, worth

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.core.coordinator import adopt, decide, observe
from bftrainer.decide.domain.events import Event, PoolChanged, TrainerSubmitted
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.problem import Problem
from bftrainer.decide.domain.state import State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.errors import InvalidValueError
from bftrainer.plugins import build_policy
from bftrainer_replay.simulation.bounds import bounds_of
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.simulation.summary import summarize

NODES = [f"n{i:02d}" for i in range(12)]
CURVE = Curve((1, 2, 4, 8), (1.0, 1.8, 3.0, 4.0))


def training(name: str, least: int = 1, most: int = 8, samples: float = 2000.0) -> Trainer:
    return Trainer(name, CURVE, least, most, 18.0, 12.0, samples)


def pool(name: str = "pool", most: int = 12, **others: object) -> Trainer:
    curve = Curve((1, most), (1.0, float(most))) if most > 1 else Curve((1,), (1.0,))
    return Trainer(name, curve, 1, most, 0.0, 0.0, start_s=20.0, fill=True, **others)  # type: ignore[arg-type]


def policy(objective: str = "fair", allocator: object = None) -> object:
    return build_policy(
        "bftrainer", PolicySettings(allocator or Exact(), OBJECTIVES[objective], 120.0, 7)
    )  # type: ignore[arg-type]


def event(
    at_s: float, joined: set[str] = frozenset(), left: set[str] = frozenset(), *new: Trainer
) -> Event:  # type: ignore[assignment]
    changes = (PoolChanged(frozenset(joined), frozenset(left)), *map(TrainerSubmitted, new))
    return Event(at_s, changes)


STORIES = st.lists(st.sets(st.sampled_from(NODES)), min_size=1, max_size=8)


@pytest.mark.parametrize("objective", ["fair", "soon", "most"])
@settings(max_examples=30, deadline=None)
@given(pools=STORIES, places=st.sampled_from([None, 1, 3]), least=st.integers(1, 3))
def test_trainings_get_the_same_nodes_at_the_same_times(
    objective: str, pools: list[set[str]], places: int | None, least: int
) -> None:
    flips = (
        (100.0 * i, was ^ now) for i, (was, now) in enumerate(pairwise(pools), 1) if was != now
    )
    log = window(100.0 * len(pools) + 500.0, pools[0], *flips, nodes=12)
    trainings = tuple(Arrival(60.0 * i, training(f"t{i}", least, 8 - i)) for i in range(4))
    found = []
    for arrivals in (trainings, (Arrival(0.0, pool()), *trainings)):
        scenario = Scenario(log, arrivals, places, CostModel.STALL)
        outcome = play(scenario, policy(objective))  # type: ignore[arg-type]
        runs = {run.trainer.id: run for run in outcome.runs}
        found.append(
            {
                name: (run.samples, run.finished_s, run.node_s, run.preemptions, run.rescales)
                for name, run in runs.items()
                if name != "pool"
            }
        )
        if len(arrivals) > len(trainings):
            summary = summarize(
                "bftrainer",
                scenario,
                outcome,
                bounds_of(replace(scenario, max_parallel=places or 4)),
            )
            assert summary.unused_node_h == pytest.approx(0.0, abs=1e-9), (
                "the pool has all that trainings leave"
            )
            assert summary.submitted == len(trainings)
            lengths = runs["pool"].samples
            assert 0 <= lengths <= runs["pool"].node_s
    assert found[0] == found[1]


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    held=st.lists(st.integers(0, 3), min_size=2, max_size=2),
    nodes=st.integers(1, 9),
)
def test_the_decision_is_the_lexicographic_optimum_of_trainings_then_pool(
    data: st.DataObject, held: list[int], nodes: int
) -> None:
    most = data.draw(st.integers(1, 9))
    names = NODES[:nodes]
    seen: list[Problem] = []

    class Witness:
        name = "exact"

        def solve(self, problem: Problem) -> object:
            seen.append(problem)
            return Exact().solve(problem)

    decided = policy("most", Witness())
    state = observe(
        State(3),
        event(
            0.0,
            set(names[: max(sum(held), 1)]),
            set(),
            training("a"),
            training("b"),
            pool(most=most),
        ),
    )
    state = adopt(state, decide(state, decided, event(0.0)))  # type: ignore[arg-type]
    now = event(50.0, set(names) - state.pool)
    state = observe(state, now)
    seen.clear()
    plan = decide(state, decided, now)  # type: ignore[arg-type]
    assert seen, "the policy has solved a problem"
    problem = seen[-1]
    weighted = [problem.weighted(j) for j in range(len(problem.demands))]
    assert "pool" not in {demand.id for demand in weighted}
    best = max(
        (sum(worth(d, n, problem.forward_s) for d, n in zip(weighted, counts, strict=True)), filled)
        for counts in product(*(sizes(d, nodes) for d in weighted))
        for filled in range(min(most, nodes) + 1)
        if sum(counts) + filled <= nodes
    )
    counts = dict(zip((a.trainer.id for a in state.active), plan.decision.counts, strict=True))
    value = sum(worth(d, counts[d.id], problem.forward_s) for d in weighted)
    assert value == pytest.approx(best[0])
    assert counts["pool"] == min(most, nodes - counts["a"] - counts["b"])


def test_pools_share_the_rest_evenly_and_keep_their_nodes() -> None:
    state = observe(
        State(1), event(0.0, set(NODES[:9]), set(), pool("p"), pool("q", most=2), pool("r"))
    )
    plan = decide(state, policy(), event(0.0))  # type: ignore[arg-type]
    assert sorted(plan.decision.counts) == [2, 3, 4]
    state = observe(adopt(state, plan), event(60.0, {NODES[9]}, {NODES[0]}))
    again = decide(state, policy(), event(60.0))  # type: ignore[arg-type]
    assert sum(again.decision.counts) == 9
    for a, after in zip(state.active, again.nodes, strict=True):
        assert len(a.nodes - after) <= 1
    with pytest.raises(InvalidValueError, match="trainer id 'p' is taken"):
        observe(state, event(70.0, set(), set(), pool("p")))


def test_a_pool_leaves_out_nodes_that_the_scheduler_needs_before_a_worker_could_start() -> None:
    ends = ((NODES[0], 15.0), (NODES[1], 25.0))
    state = observe(State(1), replace(event(0.0, set(NODES[:3]), set(), pool()), window_ends=ends))
    plan = decide(state, policy(), event(0.0))  # type: ignore[arg-type]
    assert plan.nodes == (frozenset(NODES[1:3]),)


def test_a_pool_runs_on_its_class() -> None:
    change = PoolChanged(frozenset(NODES[:6]), frozenset(), (("gpu", frozenset(NODES[:2])),))
    state = observe(
        State(1),
        Event(
            0.0, (change, TrainerSubmitted(pool(node_class="gpu")), TrainerSubmitted(pool("any")))
        ),
    )
    plan = decide(state, policy(), event(0.0))  # type: ignore[arg-type]
    assert plan.nodes == (frozenset(NODES[:2]), frozenset(NODES[2:6]))
