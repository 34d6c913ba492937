"""Estimated curves after measurements, and decisions on them: without noise, with much noise, with
nothing known.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from core.test_loop_properties import POOL_POLICIES, SETTINGS, Watching, scenarios
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.strategies import curves

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.core.coordinator import adopt, decide, observe
from bftrainer.decide.core.loop import run
from bftrainer.decide.domain.events import (
    Event,
    PoolChanged,
    RateSeen,
    StallSeen,
    TimerDue,
    TrainerSubmitted,
)
from bftrainer.decide.domain.measurements import WINDOWS, Measurements, middle
from bftrainer.decide.domain.model import Curve, Learning, Trainer
from bftrainer.decide.domain.rescaling import Rescaling, rescaled
from bftrainer.decide.domain.state import State
from bftrainer.decide.estimation.estimates import estimate
from bftrainer.decide.estimation.update import MAX_KEPT, measurement_texts
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer.plugins import build_policy
from bftrainer_replay.simulation.learned_curves import without_curves
from bftrainer_replay.simulation.meter import Meter
from bftrainer_replay.simulation.play import Scenario
from bftrainer_replay.simulation.replay_world import ReplayWorld

POLICY = BFTrainer(Exact(), OBJECTIVES["throughput"], 120.0)
LAST = 12


def measured_at(
    curve: Curve, visited: list[int], noise: float = 0.0, windows: int = 1, seed: int = 0
) -> Measurements:
    measured, rng = Measurements(), random.Random(seed)
    for n in visited:
        for _ in range(windows):
            measured = measured.with_rate(n, curve.at(n) * max(1 + rng.gauss(0, noise), 0.1), 20.0)
    return measured


@st.composite
def rising(draw: st.DrawFn) -> Curve:
    """A true curve: more nodes never bring less; concave or not."""
    steps = draw(st.lists(st.floats(0.0, 50.0), min_size=LAST, max_size=LAST))
    if draw(st.booleans()):
        steps = sorted(steps, reverse=True)
    values, total = [], 1.0
    for step in steps:
        total += step
        values.append(total)
    return Curve(tuple(range(1, LAST + 1)), tuple(values))


PRIORS = curves(1, LAST)
VISITS = st.lists(st.integers(1, LAST), min_size=1, max_size=30)


@settings(deadline=None)
@given(PRIORS, rising(), VISITS)
def test_without_noise_measured_points_are_kept(
    prior: Curve, truth: Curve, visited: list[int]
) -> None:
    estimated = estimate(prior, measured_at(truth, visited))
    # Of points in a line one may lie below it by a rounding, and is lifted.
    assert [estimated.at(n) for n in visited] == pytest.approx(
        [truth.at(n) for n in visited], rel=1e-12
    )


@settings(max_examples=300, deadline=None)
@given(PRIORS, st.lists(st.tuples(st.integers(1, LAST + 3), st.floats(0, 1e5)), max_size=40))
def test_estimates_never_fall_and_cover_what_was_submitted(
    prior: Curve, windows: list[tuple[int, float]]
) -> None:
    measured = Measurements()
    for n, rate in windows:
        measured = measured.with_rate(n, rate, 20.0)
    estimated = estimate(prior, measured)
    if not any(p.nodes <= LAST for p in measured.points):
        assert estimated is prior
        return
    values = [estimated.at(n) for n in range(LAST + 1)]
    assert all(low <= high * (1 + 1e-9) for low, high in pairwise(values))
    assert estimated.nodes[0] == 1
    assert estimated.nodes[-1] == prior.nodes[-1]


@settings(max_examples=300, deadline=None)
@given(PRIORS, st.lists(st.floats(0.0, 50.0), min_size=LAST, max_size=LAST), VISITS)
def test_concave_measurements_give_a_concave_curve(
    prior: Curve, steps: list[float], visited: list[int]
) -> None:
    values = [0.0]
    for step in sorted(steps, reverse=True):
        values.append(values[-1] + step)
    truth = Curve(tuple(range(1, LAST + 1)), tuple(values[1:]))
    estimated = estimate(prior, measured_at(truth, visited))
    slopes = [estimated.at(n + 1) - estimated.at(n) for n in range(LAST)]
    scale = 1e-6 * max(*values, 1.0)
    top = max(visited)
    assert all(left >= right - scale for left, right in pairwise(slopes[:top])), slopes
    assert all(slope <= slopes[top - 1] + scale for slope in slopes[top:]), (
        "no steeper beyond than measured before"
    )


def test_one_point_scales_the_curve_and_keeps_its_shape() -> None:
    prior = Curve((1, 4, 16), (10.0, 35.0, 100.0))
    estimated = estimate(prior, Measurements().with_rate(16, 200.0, 20.0))
    assert estimated.at(16) == 200.0
    assert estimated.at(4) == pytest.approx(70.0, rel=0.02)
    assert estimated.at(1) == pytest.approx(20.0, rel=0.02)


def test_two_far_points_bend_a_flat_curve() -> None:
    truth = Curve((1, 64), (100.0, 5000.0))
    estimated = estimate(
        Curve((1, 64), (100.0, 100.0)), measured_at(truth, [2, 32], noise=0.1, windows=3)
    )
    assert estimated.at(16) == pytest.approx(truth.at(16), rel=0.2)


def test_a_firm_dent_stays_and_a_soft_one_is_lifted() -> None:
    dent = Curve((1, 2, 3, 4), (10.0, 12.0, 30.0, 40.0))
    firm = estimate(dent, measured_at(dent, [1, 2, 3, 4], noise=0.01, windows=5))
    assert firm.at(2) == pytest.approx(12.0, rel=0.1)
    line = Curve((1, 8), (10.0, 80.0))
    measured = measured_at(line, list(range(1, 9)), noise=0.1, windows=2, seed=3)
    estimated = estimate(line, measured)
    slopes = [estimated.at(n + 1) - estimated.at(n) for n in range(8)]
    raw = [measured.points[n].rate - measured.points[n - 1].rate for n in range(1, 8)]
    assert max(slopes) < max(raw), "adjacent points constrain each other"


@settings(deadline=None)
@given(
    st.lists(st.floats(90.0, 110.0), min_size=4, max_size=WINDOWS - 1),
    st.floats(0.0, 1e6),
    st.randoms(),
)
def test_one_wild_window_moves_nothing(
    windows: list[float], wild: float, rng: random.Random
) -> None:
    mixed = [*windows, wild]
    rng.shuffle(mixed)
    assert min(windows) <= middle(tuple(mixed)) <= max(windows)


def test_old_measurements_are_forgotten() -> None:
    measured = measured_at(Curve((1, 2), (1.0, 2.0)), [1] * 50)
    for _ in range(WINDOWS):
        measured = measured.with_rate(1, 5.0, 20.0)
    point = measured.at(1)
    assert point.rate == 5.0
    assert point.seconds == 20.0 * (50 + WINDOWS)


# --- in the loop

TRUTH = Curve(tuple(range(1, 17)), tuple(50.0 * n**0.8 for n in range(1, 17)))
NODES = frozenset(f"n{i:02d}" for i in range(16))


def learned(name: str, curve: Curve, **settings: object) -> Trainer:
    return Trainer(name, curve, 1, 16, 20.0, 10.0, learning=Learning(**settings))  # type: ignore[arg-type]


def after(
    state: State,
    *measured: RateSeen | StallSeen,
    at_s: float,
    changes: tuple[object, ...] = (TimerDue(),),
) -> State:
    event = Event(at_s, changes, measured=measured)  # type: ignore[arg-type]
    seen = observe(state, event)
    return adopt(seen, decide(seen, POLICY, event))


def begun(*trainers: Trainer, pool: frozenset[str] = NODES) -> State:
    changes = (PoolChanged(joined=pool), *(TrainerSubmitted(t) for t in trainers))
    return after(State(10), at_s=0.0, changes=changes)


def test_without_learning_nothing_is_touched() -> None:
    plain = Trainer("a", TRUTH, 1, 16, 20.0, 10.0)
    state = begun(plain)
    later = after(state, RateSeen("a", 16, 1.0, 20.0), RateSeen("gone", 1, 1.0, 20.0), at_s=60.0)
    assert later.active[0].trainer is plain
    assert later.measurements == ()
    assert state.wake_at_s is None


def test_a_measured_rate_and_stall_replace_what_was_submitted() -> None:
    state = begun(learned("a", Curve((1, 16), (100.0, 1600.0))))
    nodes = len(state.active[0].nodes)
    state = after(
        state, StallSeen("a", True, 7.0), RateSeen("a", nodes, TRUTH.at(nodes), 20.0), at_s=60.0
    )
    now = state.active[0]
    assert now.trainer.curve.at(nodes) == TRUTH.at(nodes)
    assert (now.trainer.scale_up_s, now.trainer.scale_down_s) == (7.0, 10.0)
    assert now.submitted.curve.per_s == (100.0, 1600.0)


def test_start_and_switch_are_learned_where_the_old_nodes_train_on() -> None:
    state = begun(learned("a", TRUTH))
    state = after(
        state, StallSeen("a", True, 9.0), at_s=60.0
    )  # from 0 nodes: start and switch are one
    assert (state.active[0].trainer.start_s, state.active[0].trainer.scale_up_s) == (None, 9.0)
    state = after(state, StallSeen("a", True, 3.0, 0.4), at_s=120.0)  # all nodes stalled at once
    assert (state.active[0].trainer.start_s, state.active[0].trainer.scale_up_s) == (None, 3.0)
    state = begun(learned("a", TRUTH))
    state = after(state, StallSeen("a", True, 9.0), at_s=60.0)
    state = after(state, StallSeen("a", True, 0.5, 8.0), at_s=120.0)
    now = state.active[0].trainer
    assert (now.start_s, now.scale_up_s, now.growth_s) == (8.0, 0.5, 8.5)
    state = after(state, StallSeen("a", True, 10.5), StallSeen("a", False, 0.25), at_s=180.0)
    now = state.active[0].trainer
    assert (now.start_s, now.scale_up_s, now.scale_down_s) == (8.0, 0.5, 0.25), (
        "a start from 0 is no switch"
    )


def test_a_start_from_0_nodes_is_learned_apart() -> None:
    """The driver starts, too: 2 s more than when nodes are added. It says nothing before a start
    was measured.
    """
    state = after(begun(learned("a", TRUTH)), StallSeen("a", True, 9.0, from_zero=True), at_s=60.0)
    assert (state.active[0].trainer.scale_up_s, state.active[0].trainer.from_zero_s) == (9.0, None)
    state = after(state, StallSeen("a", True, 0.5, 6.5), at_s=120.0)
    now = state.active[0].trainer
    assert (now.growth_s, now.from_zero_s, now.starts_s(0), now.starts_s(2)) == (7.0, 9.0, 8.5, 6.5)
    assert rescaled(now, None, frozenset(), frozenset("xy"), 100.0).ready_s == 109.0
    assert rescaled(now, None, frozenset("x"), frozenset("xy"), 100.0).ready_s == 107.0


def test_the_state_knows_what_is_left_of_a_start() -> None:
    costs = {"start_s": 20.0, "scale_up_s": 1.0, "scale_down_s": 2.0}
    trainer = replace(learned("a", TRUTH), learning=None, **costs)
    state = begun(trainer, pool=frozenset({"n00", "n01"}))
    state = after(state, at_s=100.0, changes=(PoolChanged(joined=frozenset({"n02", "n03"})),))
    left = state.active[0].rescaling
    assert left == Rescaling(frozenset({"n00", "n01"}), 100.0, 121.0, 120.0)
    state = after(state, at_s=110.0, changes=(PoolChanged(left=frozenset({"n00", "n01"})),))
    assert state.active[0].rescaling == Rescaling(frozenset(), 112.0, 121.0, 120.0), (
        "they still start"
    )
    assert after(state, at_s=121.0).active[0].rescaling is None


def test_the_loop_wakes_to_measure_and_stops_asking_who_never_reports() -> None:
    state = begun(learned("a", TRUTH))
    wakes: list[float] = []
    while state.wake_at_s is not None and len(wakes) < 50:
        wakes.append(state.wake_at_s)
        state = after(state, at_s=state.wake_at_s)
    assert wakes[0] == pytest.approx(1.25 * (20 + 20))
    assert 3 <= len(wakes) <= 8
    assert wakes[-1] <= 900


def test_trainers_of_one_model_learn_together_and_the_next_one_knows() -> None:
    placeholder = Curve((1, 16), (1.0, 16.0))
    state = begun(*(learned(name, placeholder, key="m", blank=True) for name in ("a", "b")))
    seen = [
        RateSeen(a.trainer.id, len(a.nodes), TRUTH.at(len(a.nodes)), 20.0)
        for a in state.active
        if a.nodes
    ]
    state = after(state, seen[0], at_s=60.0)
    assert state.active[0].trainer.curve == state.active[1].trainer.curve
    third = learned("c", placeholder, key="m", blank=True)
    state = after(state, at_s=61.0, changes=(TrainerSubmitted(third),))
    assert state.active[2].trainer.curve.at(seen[0].nodes) == TRUTH.at(seen[0].nodes)


def test_a_blank_trainer_is_worth_as_much_as_the_best_but_only_on_its_share() -> None:
    known = Trainer("k", TRUTH, 1, 16, 20.0, 10.0)
    state = begun(known, learned("a", Curve((1, 16), (1.0, 16.0)), blank=True))
    assert len(state.active[1].nodes) == 4, "a quarter of sixteen"
    curve = state.active[1].trainer.curve
    assert curve.at(4) == 4 * TRUTH.at(1)
    assert curve.at(16) == curve.at(4)


def test_a_blank_trainer_gets_its_share_of_the_pool_or_alone_all_of_it() -> None:
    blank = learned("a", Curve((1, 16), (1.0, 16.0)), blank=True)
    state = begun(blank, pool=frozenset())
    assert state.active[0].nodes == frozenset()
    state = after(state, at_s=10.0, changes=(PoolChanged(joined=NODES),))
    assert len(state.active[0].nodes) == 16
    state = after(state, at_s=20.0, changes=(TrainerSubmitted(replace(blank, id="b")),))
    assert [len(a.nodes) for a in state.active] == [4, 4]


def test_a_flat_curve_is_found_out() -> None:
    """With that estimate, the policy would leave the trainer on one node forever."""
    state = begun(learned("a", Curve((1, 16), (50.0, 50.0)), window_s=20.0))
    sizes, learned_of = [len(state.active[0].nodes)], [measurement_texts(state)]
    for at_s in range(60, 1200, 60):
        n = len(state.active[0].nodes)
        state = after(state, RateSeen("a", n, TRUTH.at(n), 30.0), at_s=float(at_s))
        sizes.append(len(state.active[0].nodes))
        learned_of.append(measurement_texts(state))
    assert len(set(learned_of)) == 5, (
        "nothing, a size, a trial, two more sizes: each time it may use other nodes"
    )
    assert sizes[0] == 1
    assert sizes[-1] == 16, sizes
    assert state.active[0].trainer.sizes is None, "free again"


def test_exploring_ends_when_no_measurement_comes() -> None:
    state = begun(learned("a", Curve((1, 16), (50.0, 50.0))))
    state = after(state, RateSeen("a", 1, 50.0, 20.0), at_s=60.0)
    state = after(state, StallSeen("a", True, 20.0), at_s=200.0)
    assert state.active[0].trainer.sizes is not None
    assert len(state.active[0].nodes) >= 2
    state = after(state, StallSeen("a", True, 20.0), at_s=1000.0)
    assert state.active[0].trainer.sizes is None


def test_measurements_are_bounded() -> None:
    state = State(10_000)
    trainers = [learned(f"t{i}", TRUTH) for i in range(MAX_KEPT + 5)]
    state = after(state, at_s=0.0, changes=tuple(TrainerSubmitted(t) for t in trainers))
    state = after(state, *(RateSeen(t.id, 1, 50.0, 20.0) for t in trainers), at_s=60.0)
    assert len(state.measurements) == MAX_KEPT
    assert state.measurements[-1][0] == f"trainer t{MAX_KEPT + 4}"


@settings(deadline=None)
@given(st.integers(0, 1000))
@example(0)
def test_small_moves_keep_the_estimated_trainer(seed: int) -> None:
    """A new curve costs the solver its tables: noise within the tolerance must not make one."""
    state = begun(learned("a", TRUTH))
    n, rng = len(state.active[0].nodes), random.Random(seed)
    state = after(state, RateSeen("a", n, TRUTH.at(n), 20.0), at_s=60.0)
    kept = state.active[0].trainer
    for i in range(20):
        state = after(
            state, RateSeen("a", n, TRUTH.at(n) * rng.uniform(0.99, 1.01), 20.0), at_s=80.0 + i
        )
    assert state.active[0].trainer is kept


def test_a_requested_size_stays_legal_while_another_is_tried() -> None:
    asks = replace(learned("a", Curve((1, 16), (50.0, 50.0))), requested_nodes=1)
    state = begun(asks)
    state = after(state, RateSeen("a", 1, 50.0, 20.0), at_s=60.0)
    state = after(state, StallSeen("a", True, 20.0), at_s=200.0)
    tried = state.active[0].trainer
    assert tried.sizes is not None
    assert tried.requested_nodes in tried.sizes


# --- The invariants of the loop for every policy while it learns: estimates may be wrong, decisions
# must be legal

QUICK = Learning(share=0.5, window_s=5.0, explore_after_s=10.0)


@pytest.mark.parametrize("policy", POOL_POLICIES)
@settings(max_examples=30, deadline=None)
@given(scenarios(), st.booleans(), st.sampled_from((0.0, 0.5)))
def test_invariants_hold_while_learning(
    policy: str, scenario: Scenario, by_model: bool, noise: float
) -> None:
    named = tuple(replace(a, trainer=replace(a.trainer, model="m")) for a in scenario.arrivals)
    arrivals = without_curves(named, by_model=by_model, learning=QUICK)
    world = ReplayWorld(
        scenario.window, arrivals, scenario.cost_model, scenario.decide_on, meter=Meter(noise, 1)
    )
    journal = Watching(scenario.max_parallel, world)
    state = run(world, State(scenario.max_parallel), build_policy(policy, SETTINGS), journal)
    assert journal.plans
    for active in state.active:
        if active.submitted is not None:
            assert active.trainer.max_nodes == active.submitted.max_nodes
            assert all(active.submitted.is_legal(n) for n in active.trainer.sizes or ())
