"""The loop's invariants, for every policy, on random logs and workloads: what no event may
break.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.windows import window

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import DEFAULT_OBJECTIVE, OBJECTIVES
from bftrainer.decide.core.loop import run
from bftrainer.decide.domain.events import Event, PoolChanged
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.state import Plan, State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.plugins import build_policy
from bftrainer.slots import Slot
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.simulation.bounds import no_cost_bound, start_bound
from bftrainer_replay.simulation.losses import LossCurve
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import Arrival, DecideOn, ReplayWorld
from bftrainer_replay.simulation.upper_bound import upper_bound

# Every policy that shares the pool's nodes; a new one belongs here.
POOL_POLICIES = (
    "bftrainer",
    "equal-share",
    "modelarts-greedy",
    "modelarts-optimal",
    "afs-l",
    "afs-p",
    "srtf",
    "themis",
    "tiresias-l",
    "fcfs-rigid",
    "plain",
    "loss-phase",
    "flowcon",
    "cohort",
)
SETTINGS = PolicySettings(Exact(), OBJECTIVES[DEFAULT_OBJECTIVE], forward_s=120.0, seed=7)
NODES = tuple(f"n{i:02d}" for i in range(12))


@dataclass
class Watching:
    """A journal that checks every plan against the state it was made for, and follows the sets from
    event to event.
    """

    max_parallel: int
    world: ReplayWorld
    held: dict[str, frozenset[str]] = field(default_factory=dict)
    pool: frozenset[str] = frozenset()
    plans: list[Plan] = field(default_factory=list)
    last_s: float = -math.inf

    def record(self, event: Event, state: State, plan: Plan) -> None:
        assert event.at_s >= self.last_s
        self.last_s = event.at_s
        for change in event.changes:
            if isinstance(change, PoolChanged):
                self.pool = (self.pool - change.left) | change.joined
        assert state.pool == self.pool
        places = self.max_parallel if state.max_parallel is None else state.max_parallel
        assert len(state.active) <= places
        assert not (state.queue and len(state.active) < places), (
            "a place is free while somebody queues"
        )
        given_out: set[str] = set()
        for active, nodes in zip(state.active, plan.nodes, strict=True):
            trainer = active.trainer
            assert nodes <= state.pool, "a node outside the pool"
            assert given_out.isdisjoint(nodes), "a node to two trainers"
            given_out |= nodes
            assert trainer.is_legal(len(nodes))
            before = self.held.get(trainer.id, frozenset()) & state.pool
            assert active.nodes == before, "a preemption took more or less than the nodes that left"
            assert nodes <= before or nodes >= before, "a rescale that is not nested"
        self.held = {a.trainer.id: nodes for a, nodes in zip(state.active, plan.nodes, strict=True)}
        runs = self.world.runs.values()
        trained = [
            min(
                run.samples if run.finished_s is not None else run.samples_at(event.at_s), run.total
            )
            for run in runs
        ]
        assert self.world.totals().samples == pytest.approx(sum(trained)), (
            "the totals are not those of the trainers"
        )
        self.plans.append(plan)


@st.composite
def windows(draw: st.DrawFn) -> LogWindow:
    """A pool of up to 12 nodes that changes up to 15 times in up to an hour."""
    initial = draw(st.sets(st.sampled_from(NODES)))
    times = sorted(draw(st.sets(st.integers(1, 3599), max_size=15)))
    flips = (
        (float(at_s), draw(st.sets(st.sampled_from(NODES), min_size=1, max_size=6)))
        for at_s in times
    )
    return window(3600.0, initial, *flips, nodes=len(NODES))


@st.composite
def trainers(draw: st.DrawFn, name: str) -> Trainer:
    high = draw(st.integers(1, 8))
    low = draw(st.integers(1, high))
    power = draw(st.sampled_from((0.5, 0.9, 1.0, 1.3)))
    sizes = draw(st.none() | st.sets(st.integers(low, high), min_size=1, max_size=3))
    return Trainer(
        name,
        Curve(tuple(range(1, high + 1)), tuple(10.0 * n**power for n in range(1, high + 1))),
        low,
        high,
        draw(st.sampled_from((0.0, 5.0, 40.0))),
        draw(st.sampled_from((0.0, 3.0, 40.0))),
        draw(st.sampled_from((50.0, 5_000.0, 1e6))),
        sizes=None if sizes is None else tuple(sorted(sizes)),
        reports_loss=True,
        start_s=draw(st.sampled_from((None, 0.0, 30.0))),
        from_zero_s=draw(st.sampled_from((None, 10.0, 60.0))),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    arrivals = tuple(
        Arrival(
            float(draw(st.integers(-100, 3600))), draw(trainers(f"t{i}")), losses=LossCurve(0.9)
        )
        for i in range(draw(st.integers(0, 6)))
    )
    cost_model, decide_on = draw(st.sampled_from(CostModel)), draw(st.sampled_from(DecideOn))
    return Scenario(draw(windows()), arrivals, draw(st.integers(1, 4)), cost_model, decide_on)


def watched(scenario: Scenario, policy: str) -> tuple[Watching, ReplayWorld]:
    world = ReplayWorld(scenario.window, scenario.arrivals, scenario.cost_model, scenario.decide_on)
    journal = Watching(scenario.max_parallel, world)
    run(world, State(max_parallel=scenario.max_parallel), build_policy(policy, SETTINGS), journal)
    return journal, world


@pytest.mark.parametrize("policy", POOL_POLICIES)
@settings(max_examples=120, deadline=None)
@given(scenarios())
def test_invariants_hold_at_every_event(policy: str, scenario: Scenario) -> None:
    journal, world = watched(scenario, policy)
    assert journal.plans
    for trainer_run in world.runs.values():
        total = trainer_run.trainer.samples_total
        assert total is not None
        assert trainer_run.samples <= total * (1 + 1e-9)
        if scenario.cost_model is CostModel.STALL:
            assert trainer_run.samples >= 0
        if trainer_run.finished_s is not None:
            assert trainer_run.samples == total
    used_s = sum(r.node_s for r in world.runs.values())
    there_s = len(NODES) * scenario.window.span_s
    assert used_s <= there_s


@pytest.mark.parametrize("policy", ["bftrainer", "equal-share", "fcfs-rigid"])
@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_slots_of_nodes_with_one_gpu_are_decided_and_placed_like_nodes(
    policy: str, scenario: Scenario
) -> None:
    def slots(nodes: frozenset[str]) -> frozenset[str]:
        return frozenset(Slot(node, "7", 0).name for node in nodes)

    changes = (
        PoolEvent(e.at_s, PoolChanged(slots(e.change.joined), slots(e.change.left)))
        for e in scenario.window.events
    )
    of_slots = replace(
        scenario.window, initial=slots(scenario.window.initial), events=tuple(changes)
    )
    by_node, _ = watched(scenario, policy)
    by_gpu, _ = watched(replace(scenario, window=of_slots), policy)
    assert [p.decision for p in by_gpu.plans] == [p.decision for p in by_node.plans]
    assert [p.nodes for p in by_gpu.plans] == [tuple(map(slots, p.nodes)) for p in by_node.plans]


@st.composite
def alike_with_work_to_spare(draw: st.DrawFn) -> Scenario:
    """Identical concave trainers whose work outlasts the window, all there from the start: the
    bound's assumptions.
    """
    high = draw(st.integers(1, 8))
    power = draw(st.sampled_from((0.5, 0.9, 1.0)))
    curve = Curve(tuple(range(1, high + 1)), tuple(10.0 * n**power for n in range(1, high + 1)))
    costs = (draw(st.sampled_from((0.0, 5.0, 40.0))), draw(st.sampled_from((0.0, 3.0, 40.0))))
    places = draw(st.integers(1, 4))
    alike = [
        Trainer(f"t{i}", curve, 1, high, *costs, samples_total=1e9, reports_loss=True)
        for i in range(places + 2)
    ]
    queue = tuple(Arrival(0.0, trainer) for trainer in alike)
    return Scenario(draw(windows()), queue, places, draw(st.sampled_from(CostModel)), DecideOn.ALL)


@pytest.mark.parametrize("policy", POOL_POLICIES)
@settings(max_examples=100, deadline=None)
@given(
    st.tuples(st.just(False), scenarios()) | st.tuples(st.just(True), alike_with_work_to_spare())
)
def test_nothing_beats_a_bound(policy: str, drawn: tuple[bool, Scenario]) -> None:
    """The bound without costs assumes equal trainers. With starts, a node that joined less than
    R_up ago is idle.
    """
    are_alike, scenario = drawn
    if policy == "plain":  # no P_jmax
        scenario = replace(scenario, max_parallel=len(scenario.arrivals))
    samples = play(scenario, build_policy(policy, SETTINGS)).totals.samples
    trainers = [
        arrival.trainer for arrival in sorted(scenario.arrivals, key=lambda arrival: arrival.at_s)
    ]
    bound = upper_bound(pool_sizes_of(scenario.window), trainers, scenario.max_parallel)
    assert samples <= bound * (1 + 1e-6) + 1e-3
    starts = start_bound(scenario)
    assert (starts is None) == (scenario.cost_model is CostModel.PAPER)
    assert starts is None or samples <= starts * (1 + 1e-6) + 1e-3
    assert not are_alike or samples <= no_cost_bound(scenario) * (1 + 1e-9)


SIZE_TWO = Trainer(
    "t0", Curve((1, 2), (10.0, 14.0)), 1, 2, 5.0, 0.0, 1e6, sizes=(2,), reports_loss=True
)


@pytest.mark.parametrize("policy", POOL_POLICIES)
@pytest.mark.parametrize("cost_model", CostModel)
def test_old_nodes_do_not_train_at_an_illegal_size_while_new_ones_start(
    policy: str, cost_model: CostModel
) -> None:
    """One of two nodes is replaced. Hypothesis found this: the old node used to train alone for the
    5 s of the start.
    """
    trainer = (
        replace(SIZE_TWO, scale_up_s=0.0, start_s=5.0)
        if cost_model is CostModel.OVERLAP
        else SIZE_TWO
    )
    pool = window(3600.0, {"n00"}, (2.0, ("n00", "n01", "n02")), (7.0, ("n00", "n01")), nodes=12)
    scenario = Scenario(pool, (Arrival(0.0, trainer, losses=LossCurve(0.9)),), 1, cost_model)
    samples = play(scenario, build_policy(policy, SETTINGS)).totals.samples
    starts = start_bound(scenario)
    assert starts is None or samples <= starts
    assert samples <= upper_bound(pool_sizes_of(pool), [trainer], 1)


def test_a_start_from_no_nodes_may_be_shorter_than_one_beside_old_nodes() -> None:
    """The start bound allows for it."""
    trainer = replace(SIZE_TWO, start_s=60.0, from_zero_s=10.0)
    scenario = Scenario(
        window(100.0, {"n00", "n01"}), (Arrival(0.0, trainer),), 1, CostModel.OVERLAP
    )
    samples = play(scenario, build_policy("bftrainer", SETTINGS)).totals.samples
    assert samples == pytest.approx(90 * 14.0)
    joining = replace(scenario, window=window(100.0, (), (10.0, ("n00", "n01"))))
    samples = play(joining, build_policy("bftrainer", SETTINGS)).totals.samples
    assert samples == pytest.approx(80 * 14.0)
    assert start_bound(joining) == pytest.approx(samples)


@pytest.mark.parametrize("cost_model", [CostModel.STALL, CostModel.DELAY])
@pytest.mark.parametrize("from_zero_s", [2.0, 10.0])
def test_without_starts_in_the_cost_model_a_start_from_no_nodes_takes_r_up(
    cost_model: CostModel, from_zero_s: float
) -> None:
    scenario = Scenario(
        window(100.0, {"n00", "n01"}),
        (Arrival(0.0, replace(SIZE_TWO, from_zero_s=from_zero_s)),),
        1,
        cost_model,
    )
    samples = play(scenario, build_policy("bftrainer", SETTINGS)).totals.samples
    assert samples == pytest.approx(95 * 14.0)
