"""Known window ends feed the decision: nobody grows onto a node that ends before that has paid for
itself.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.allocation.placement import place
from bftrainer.decide.allocation.window_ends import drop_unprofitable_growth, lifetime_s
from bftrainer.decide.core.coordinator import adopt, decide, observe
from bftrainer.decide.domain.events import Event, PoolChanged, TrainerSubmitted
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.state import Nodes, State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.plugins import build_policy

SETTINGS = PolicySettings(Exact(), OBJECTIVES["throughput"], forward_s=120.0)
POLICIES = ("bftrainer", "equal-share", "afs-p")
Ends = tuple[tuple[str, float], ...]


def names(*numbers: int) -> Nodes:
    return frozenset(f"n{i}" for i in numbers)


def trainer(
    name: str = "t", high: int = 8, low: int = 1, up_s: float = 20.0, down_s: float = 10.0
) -> Trainer:
    """Linear: 10 samples per second and node."""
    return Trainer(name, Curve((1, 8), (10.0, 80.0)), low, high, up_s, down_s)


def after(policy: str, state: State, event: Event) -> State:
    before = observe(state, event)
    return adopt(before, decide(before, build_policy(policy, SETTINGS), event))


def started(policy: str, *trainers: Trainer, pool: Nodes, ends: Ends = ()) -> State:
    changes = (PoolChanged(pool), *(TrainerSubmitted(t) for t in trainers))
    return after(policy, State(9), Event(0.0, changes, window_ends=ends))


# 2 -> 3 nodes, R 20 and 10 s: 30 (L - 30) > 20 L from L = 90 s on.
@pytest.mark.parametrize(
    ("left_s", "grows"), [(10.0, False), (60.0, False), (89.0, False), (91.0, True), (1e6, True)]
)
@pytest.mark.parametrize("policy", POLICIES)
def test_growing_onto_a_node_that_ends_too_soon_does_not_happen(
    policy: str, left_s: float, grows: bool
) -> None:
    state = started(policy, trainer(), pool=names(1, 2))
    assert state.active[0].nodes == names(1, 2)
    joins = Event(1000.0, (PoolChanged(names(3)),), window_ends=(("n3", 1000.0 + left_s),))
    assert after(policy, state, joins).active[0].nodes == (names(1, 2, 3) if grows else names(1, 2))


@pytest.mark.parametrize(("left_s", "starts"), [(30.0, False), (31.0, True)])
@pytest.mark.parametrize("policy", POLICIES)
def test_starting_must_outlast_its_own_rescales(policy: str, left_s: float, starts: bool) -> None:
    state = started(
        policy, trainer(), pool=names(1, 2), ends=tuple((n, left_s) for n in names(1, 2))
    )
    assert state.active[0].nodes == (names(1, 2) if starts else names())


@pytest.mark.parametrize("policy", POLICIES)
def test_long_windows_are_given_first_and_short_ones_let_go_first(policy: str) -> None:
    ends = (("n1", 40.0), ("n2", 500.0))
    state = started(policy, trainer(high=2), pool=names(1, 2, 3), ends=ends)
    assert state.active[0].nodes == names(2, 3)
    assert place(names(1, 2, 3), [names(1, 2, 3)], [1], dict(ends)) == (names(3),)


def test_a_long_window_is_used_though_a_short_one_is_not() -> None:
    state = started("bftrainer", trainer(), pool=names(1, 2, 3), ends=(("n2", 35.0),))
    assert state.active[0].nodes == names(1, 3)


def test_who_gave_nodes_for_growth_that_does_not_pay_keeps_them() -> None:
    old, new = trainer("old", down_s=0.0), trainer("new", low=3)
    held, placed = [names(1, 2, 3, 4), names()], [names(1, 2), names(3, 4, 5)]
    assert drop_unprofitable_growth([old, new], held, placed, {"n5": 12.0}) == (
        names(1, 2, 3, 4),
        names(),
    )
    assert drop_unprofitable_growth([old, new], held, placed, {"n5": 1e5}) == tuple(placed)


def test_a_trainer_below_its_minimum_lets_go_where_growing_does_not_pay() -> None:
    assert drop_unprofitable_growth(
        [trainer(low=3)], [names(1, 2)], [names(1, 2, 3)], {"n3": 12.0}
    ) == (names(),)


def test_bftrainer_looks_no_further_than_the_last_node_is_there() -> None:
    assert lifetime_s(names(1, 2), (("n1", 50.0),), 10.0) == math.inf
    assert lifetime_s(names(1, 2), (("n1", 50.0), ("n2", 40.0)), 10.0) == 40.0
    assert lifetime_s(names(), (), 10.0) == math.inf
    # A swap that pays within 120 s, and not within the 60 s that are left: b is faster, a has the
    # nodes.
    fast = Trainer("b", Curve((1, 8), (16.0, 128.0)), 4, 4, 0.0, 0.0)
    state = started("bftrainer", trainer("a", high=4, low=4, down_s=60.0), pool=names(1, 2, 3, 4))
    swap = Event(100.0, (TrainerSubmitted(fast),))
    assert [len(a.nodes) for a in after("bftrainer", state, swap).active] == [0, 4]
    ends = tuple((n, 160.0) for n in sorted(names(1, 2, 3, 4)))
    soon = Event(100.0, (TrainerSubmitted(fast),), window_ends=ends)
    assert [len(a.nodes) for a in after("bftrainer", state, soon).active] == [4, 0]


@st.composite
def situations(draw: st.DrawFn) -> tuple[State, Event]:
    """A state without known ends, and an event after which some are known."""
    trainers = []
    for j in range(draw(st.integers(1, 4))):
        high = draw(st.integers(1, 6))
        low = draw(st.integers(1, high))
        power = draw(st.sampled_from((0.5, 1.0, 1.2)))
        curve = Curve(tuple(range(1, high + 1)), tuple(10.0 * n**power for n in range(1, high + 1)))
        up_s, down_s = (
            draw(st.sampled_from((0.0, 5.0, 40.0))),
            draw(st.sampled_from((0.0, 3.0, 40.0))),
        )
        sizes = draw(st.none() | st.sets(st.integers(low, high), min_size=1, max_size=3))
        trainers.append(
            Trainer(
                f"t{j}",
                curve,
                low,
                high,
                up_s,
                down_s,
                sizes=None if sizes is None else tuple(sorted(sizes)),
            )
        )
    there = draw(st.sets(st.integers(0, 11)))
    state = started(draw(st.sampled_from(POLICIES)), *trainers, pool=names(*there))
    flipped = draw(st.sets(st.integers(0, 11), max_size=6))
    pool = (names(*there) - names(*flipped)) | names(*(flipped - there))
    change = PoolChanged(names(*(flipped - there)), names(*(flipped & there)))
    ending = sorted(n for n in pool if draw(st.booleans()))
    ends = tuple((n, 100.0 + draw(st.sampled_from((0.0, 7.0, 45.0, 90.0, 400.0)))) for n in ending)
    late = trainer("late", draw(st.integers(1, 6)))
    return state, Event(100.0, (change, TrainerSubmitted(late)), window_ends=ends)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=120, deadline=None)
@given(situations())
def test_a_trainer_that_grows_makes_more_until_the_first_end_than_without_the_ending_nodes(
    policy: str, situation: tuple[State, Event]
) -> None:
    state, event = situation
    before, ends = observe(state, event), dict(event.window_ends)
    plan = decide(before, build_policy(policy, SETTINGS), event)
    for active, nodes in zip(before.active, plan.nodes, strict=True):
        it, new = active.trainer, nodes - active.nodes
        assert it.is_legal(len(nodes))
        if not any(n in ends for n in new):
            continue
        left_s = min(ends[n] for n in new if n in ends) - event.at_s
        with_it = it.curve.at(len(nodes)) * (left_s - it.scale_up_s - it.scale_down_s)
        held = active.nodes if it.is_legal(len(active.nodes)) else frozenset()
        assert with_it > it.curve.at(len(held)) * max(left_s - it.scale_up_s, 0.0)
        assert with_it > 0
    assert decide(before, build_policy(policy, SETTINGS), event) == plan


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=40, deadline=None)
@given(situations())
def test_ends_that_are_far_away_change_no_count(
    policy: str, situation: tuple[State, Event]
) -> None:
    state, event = situation
    bare = Event(event.at_s, event.changes)
    far = Event(
        event.at_s, event.changes, window_ends=tuple((n, 1e9) for n, _ in event.window_ends)
    )
    asked = build_policy(policy, SETTINGS)
    one, other = decide(observe(state, bare), asked, bare), decide(observe(state, far), asked, far)
    assert one.decision.counts == other.decision.counts
